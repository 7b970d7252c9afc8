"""Values, keys, batches and errors, in process and through a cluster."""

import pickle

import pytest
import ziggurat

MISS = -704


def test_a_value_comes_back(store):
    assert store.put("key", b"value") is True
    assert store.get("key") == b"value"
    assert store.get_size("key") == 5
    assert "key" in store and store.is_exist("key") is True


def test_a_readable_key_keeps_its_value(store):
    assert store.put("key", b"first") is True
    assert store.put("key", b"second") is False
    assert store.get("key") == b"first"


def test_an_empty_value_is_no_miss(store):
    assert store.put("empty", b"")
    assert store.get("empty") == b"" and store.get("absent") is None
    assert store.get_size("empty") == 0 and store.get_size("absent") is None
    room = bytearray(4)
    assert store.get_into("empty", room) == 0 and store.get_into("absent", room) is None
    assert store.get_into("empty", bytearray()) == 0
    assert store.get_into("empty", 0, 0) == 0
    assert store.get_many(["empty", "absent"]) == [b"", None]
    assert store.batch_get_into(["empty", "absent"], [bytearray(1), bytearray(1)]) == [0, MISS]
    assert store.batch_is_exist(["empty", "absent"]) == [True, False]


def test_text_and_bytes_name_the_same_key(store):
    store.put("schlüssel", b"value")
    assert store.get("schlüssel".encode()) == b"value"
    store.put(b"\xff\x00", b"raw")
    assert store.get(b"\xff\x00") == b"raw" and b"\xff\x00" in store


@pytest.mark.parametrize("key", ["", "x" * 4097, b""])
def test_keys_have_bounds(store, key):
    with pytest.raises(ziggurat.Error) as caught:
        store.put(key, b"value")
    assert (caught.value.code, caught.value.name) == (-400, "INVALID_KEY")
    assert store.batch_put_from([key, "good"], [b"a", b"b"]) == [-400, 0]


def test_a_key_of_another_type_is_refused(store):
    for key in (1, None, bytearray(b"key")):
        with pytest.raises(TypeError, match="str or bytes"):
            store.get(key)
    with pytest.raises(UnicodeEncodeError):
        store.get("\ud800")
    with pytest.raises(TypeError, match="list of keys"):
        store.batch_is_exist("key")


def test_batches_answer_by_position(store):
    keys = [f"key-{number}" for number in range(300)]
    values = [key.encode() * number for number, key in enumerate(keys)]
    assert store.put_many(keys, values) == [0] * len(keys)
    assert store.put_many(keys[:2], [b"other", b"other"]) == [0, 0]
    assert store.get_many(keys) == values
    assert store.batch_is_exist([*keys, "absent"]) == [True] * len(keys) + [False]
    rooms = [bytearray(len(value)) for value in values]
    assert store.batch_get_into(keys, rooms) == [len(value) for value in values]
    assert rooms == values
    assert store.batch_remove([*keys, "absent"], True) == [0] * len(keys) + [MISS]
    assert store.batch_is_exist(keys) == [False] * len(keys)


def test_a_key_may_be_in_a_batch_twice(store):
    answers = store.batch_put_from(["twin", "twin", "other"], [b"one", b"two", b"three"])
    assert answers[2] == 0 and 0 in answers[:2] and set(answers[:2]) <= {0, -705}
    first, second = bytearray(3), bytearray(3)
    assert store.batch_get_into(["twin", "twin"], [first, second]) == [3, 3]
    assert first == second and bytes(first) in (b"one", b"two")
    assert store.get_many(["twin", "twin"]) == [bytes(first)] * 2


def test_empty_batches_are_fine(store):
    assert store.put_many([], []) == [] == store.get_many([]) == store.batch_get_into([], [], [])
    assert store.batch_is_exist(iter([])) == [] == store.batch_remove(())


def test_lists_of_a_batch_have_one_length(store):
    with pytest.raises(ValueError, match="2 keys and 1 buffers"):
        store.batch_put_from(["a", "b"], [b"a"])
    with pytest.raises(ValueError, match="1 keys and 2 sizes"):
        store.batch_get_into(["a"], [bytearray(1)], [1, 1])
    assert "a" not in store


