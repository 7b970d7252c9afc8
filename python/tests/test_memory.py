"""Memory of the caller: the buffer protocol, bare addresses, and what is refused."""

import array
import ctypes
import mmap

import pytest
import ziggurat


def address_of(buffer) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"memoryview")[2:6],
        array.array("d", [1.5, 2.5]),
        (ctypes.c_uint32 * 3)(1, 2, 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_contiguous_buffer_can_be_stored(store, value):
    assert store.put("key", value)
    assert store.get("key") == bytes(memoryview(value).cast("B"))


def test_any_writable_buffer_can_be_read_into(store):
    content = bytes(range(16))
    store.put("key", content)
    with mmap.mmap(-1, 4096) as mapped:
        for room in (bytearray(16), array.array("d", [0.0, 0.0]), (ctypes.c_char * 16)(), memoryview(mapped)[:16]):
            assert store.get_into("key", room) == 16
            assert bytes(memoryview(room).cast("B")) == content
            if isinstance(room, memoryview):
                room.release()


def test_numpy_arrays_are_buffers(store):
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(1000, dtype=numpy.float32).reshape(10, 100)
    store.put("key", values)
    room = numpy.zeros_like(values)
    assert store.get_into("key", room) == values.nbytes and (room == values).all()
    with pytest.raises(BufferError, match="contiguous"):
        store.put("strided", values[:, ::2])
    with pytest.raises(TypeError, match="scalar"):
        store.put_from("scalar", numpy.uint64(12345), 8)


def test_addresses_are_memory(store):
    source, room = bytearray(b"0123456789"), bytearray(10)
    assert store.put_from("key", address_of(source), 10) is True
    assert store.put_from("key", address_of(source), 10) is False
    assert store.get_into("key", address_of(room), 10) == 10 and room == source
    keys = [f"key-{number}" for number in range(3)]
    start, target = address_of(source), address_of(room)
    assert store.batch_put_from(keys, [start, start + 1, start], [10, 3, 0]) == [0, 0, 0]
    assert store.batch_get_into(keys[1:], [target, target + 3], [3, 7]) == [3, 0]
    assert room[:3] == b"123" and room[3:] == b"3456789"


def test_a_size_takes_the_beginning(store):
    store.put_from("key", bytearray(b"0123456789"), 4)
    assert store.get("key") == b"0123"
    assert store.batch_put_from(["a", "b"], [b"0123", bytearray(b"4567")], [2, 0]) == [0, 0]
    assert store.get_many(["a", "b"]) == [b"01", b""]


@pytest.mark.parametrize("size", [-1, 5, 1 << 40])
def test_a_wrong_size_is_refused(store, size):
    for source in (b"1234", bytearray(b"1234")):
        with pytest.raises(ValueError, match="size"):
            store.put_from("key", source, size)
    with pytest.raises(ValueError, match="size"):
        store.get_into("key", bytearray(4), size)
    with pytest.raises(ValueError, match="size"):
        store.batch_put_from(["a", "b"], [b"1234", b"1234"], [4, size])
    assert not store.is_exist("key") and not store.is_exist("a")


def test_a_wrong_address_is_refused(store):
    for address, size in ((0, 1), (-1, 1), (1 << 64, 1), ((1 << 64) - 2, 8), (4096, -1)):
        with pytest.raises(ValueError):
            store.put_from("key", address, size)
    with pytest.raises(TypeError, match="size"):
        store.put_from("key", 4096)
    with pytest.raises(TypeError):
        store.put("key", "text is no buffer")
    with pytest.raises(BufferError, match="read-only"):
        store.get_into("key", memoryview(b"1234"))
    with pytest.raises(BufferError, match="contiguous"):
        store.put("key", memoryview(b"12345678")[::2])


def test_targets_of_a_batch_may_not_overlap(store):
    store.put_many(["a", "b"], [b"1234", b"5678"])
    room = bytearray(8)
    start = address_of(room)
    with pytest.raises(ValueError, match="overlap"):
        store.batch_get_into(["a", "b"], [start + 3, start], [4, 4])
    with pytest.raises(ValueError, match="overlap"):
        store.batch_get_into(["a", "b"], [room, room])
    assert store.batch_get_into(["a", "b"], [start + 4, start], [4, 4]) == [4, 4]
    assert room == b"56781234"


def test_a_buffer_cannot_move_and_is_let_go(store):
    room = bytearray(4)
    store.put("key", room)
    store.get_into("key", room)
    # An export that had stayed behind would forbid this.
    room.extend(b"more")
    assert len(room) == 8
