"""The automatic arena, both of its sides in one process: what is put is what is got, and what is freed comes back."""

import gc
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from spdl._processes._transport._arena import (
    Arena,
    ArenaReceiver,
    ArenaSender,
    arena_slot,
    default_limit,
    set_current,
)

MIB = 1 << 20
#: What the arena asks of the system at once.
CHUNK = MIB // 4


def _open(limit: int = MIB) -> tuple[ArenaSender, ArenaReceiver]:
    arena = Arena(limit)
    sides = arena.open_sender(), arena.open_receiver()
    arena.close()
    return sides


def _put(sender: ArenaSender, *buffers: Any) -> Sequence[tuple[int, int, int]]:
    spans = sender.put([pickle.PickleBuffer(each) for each in buffers])
    assert spans is not None
    return spans


def test_what_is_put_is_what_is_got() -> None:
    """Each buffer arrives with its contents, in order, as writable bytes at an aligned address."""
    sender, receiver = _open()
    sent: list[Any] = [b"one", np.arange(1000, dtype="f8"), bytearray(b""), memoryview(bytes(range(256)))]
    views = [memoryview(view) for view in receiver.get(_put(sender, *sent))]
    assert [bytes(view) for view in views] == [memoryview(each).tobytes() for each in sent]
    for view in views:
        assert (view.format, view.ndim, view.itemsize, view.readonly) == ("B", 1, 1, False)
        assert not len(view) or np.frombuffer(view, "u1").ctypes.data % 64 == 0


def test_arrays_in_fortran_order_are_put_as_they_lie_in_memory() -> None:
    """A buffer need only be contiguous in one order or the other."""
    sender, receiver = _open()
    array = np.asfortranarray(np.arange(12, dtype="i4").reshape(3, 4))
    (view,) = receiver.get(_put(sender, array))
    assert np.array_equal(np.frombuffer(memoryview(view), "i4").reshape(3, 4, order="F"), array)


def test_buffer_with_gaps_is_refused_and_nothing_is_put() -> None:
    """What has gaps in it is no block of memory."""
    sender, _ = _open()
    with pytest.raises((BufferError, ValueError)):
        sender.put([b"fine", np.zeros(10)[::2]])
    assert sender.num_bytes_used == 0


def test_block_is_free_when_the_last_view_is_gone() -> None:
    """Everything that was made of a view keeps the block, wherever it is, and nothing else does."""
    sender, receiver = _open()
    (view,) = receiver.get(_put(sender, bytes(1000)))
    array = np.frombuffer(memoryview(view), "u1")
    part = array[10:20]
    del view, array
    assert sender.num_bytes_used == 1024
    del part
    assert sender.num_bytes_used == 0


def test_views_outlive_both_sides() -> None:
    """A view is valid after arena, sender and receiver are gone."""
    sender, receiver = _open()
    (view,) = receiver.get(_put(sender, b"x" * 5000))
    sender.close()
    receiver.close()
    del sender, receiver
    gc.collect()
    assert bytes(view) == b"x" * 5000
    memoryview(view)[0] = 1


def test_dropped_and_taken_back_spans_are_free() -> None:
    """A message that is not sent, or that nobody looks at, costs nothing in the end."""
    sender, receiver = _open()
    sender.take_back(_put(sender, bytes(100), b"", bytes(200)))
    assert sender.num_bytes_used == 0
    receiver.drop(_put(sender, bytes(100), b"", bytes(200)))
    assert sender.num_bytes_used == 0


