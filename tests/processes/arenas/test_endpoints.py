"""The two sides of an explicit arena, called directly: units, counters, waits."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import SharedMemoryRingBuffer, SharedMemorySegmentPool
from tests.support.running import TIMEOUT


def put(writer: Any, *leaves: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Write one unit; its span, and where its leaves are."""
    writer.begin_unit()
    places = [writer.write_binary(leaf) for leaf in leaves]
    return writer.commit_unit(), places


def ended(arena: Any) -> None:
    arena.shutdown_arena()
    arena.close()
    arena.unlink()
    arena.unlink()


@pytest.mark.parametrize(
    "make",
    [
        lambda: SharedMemoryRingBuffer(0),
        lambda: SharedMemoryRingBuffer(-1),
        lambda: SharedMemoryRingBuffer(100, acquire_timeout=-0.1),
        lambda: SharedMemorySegmentPool(0, 3),
        lambda: SharedMemorySegmentPool(-5, 3),
        lambda: SharedMemorySegmentPool(100, 0),
        lambda: SharedMemorySegmentPool(100, -1),
        lambda: SharedMemorySegmentPool(100, 1, acquire_timeout=-1),
    ],
)
def test_sizes_and_times_must_be_possible(make: Callable[[], Any]) -> None:
    """ValueError when it is made."""
    with pytest.raises(ValueError):
        make()


def test_a_ring_counts_bytes_for_ever() -> None:
    """A unit becomes visible at its commit, and is freed as a whole; payloads wrap at the end."""
    ring = SharedMemoryRingBuffer(1000)
    assert (ring.capacity, ring.head, ring.tail) == (1000, 0, 0)
    assert isinstance(ring.name, str)
    writer, reader = ring.open_writer(), ring.open_reader()
    assert not reader.zero_copy
    position = 0
    for k in range(9):
        writer.begin_unit()
        places = [writer.write_binary(bytes([k]) * 400), writer.write_binary(memoryview(bytes([k + 100]) * 57))]
        assert ring.head == position
        span = writer.commit_unit()
        assert span >= 457
        assert ring.head == position + span
        assert bytes(reader.read_binary(*places[0])) == bytes([k]) * 400
        view = reader.read_binary(*places[1])
        assert ring.tail == position
        reader.end_unit(span, [])
        position += span
        assert ring.tail == position
        assert bytes(view) == bytes([k + 100]) * 57  # a copy, which outlives its place
    assert position > ring.capacity
    ended(ring)


def test_a_ring_forgets_an_aborted_unit() -> None:
    """It was never visible, and its room is there again."""
    ring = SharedMemoryRingBuffer(1000, acquire_timeout=0)
    writer, reader = ring.open_writer(), ring.open_reader()
    for _ in range(5):
        writer.begin_unit()
        writer.write_binary(b"x" * 900)
        writer.abort_unit()
    assert ring.head == 0
    span, (place,) = put(writer, b"y" * 1000)
    assert bytes(reader.read_binary(*place)) == b"y" * 1000
    reader.end_unit(span, [])
    ended(ring)


def test_a_full_ring_refuses_at_once_where_it_is_not_to_wait() -> None:
    """BufferError, and it can go on when there is room."""
    ring = SharedMemoryRingBuffer(1000, acquire_timeout=0)
    writer, reader = ring.open_writer(), ring.open_reader()
    span, _ = put(writer, b"x" * 700)
    writer.begin_unit()
    with pytest.raises(BufferError):
        writer.write_binary(b"y" * 700)
    writer.abort_unit()
    reader.end_unit(span, [])
    span, (place,) = put(writer, b"z" * 700)
    assert bytes(reader.read_binary(*place)) == b"z" * 700
    ended(ring)


@pytest.mark.parametrize("kind", ["ring", "pool"])
def test_what_can_never_fit_is_refused_at_once(kind: str) -> None:
    """However long it may wait: one leaf, or several of one unit."""
    arena: Any = (
        SharedMemoryRingBuffer(1000, acquire_timeout=1000)
        if kind == "ring"
        else SharedMemorySegmentPool(1000, 2, acquire_timeout=1000)
    )
    writer = arena.open_writer()
    writer.begin_unit()
    with pytest.raises(BufferError):
        writer.write_binary(b"x" * 1001)
    writer.abort_unit()
    writer.begin_unit()
    writer.write_binary(b"x" * 640)
    with pytest.raises(BufferError):
        writer.write_binary(b"x" * 640)
    writer.abort_unit()
    ended(arena)


