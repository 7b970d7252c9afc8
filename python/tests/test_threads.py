"""Threads: many at once, the interpreter free while the store works, closing under load."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import ziggurat


def test_threads_share_a_store(store):
    def hammer(thread: int) -> int:
        room = bytearray(5000)
        for number in range(100):
            key, value = f"{thread}-{number}", bytes([thread, number]) * (number * 20)
            assert store.put(key, value)
            assert store.get_into(key, room) == len(value) and room[: len(value)] == value
            assert store.batch_is_exist([key, key + "-absent"]) == [True, False]
            if number % 3 == 0:
                assert store.remove(key, force=True)
        return thread

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(hammer, range(8))) == list(range(8))
    assert store.stats()["objects"] == 8 * 66


def test_one_winner_among_writers_of_a_key(store):
    def write(thread: int) -> bool:
        try:
            return store.put("key", bytes([thread]) * 100_000)
        except ziggurat.Error as error:
            # Somebody else is writing it.
            assert error.code == -705
            return False

    with ThreadPoolExecutor(8) as pool:
        stored = list(pool.map(write, range(8)))
    assert stored.count(True) == 1
    assert store.get("key") == bytes([stored.index(True)]) * 100_000


def test_other_threads_run_while_a_call_waits():
    """A put without room waits for it; nothing else does."""
    with ziggurat.open(dram="1MiB") as store:
        store.put("big", bytes(900_000))
        assert store.get("big") is not None and store.is_exist("big")
        with ThreadPoolExecutor(1) as pool:
            started = threading.Event()

            def wait_for_room() -> float:
                started.set()
                begun = time.monotonic()
                try:
                    store.put("other", bytes(900_000))
                except ziggurat.Error as error:
                    assert error.name == "NO_AVAILABLE_HANDLE"
                return time.monotonic() - begun

            waiting = pool.submit(wait_for_room)
            started.wait()
            turns = 0
            while not waiting.done():
                turns += 1
            span = waiting.result()
    if span < 0.1:
        pytest.fail(f"the put was expected to wait, and took {span:.3f} s")
    # With the interpreter held for the whole call there would be a handful.
    assert turns > 1000


def test_closing_breaks_no_call(store):
    value = bytes(1 << 20)
    store.put("key", value)

    def read() -> int:
        count = 0
        try:
            while True:
                assert store.get("key") == value
                count += 1
        except ziggurat.Error as error:
            assert error.code == -1010
        return count

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        time.sleep(0.1)
        store.close()
        assert sum(reader.result() for reader in readers) > 0