def test_no_room_is_told_and_nothing_is_put() -> None:
    """All buffers of a message or none; what is larger than the arena never fits."""
    sender, receiver = _open()
    first = _put(sender, bytes(MIB // 2))
    assert sender.put([bytes(MIB // 4), bytes(MIB // 2)]) is None
    assert sender.num_bytes_used == MIB // 2
    assert sender.put([bytes(MIB + 1)]) is None
    receiver.drop(first)
    receiver.drop(_put(sender, bytes(MIB)))


def test_table_of_blocks_can_be_full() -> None:
    """There is no room for more buffers than the table has blocks, until one is free."""
    sender, receiver = _open(4 * MIB)
    spans = _put(sender, *[b"x"] * 16384)
    assert sender.put([b"y"]) is None
    assert sender.put([b""]) is not None
    receiver.drop(spans[100:101])
    assert _put(sender, b"y")[0][0] == spans[100][0]


@pytest.mark.parametrize("span", [(0, 0, MIB + 1), (0, MIB, 1), (16385, 0, 0), (16384, 0, 1)])
def test_what_is_no_span_is_refused(span: tuple[int, int, int]) -> None:
    """Spans come from another process: they are checked before memory is touched."""
    _, receiver = _open()
    with pytest.raises(ValueError, match=r"no such block|not lie within"):
        receiver.get([span])
    with pytest.raises(ValueError, match=r"no such block|not lie within"):
        receiver.drop([span])


def test_slot_is_sent_without_a_copy() -> None:
    """What is put of a slot, or of a part of it, lies where the slot is, and frees it when both sides are done."""
    sender, receiver = _open()
    slot = sender.slot(4096)
    assert slot is not None
    array = np.frombuffer(slot, "u1")
    array[:] = np.arange(4096) % 251
    spans = _put(sender, array, array[1000:2000], b"apart")
    assert spans[0][1:] == (spans[0][1], 4096)
    assert spans[1] == (spans[0][0], spans[0][1] + 1000, 1000)
    whole, part, _ = receiver.get(spans)
    assert bytes(part) == array[1000:2000].tobytes()
    array[0] = 77
    assert memoryview(whole)[0] == 77
    del array, slot, whole, _
    assert sender.num_bytes_used == 4096
    del part
    assert sender.num_bytes_used == 0


def test_slot_that_is_not_sent_is_free_when_its_views_are_gone() -> None:
    """A batch that failed gives its memory back."""
    sender, _ = _open()
    slot = sender.slot(MIB)
    assert slot is not None
    assert sender.slot(1) is None
    del slot
    assert sender.slot(MIB) is not None


def test_memory_that_was_used_is_used_again() -> None:
    """However much goes through, the system is asked for no more than lies in the arena at a time."""
    sender, receiver = _open(64 * MIB)
    data = bytes(100_000)
    for _ in range(1000):
        receiver.drop(_put(sender, data))
    assert sender.num_bytes_reserved == CHUNK


def test_memory_of_a_burst_goes_back_to_the_system() -> None:
    """When far less was needed for a while than is there, the rest is given back; what is in use stays as it was."""
    sender, receiver = _open(64 * MIB)
    (low, *burst) = receiver.get(_put(sender, b"low" * 10_000, *[bytes(MIB)] * 40))
    (high,) = receiver.get(_put(sender, b"high" * 10_000))
    assert sender.num_bytes_reserved > 40 * MIB
    del burst
    for _ in range(5000):
        receiver.drop(_put(sender, b"x"))
    assert sender.num_bytes_reserved <= 8 * MIB
    assert (bytes(low), bytes(high)) == (b"low" * 10_000, b"high" * 10_000)
    receiver.drop(_put(sender, bytes(30 * MIB)))


def test_trim_gives_back_all_that_is_free() -> None:
    """Before a pause everything but what is in use can be given back."""
    sender, receiver = _open(16 * MIB)
    (kept,) = receiver.get(_put(sender, b"kept"))
    receiver.drop(_put(sender, bytes(10 * MIB)))
    sender.trim()
    assert sender.num_bytes_reserved == CHUNK
    assert bytes(kept) == b"kept"


def test_threads_may_drop_views_while_others_put() -> None:
    """No count is lost, whichever threads views die on."""
    sender, receiver = _open(16 * MIB)
    shelves: list[list[Any]] = [[] for _ in range(4)]
    start = threading.Barrier(5)

    def drop(shelf: list[Any]) -> None:
        start.wait()
        while shelf:
            shelf.pop()

    for shelf in shelves:
        shelf += [receiver.get(_put(sender, bytes(100), bytes(5000))) for _ in range(500)]
    threads = [threading.Thread(target=drop, args=(shelf,)) for shelf in shelves]
    for thread in threads:
        thread.start()
    start.wait()
    for _ in range(500):
        receiver.drop(_put(sender, bytes(300)))
    for thread in threads:
        thread.join()
    assert sender.num_bytes_used == 0


def test_descriptors_go_with_close() -> None:
    """The arena has one descriptor and an open sender one more, and both are gone at the end (see conftest)."""
    arena = Arena(MIB)
    sender = arena.open_sender()
    arena.close()
    arena.close()
    spans = _put(sender, b"before")
    sender.close()
    sender.close()
    assert sender.put([b"after"]) is None
    assert sender.slot(1) is None
    sender.take_back(spans)


def test_arena_is_pickled_only_for_a_new_process() -> None:
    """A descriptor means nothing elsewhere."""
    arena = Arena(MIB)
    with pytest.raises(RuntimeError, match="inherit"):
        pickle.dumps(arena)


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_must_be_positive(limit: int) -> None:
    """An arena without room is a mistake."""
    with pytest.raises(ValueError, match="limit must be > 0"):
        Arena(limit)


def test_default_limit_is_within_its_bounds() -> None:
    """From 64 MiB to 8 GiB."""
    assert 64 * MIB <= default_limit() <= 8 << 30


def test_arena_slot_is_plain_memory_where_nothing_is_sent() -> None:
    """The same code runs in a worker and outside of one; sizes below zero are a mistake in both."""
    slot = arena_slot(100)
    assert (len(slot), slot.readonly, slot.format) == (100, False, "B")
    with pytest.raises(ValueError, match="num_bytes must be >= 0"):
        arena_slot(-1)


def test_arena_slot_is_in_the_current_arena_while_it_has_room() -> None:
    """And plain memory when it is full."""
    sender, _ = _open()
    set_current(sender)
    try:
        slots = [arena_slot(MIB // 2) for _ in range(3)]
        assert sender.num_bytes_used == MIB
        assert [len(slot) for slot in slots] == [MIB // 2] * 3
        slots[0][0] = slots[2][0] = 1
    finally:
        set_current(None)


def test_a_side_that_cannot_map_the_arena_reads_it() -> None:
    """What it gets are copies, and the sender has the memory back at once."""
    arena = Arena(MIB)
    sender, reader = arena.open_sender(), arena.open_reader()
    arena.close()
    array = np.arange(1000, dtype="f8")
    views = reader.get(_put(sender, b"one", array, b""))
    assert [bytes(view) for view in views] == [b"one", array.tobytes(), b""]
    reader.drop(_put(sender, array))
    _put(sender, b"")  # collects what was freed
    assert sender.num_bytes_used == 0
    reader.close()
    with pytest.raises(ValueError, match="within"):
        reader.drop([(0, 2 * MIB, 1)])
