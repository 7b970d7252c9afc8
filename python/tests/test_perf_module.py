"""The module that side-by-side measurements drive."""

import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "perf"))

import mooncake_store  # noqa: E402
import ziggurat  # noqa: E402


def open_store(master: ziggurat.Master, segment_bytes: int) -> mooncake_store.MooncakeDistributedStore:
    store = mooncake_store.MooncakeDistributedStore()
    code = store.setup(
        local_hostname="127.0.0.1",
        metadata_server="P2PHANDSHAKE",
        global_segment_size=segment_bytes,
        local_buffer_size=1 << 20,
        protocol="tcp",
        rdma_devices="",
        master_server_addr=master.address,
    )
    assert code == 0
    return store


def test_a_measurement_runs():
    with ziggurat.Master("127.0.0.1:0") as master:
        node, client = open_store(master, 64 << 20), open_store(master, 0)
        source, room = bytearray(b"0123456789"), bytearray(10)
        start, target = (ctypes.addressof(ctypes.c_char.from_buffer(memory)) for memory in (source, room))
        assert client.register_buffer(start, 10) == 0
        assert client.put("a", memoryview(source)) == 0
        assert client.put_from("b", start, 10) == 0 == client.put_from("b", start, 10)
        assert client.batch_put_from(["c", "d"], [start, start], [10, 1]) == [0, 0]
        assert client.get("a") == source and client.get("none") == b""
        assert client.get_into("b", target, 10) == 10 and room == source
        assert client.get_into("none", target, 10) == mooncake_store.MISS
        assert client.batch_get_into(["c", "none"], [target, target + 10], [10, 0]) == [10, -704]
        assert client.is_exist("a") == 1 and client.is_exist("none") == 0
        assert client.batch_is_exist(["a", "none"]) == [1, 0]
        assert client.get_size("d") == 1 and client.get_size("none") == -704
        assert client.remove("a", True) == 0 and client.remove("a", True) == -704
        assert client.batch_remove(["b", "none"], True) == [0, -704]
        assert client.remove_all(True) == 2
        assert client.unregister_buffer(start) == 0
        assert client.close() == 0 == node.close()


def test_a_failed_setup_is_a_code():
    store = mooncake_store.MooncakeDistributedStore()
    code = store.setup("127.0.0.1", "P2PHANDSHAKE", master_server_addr="127.0.0.1:1")
    assert code < 0 and store.close() == 0
