"""Explicit arenas as store and receiver: what links see of them."""

import threading
from pickle import PickleBuffer
from typing import Any

import numpy as np
import pytest

from spdl._processes._transport._custom import CustomArena, CustomReceiver, CustomStore
from spdl.pipeline import InternalError, SharedMemoryRingBuffer, SharedMemorySegmentPool


def _open(arena: Any) -> tuple[CustomStore, CustomReceiver]:
    whole = CustomArena(arena)
    return whole.open_sender(), whole.open_receiver()


def _put(store: CustomStore, *buffers: bytes) -> Any:
    return store.put([PickleBuffer(each) for each in buffers])


def test_pool_gives_views_and_gets_them_back() -> None:
    """The unit ends when the last of its buffers is gone."""
    pool = SharedMemorySegmentPool(10_000, 2, acquire_timeout=0)
    store, receiver = _open(pool)
    assert receiver.bytes_as_views
    one, two = receiver.get(_put(store, b"one" * 1000, b"two" * 1000))
    array = np.frombuffer(memoryview(one), "u1")[5:]
    del one
    assert bytes(two) == b"two" * 1000
    del two
    assert pool.reclaimed == 0
    array[0] = 7
    del array
    assert pool.reclaimed == 1
    CustomArena(pool).close()


def test_ring_gives_copies() -> None:
    """The unit ends at once."""
    ring = SharedMemoryRingBuffer(10_000, acquire_timeout=0)
    store, receiver = _open(ring)
    assert not receiver.bytes_as_views
    for number in range(20):
        (view,) = receiver.get(_put(store, bytes([number]) * 7000))
        assert bytes(view) == bytes([number]) * 7000
    assert ring.head == ring.tail == 20 * 7000
    ring.close()


@pytest.mark.parametrize("make", [lambda: SharedMemoryRingBuffer(1000), lambda: SharedMemorySegmentPool(1000, 4)])
def test_units_that_are_not_sent_or_not_read_are_ended(make: Any) -> None:
    """Taken back or dropped: the units after them are the right ones, and nothing stays in use."""
    arena = make()
    store, receiver = _open(arena)
    store.take_back(_put(store, b"never sent"))
    dropped = _put(store, b"never read")
    store.take_back(_put(store, b"never sent either"))
    read = _put(store, b"read")
    receiver.drop(dropped)
    (view,) = receiver.get(read)
    assert bytes(view) == b"read"
    del view
    if isinstance(arena, SharedMemorySegmentPool):
        assert arena.published == arena.reclaimed == 4
    else:
        assert arena.head == arena.tail
    arena.close()


@pytest.mark.parametrize("make", [lambda: SharedMemoryRingBuffer(200), lambda: SharedMemorySegmentPool(100, 4)])
def test_leftovers_of_an_iteration_do_not_disturb_the_next(make: Any) -> None:
    """Dropped before the reset, or never sent and told of after it: all of the arena can be used again."""
    arena = make()
    store, receiver = _open(arena)
    left = [_put(store, bytes(30)) for _ in range(4)]
    for spans in left[:2]:
        receiver.drop(spans)
    for spans in left[2:]:
        store.take_back(spans)
    receiver.reset()
    store.reset()
    for number in range(10):
        (buffer,) = receiver.get(_put(store, bytes([number]) * 100))
        assert bytes(buffer) == bytes([number]) * 100
        del buffer
    if isinstance(arena, SharedMemorySegmentPool):
        assert arena.published == arena.reclaimed
    else:
        assert arena.head == arena.tail == 1000
    arena.close()


def test_dropping_wakes_a_producer_that_waits() -> None:
    """A consumer that starts anew drops what is left; the producer was waiting for room then."""
    ring = SharedMemoryRingBuffer(100)
    store, receiver = _open(ring)
    first = _put(store, bytes(100))
    second: list[Any] = []
    thread = threading.Thread(target=lambda: second.append(_put(store, b"x")))
    thread.start()
    receiver.drop(first)
    thread.join()
    receiver.drop(second[0])
    ring.close()


def test_what_does_not_fit_is_an_error_and_leaves_no_unit_open() -> None:
    """The next message goes through."""
    pool = SharedMemorySegmentPool(1000, 1, acquire_timeout=0)
    store, receiver = _open(pool)
    with pytest.raises(BufferError, match="does not fit"):
        _put(store, bytes(900), bytes(900))
    receiver.drop(_put(store, bytes(900)))
    kept = receiver.get(_put(store, bytes(900)))
    with pytest.raises(BufferError, match="in use"):
        _put(store, b"x")
    assert len(kept) == 1
    pool.close()


def test_messages_out_of_order_are_a_broken_invariant() -> None:
    """Better an error than somebody else's data."""
    pool = SharedMemorySegmentPool(1000, 3)
    store, receiver = _open(pool)
    _put(store, b"first")
    with pytest.raises(InternalError, match="in the order in which they were put"):
        receiver.get(_put(store, b"second"))
    pool.close()


class Recorder:
    """An arena of a user's, which keeps what it is given, and what is called."""

    zero_copy = True

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.data = bytearray()
        self.pinned: list[object] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda: self.calls.append(name)

    def open_writer(self) -> Any:
        return self

    def open_reader(self) -> Any:
        return self

    def write_binary(self, data: Any) -> tuple[int, int]:
        self.calls.append("write_binary")
        self.data += data
        return len(self.data) - len(data), len(data)

    def commit_unit(self) -> int:
        self.calls.append("commit_unit")
        return 42

    def read_binary(self, offset: int, nbytes: int) -> memoryview:
        return memoryview(bytes(self.data))[offset : offset + nbytes]

    def end_unit(self, span: int, pinned: list[object]) -> None:
        self.calls.append(f"end_unit({span}, {len(pinned)})")


def test_arenas_of_users_are_called_as_promised() -> None:
    """Begin, write, commit; read, end with an anchor; at the end shutdown, close, unlink."""
    arena = Recorder()
    store, receiver = _open(arena)
    store.reset()
    receiver.reset()
    views = receiver.get(_put(store, b"one", b"two"))
    assert [bytes(view) for view in views] == [b"one", b"two"]
    assert memoryview(views[0]).readonly
    receiver.drop(_put(store, b"three"))
    CustomArena(arena).close()
    assert arena.calls == [
        *("reset", "reset", "begin_unit", "write_binary", "write_binary", "commit_unit", "end_unit(42, 1)"),
        *("begin_unit", "write_binary", "commit_unit", "end_unit(42, 0)", "shutdown_arena", "close", "unlink"),
    ]