def test_a_buffer_that_is_too_small_is_an_error(store):
    store.put("key", b"12345")
    with pytest.raises(ziggurat.Error) as caught:
        store.get_into("key", bytearray(4))
    assert caught.value.code == -10
    assert store.batch_get_into(["key", "key"], [bytearray(4), bytearray(9)]) == [-10, 5]


def test_remove(store):
    store.put("key", b"value")
    assert store.remove("key", force=True) is True
    assert store.remove("key", force=True) is False
    store.put_many(["a", "b", "c"], [b"1"] * 3)
    assert store.remove_all(force=True) == 3
    assert store.remove_all() == 0


def test_stats_count(store):
    before = store.stats()
    store.put("key", b"value")
    store.get("key")
    after = store.stats()
    assert after["objects"] == before["objects"] + 1
    assert after["locate_hits"] > before["locate_hits"]
    assert after["segments"] == 1 and after["capacity"] == 128 << 20


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    assert "closed" in repr(store)
    calls = [
        lambda: store.put("key", b""),
        lambda: store.get("key"),
        lambda: store.batch_is_exist(["key"]),
        lambda: store.stats(),
        lambda: "key" in store,
        lambda: store.__enter__(),
    ]
    for call in calls:
        with pytest.raises(ziggurat.Error, match="closed") as caught:
            call()
        assert caught.value.code == -1010


def test_tenants_do_not_see_each_other(master):
    with ziggurat.connect(master.address) as one, ziggurat.connect(master.address, tenant="other") as two:
        one.put("key", b"one")
        assert two.get("key") is None
        two.put("key", b"two")
        assert (one.get("key"), two.get("key")) == (b"one", b"two")
        assert two.remove_all(force=True) == 1 == one.remove_all(force=True)


def test_memory_is_recycled():
    with ziggurat.open(dram="8MiB", policy="fifo") as store:
        for number in range(64):
            assert store.put(f"key-{number}", bytes([number]) * (1 << 20))
        assert store.stats()["evicted"] > 0
        assert store.get("key-63") == bytes([63]) * (1 << 20)
        assert store.get("key-0") is None


def test_replicas_lie_on_several_segments():
    with ziggurat.open(dram="16MiB", segments=2) as store:
        store.put("key", bytes(1 << 20), replicas=2)
        assert store.stats()["used"] >= 2 << 20


@pytest.mark.parametrize(
    "options", [{"dram": "much"}, {"dram": 16, "policy": "best"}, {"policy": "lfu"}]
)
def test_options_are_checked(options):
    with pytest.raises(ValueError):
        ziggurat.open(**options)


def test_more_memory_than_there_is_is_an_error():
    with pytest.raises(ziggurat.Error) as caught:
        ziggurat.open(dram="1000TiB")
    assert caught.value.code == -200 and "available" in caught.value.message


def test_nobody_there_is_an_error():
    with pytest.raises(ziggurat.Error) as caught:
        ziggurat.connect("127.0.0.1:1", timeout="500ms")
    assert caught.value.name in ("RPC_FAIL", "RPC_TIMEOUT")
    with pytest.raises(ValueError, match="duration"):
        ziggurat.connect("127.0.0.1:1", timeout="soon")


def test_a_node_comes_and_goes():
    with ziggurat.Master("127.0.0.1:0", policy="s3_fifo") as master:
        with ziggurat.Node(master.address, 16 << 20, name="one") as node, ziggurat.connect(master.address) as store:
            with pytest.raises(ziggurat.Error) as caught:
                ziggurat.Node(master.address, "16MiB", name="one")
            assert caught.value.name == "SEGMENT_ALREADY_EXISTS"
            store.put("key", b"value")
            assert store.get("key") == b"value" and node.address.startswith("127.0.0.1:")
            node.stop()
            node.stop()
            assert store.get("key") is None
    master.stop()


def test_errors_travel():
    error = pickle.loads(pickle.dumps(ziggurat.Error(-400, "INVALID_KEY", "the key is empty")))
    assert str(error) == "the key is empty (INVALID_KEY -400)" and error.code == -400