def test_a_ring_waits_for_room() -> None:
    """Until what is read is ended, in another thread."""
    ring = SharedMemoryRingBuffer(1000, acquire_timeout=TIMEOUT)
    writer, reader = ring.open_writer(), ring.open_reader()
    span, _ = put(writer, b"x" * 700)
    places: list[Any] = []
    thread = threading.Thread(target=lambda: places.append(put(writer, b"y" * 700)))
    thread.start()
    reader.end_unit(span, [])
    thread.join(TIMEOUT)
    ((span, (place,)),) = places
    assert bytes(reader.read_binary(*place)) == b"y" * 700
    ended(ring)


@pytest.mark.parametrize("kind", ["ring", "pool"])
def test_shutting_down_wakes_a_waiting_writer(kind: str) -> None:
    """With a BufferError."""
    arena: Any = (
        SharedMemoryRingBuffer(1000, acquire_timeout=1000)
        if kind == "ring"
        else SharedMemorySegmentPool(1000, 1, acquire_timeout=1000)
    )
    writer = arena.open_writer()
    put(writer, b"x" * 700)
    errors: list[BaseException] = []

    def write() -> None:
        try:
            put(writer, b"y" * 700)
        except BufferError as exc:
            errors.append(exc)

    thread = threading.Thread(target=write)
    thread.start()
    arena.shutdown_arena()
    thread.join(TIMEOUT)
    assert len(errors) == 1
    ended(arena)


def test_a_ring_starts_anew_at_a_reset() -> None:
    """What was left is forgotten."""
    ring = SharedMemoryRingBuffer(1000, acquire_timeout=0)
    writer, reader = ring.open_writer(), ring.open_reader()
    put(writer, b"x" * 900)
    writer.reset()
    reader.reset()
    _, (place,) = put(writer, b"y" * 1000)
    assert bytes(reader.read_binary(*place)) == b"y" * 1000
    ended(ring)


def test_a_pool_counts_units() -> None:
    """One segment each; offsets of payloads are multiples of 64; the segment goes back with its last view."""
    pool = SharedMemorySegmentPool(1000, 3, acquire_timeout=0)
    assert (pool.segment_size, pool.count, pool.published, pool.reclaimed) == (1000, 3, 0, 0)
    writer, reader = pool.open_writer(), pool.open_reader()
    assert reader.zero_copy
    anchors = []
    for k in range(3):
        span, places = put(writer, bytes([k]) * 101, bytes([k + 100]) * 500)
        assert pool.published == k + 1
        assert all(offset % 64 == 0 for offset, _ in places)
        anchor = np.frombuffer(reader.read_binary(*places[1]), np.uint8)
        reader.end_unit(span, [anchor])
        anchors.append(anchor)
        assert pool.reclaimed == 0
    with pytest.raises(BufferError):
        put(writer, b"x" * 100)
    assert [int(anchor[-1]) for anchor in anchors] == [100, 101, 102]
    del anchor
    anchors.pop(1)
    gc.collect()
    assert pool.reclaimed == 1
    writer.abort_unit()
    span, (place,) = put(writer, b"x" * 100)
    view = reader.read_binary(*place)
    assert not view.readonly
    assert bytes(view) == b"x" * 100
    assert [int(anchor[-1]) for anchor in anchors] == [100, 102]
    del view
    reader.end_unit(span, [])
    assert pool.reclaimed == 2
    anchors.clear()
    ended(pool)


def test_a_unit_of_a_pool_without_anchors_goes_back_at_once() -> None:
    """Such as one that nobody takes."""
    pool = SharedMemorySegmentPool(1000, 1, acquire_timeout=0)
    writer, reader = pool.open_writer(), pool.open_reader()
    for k in range(5):
        span, _ = put(writer, b"x" * 1000)
        reader.end_unit(span, [])
        assert (pool.published, pool.reclaimed) == (k + 1, k + 1)
    ended(pool)


def test_views_outlive_the_arena() -> None:
    """It is closed, unlinked, collected; they stay as they are."""
    pool: Any = SharedMemorySegmentPool(1000, 1)
    writer, reader = pool.open_writer(), pool.open_reader()
    span, (place,) = put(writer, b"x" * 500)
    anchor = np.frombuffer(reader.read_binary(*place), np.uint8)
    reader.end_unit(span, [anchor])
    ended(pool)
    del pool, writer, reader
    gc.collect()
    assert (anchor == ord("x")).all()
