"""Directories on SSD below the memory, and the way back."""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import ziggurat

sys.path.insert(0, str(Path(__file__).parents[1] / "perf"))

import mooncake_store  # noqa: E402

MISS = -704
KEYS = [f"key-{number}" for number in range(8)]
VALUES = [key.encode() * 5000 for key in KEYS]


def eventually(is_so: Callable[[], bool]) -> None:
    """Waits for what has to come; the time is that of a machine that is busy with other things."""
    until = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.01)


def tiers(store: ziggurat.Store, key: str) -> list[str]:
    found = store.stat(key)
    assert found is not None
    return sorted(replica["tier"] for replica in found["replicas"])


def brought_back(store: ziggurat.Store) -> None:
    """Prefetches all keys, of which none is in memory."""
    assert [tiers(store, key) for key in KEYS] == [["ssd"]] * len(KEYS)
    answers = store.prefetch([*KEYS, "absent"], priority="high")
    assert set(answers[:-1]) <= {0, 1} and answers[-1] == MISS
    eventually(lambda: store.prefetch(KEYS, "dram", "low") == [1] * len(KEYS))
    assert [tiers(store, key) for key in KEYS] == [["dram", "ssd"]] * len(KEYS)
    assert store.cancel_prefetch(KEYS[:1]) == [1]
    assert store.get_many(KEYS) == VALUES


def test_a_store_in_process_comes_back_from_its_directory(tmp_path):
    with ziggurat.open("64MiB", ssd=f"{tmp_path}:256MiB") as store:
        assert store.put_many(KEYS, VALUES) == [0] * len(KEYS)
        assert "dram" in tiers(store, KEYS[0])
    with ziggurat.open("64MiB", ssd=tmp_path) as store:
        brought_back(store)


def test_a_node_gives_its_directory(tmp_path):
    disk, state = tmp_path / "disk", tmp_path / "state"
    disk.mkdir()
    with ziggurat.Master("127.0.0.1:0", state_dir=state) as master:

        def node() -> ziggurat.Node:
            return ziggurat.Node(master.address, "64MiB", name="n", ssd=f"{disk}:256MiB")

        with node() as first, ziggurat.connect(master.address, node=first) as store:
            assert store.put_many(KEYS, VALUES) == [0] * len(KEYS)
            eventually(lambda: store.stats()["owned_replicas"] == len(KEYS))
            (numbers,) = first.ssd()
            assert numbers["records"] == len(KEYS) and numbers["capacity"] == 256 << 20
            assert store.batch_stat([KEYS[0], "absent"])[1] is None
        with pytest.raises(ziggurat.Error, match="closed"):
            first.ssd()
        with pytest.raises(ziggurat.Error, match="closed"):
            ziggurat.connect(master.address, node=first)
        with node(), ziggurat.connect(master.address) as store:
            eventually(lambda: store.stats()["owned_replicas"] == len(KEYS))
            brought_back(store)


def test_a_bad_wish_is_told(tmp_path):
    with ziggurat.open("64MiB", ssd=tmp_path) as store:
        with pytest.raises(ValueError, match="use dram"):
            store.prefetch(KEYS, "ssd")
        with pytest.raises(ValueError, match="low, normal or high"):
            store.prefetch(KEYS, priority="urgent")
    with pytest.raises(ziggurat.Error, match="absent"):
        ziggurat.open(ssd=tmp_path / "absent")
    with pytest.raises(ValueError, match="many"):
        ziggurat.open(ssd=f"{tmp_path}:many")


def test_a_measurement_of_offload_runs(tmp_path):
    disk, state = tmp_path / "disk", tmp_path / "state"
    disk.mkdir()
    with ziggurat.Master("127.0.0.1:0", state_dir=state) as master:
        store = mooncake_store.MooncakeDistributedStore()
        code = store.setup(
            "127.0.0.1",
            "P2PHANDSHAKE",
            global_segment_size=64 << 20,
            master_server_addr=master.address,
            enable_ssd_offload=True,
            ssd_offload_path=str(disk),
        )
        assert code == 0 and store.get_offload_rpc_read_count() == 0
        source = ctypes.create_string_buffer(b"0123456789", 10)
        assert store.put_from("a", ctypes.addressof(source), 10) == 0

        def is_memory() -> list[bool]:
            (replicas,) = store.batch_get_replica_desc(["a", "none"]).values()
            return sorted(replica.is_memory_replica() for replica in replicas)

        eventually(lambda: is_memory() == [False, True])
        assert store.close() == 0
