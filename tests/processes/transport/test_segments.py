"""``SharedMemorySegmentPool``: one segment a unit, read in place, free when nothing of it is used any more."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import SharedMemorySegmentPool


class Anchor:
    """Anything that can have a weak reference."""


def _write(writer: Any, *data: bytes) -> tuple[list[tuple[int, int]], int]:
    writer.begin_unit()
    places = [writer.write_binary(each) for each in data]
    return places, writer.commit_unit()


def test_units_are_read_in_place() -> None:
    """Offsets are multiples of 64, views are writable, and the counters tell what was published and reclaimed."""
    pool = SharedMemorySegmentPool(1000, 2)
    writer, reader = pool.open_writer(), pool.open_reader()
    writer.reset()
    reader.reset()
    assert (pool.segment_size, pool.count, reader.zero_copy) == (1000, 2, True)
    places, span = _write(writer, b"abc", b"", bytes(700))
    assert (places, span) == ([(0, 3), (64, 0), (64, 700)], 764)
    assert (pool.published, pool.reclaimed) == (1, 0)
    view = reader.read_binary(*places[0])
    assert bytes(view) == b"abc"
    view[0] = ord("x")
    assert bytes(reader.read_binary(*places[0])) == b"xbc"
    reader.end_unit(span, [])
    assert (pool.published, pool.reclaimed) == (1, 1)
    pool.close()


def test_segment_is_free_when_all_anchors_are_gone() -> None:
    """In whatever order, also when other units were published before and after."""
    pool = SharedMemorySegmentPool(100, 3, acquire_timeout=0)
    writer, reader = pool.open_writer(), pool.open_reader()
    anchors = []
    for number in range(3):
        _, span = _write(writer, bytes([number]) * 10)
        anchors.append([Anchor(), Anchor()])
        reader.end_unit(span, anchors[-1])
    with pytest.raises(BufferError, match="all 3 segments are in use"):
        writer.begin_unit()
    anchors[1].pop()
    assert pool.reclaimed == 0
    anchors[1].pop()
    assert pool.reclaimed == 1
    places, span = _write(writer, b"again")
    assert bytes(reader.read_binary(*places[0])) == b"again"
    reader.end_unit(span, [])
    assert (pool.published, pool.reclaimed) == (4, 2)
    anchors.clear()
    assert pool.reclaimed == 4
    pool.close()


def test_units_keep_their_segments_while_others_are_reused() -> None:
    """What is held is not overwritten, however many units go by."""
    pool = SharedMemorySegmentPool(4096, 3, acquire_timeout=0)
    writer, reader = pool.open_writer(), pool.open_reader()
    places, span = _write(writer, b"held" * 1000)
    held = np.frombuffer(reader.read_binary(*places[0]), "u1")
    reader.end_unit(span, [held])
    for number in range(20):
        places, span = _write(writer, bytes([number]) * 4096)
        assert bytes(reader.read_binary(*places[0])) == bytes([number]) * 4096
        reader.end_unit(span, [])
    assert held.tobytes() == b"held" * 1000
    assert pool.published - pool.reclaimed == 1
    pool.close()


def test_views_outlive_the_pool() -> None:
    """Closed and collected, the memory is there as long as a view is."""
    pool = SharedMemorySegmentPool(4096, 1)
    reader = pool.open_reader()
    places, span = _write(pool.open_writer(), b"x" * 4096)
    view = reader.read_binary(*places[0])
    reader.end_unit(span, [view])
    pool.close()
    pool.unlink()
    del pool, reader
    gc.collect()
    assert bytes(view) == b"x" * 4096


def test_unit_that_is_too_large_is_refused_at_once() -> None:
    """And what was given up before takes no segment."""
    pool = SharedMemorySegmentPool(100, 1, acquire_timeout=0)
    writer, reader = pool.open_writer(), pool.open_reader()
    for _ in range(3):
        writer.begin_unit()
        writer.write_binary(bytes(40))
        with pytest.raises(BufferError, match="does not fit in a segment of 100 bytes"):
            writer.write_binary(bytes(37))
        writer.abort_unit()
    assert pool.published == 0
    places, span = _write(writer, bytes(40), bytes(36))
    assert places == [(0, 40), (64, 36)]
    reader.end_unit(span, [])
    pool.close()


def test_waiting_producer_goes_on_when_a_segment_is_free() -> None:
    """The last view of a unit wakes it, from any thread."""
    pool = SharedMemorySegmentPool(64, 1)
    writer, reader = pool.open_writer(), pool.open_reader()
    _, span = _write(writer, b"first")
    anchor = Anchor()
    reader.end_unit(span, [anchor])
    thread = threading.Thread(target=_write, args=(writer, b"second"))
    thread.start()
    del anchor
    thread.join()
    assert (pool.published, pool.reclaimed) == (2, 1)
    pool.close()


def test_producer_waits_no_longer_than_its_timeout() -> None:
    """Then it fails with a ``BufferError`` that says how long it waited."""
    pool = SharedMemorySegmentPool(64, 1, acquire_timeout=0.01)
    writer = pool.open_writer()
    _write(writer, b"x")
    with pytest.raises(BufferError, match=r"within 0\.01 s"):
        writer.begin_unit()
    pool.close()


@pytest.mark.parametrize("how", ["shutdown_arena", "close"])
def test_shutdown_wakes_a_waiting_producer(how: str) -> None:
    """It gets a ``BufferError``."""
    pool = SharedMemorySegmentPool(64, 1)
    writer = pool.open_writer()
    _write(writer, b"x")
    errors: list[BufferError] = []

    def produce() -> None:
        try:
            writer.begin_unit()
        except BufferError as exc:
            errors.append(exc)

    thread = threading.Thread(target=produce)
    thread.start()
    getattr(pool, how)()
    thread.join()
    assert "shut down" in str(errors[0])
    pool.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"segment_size": 0, "count": 1}, "segment_size must be > 0, got 0"),
        ({"segment_size": 1, "count": 0}, "count must be > 0"),
        ({"segment_size": 1, "count": 1 << 21}, "count must be <="),
        ({"segment_size": 1, "count": 1, "acquire_timeout": -0.5}, "acquire_timeout must be >= 0, got -0.5"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    """Sizes and times that make no sense are refused."""
    with pytest.raises(ValueError, match=message):
        SharedMemorySegmentPool(**arguments)


def test_reading_beyond_a_segment_is_refused() -> None:
    """Places come from another process."""
    pool = SharedMemorySegmentPool(64, 1)
    reader = pool.open_reader()
    _write(pool.open_writer(), b"x")
    for place in [(0, 65), (64, 1), (-1, 1), (0, -1)]:
        with pytest.raises(ValueError, match="do not lie within a segment"):
            reader.read_binary(*place)
    pool.close()
    with pytest.raises(ValueError, match="is closed"):
        pool.open_reader()
