"""``SharedMemoryRingBuffer``: order, wrapping, room, waiting."""

import pickle
import queue
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import SharedMemoryRingBuffer


def _write(writer: Any, *data: bytes) -> tuple[list[tuple[int, int]], int]:
    writer.begin_unit()
    places = [writer.write_binary(each) for each in data]
    return places, writer.commit_unit()


def test_units_come_out_as_they_went_in() -> None:
    """Payloads are copies: writable, and not changed by what is written later."""
    ring = SharedMemoryRingBuffer(1000)
    writer, reader = ring.open_writer(), ring.open_reader()
    writer.reset()
    reader.reset()
    places, span = _write(writer, b"abc", b"", b"defg")
    assert (places, span) == ([(0, 3), (3, 0), (3, 4)], 7)
    assert (ring.head, ring.tail) == (7, 0)
    views = [reader.read_binary(*place) for place in places]
    reader.end_unit(span, [])
    assert (ring.head, ring.tail) == (7, 7)
    assert not reader.zero_copy
    assert [bytes(view) for view in views] == [b"abc", b"", b"defg"]
    assert not any(view.readonly for view in views)
    ring.close()


@given(
    capacity=st.integers(1, 200),
    units=st.lists(st.lists(st.binary(max_size=60), max_size=4), max_size=30),
)
def test_payloads_wrap(capacity: int, units: list[list[bytes]]) -> None:
    """Wherever the end of the ring falls, what is read is what was written; what is too large is refused at once."""
    ring = SharedMemoryRingBuffer(capacity, acquire_timeout=0)
    writer, reader = ring.open_writer(), ring.open_reader()
    total = 0
    for unit in units:
        if sum(map(len, unit)) > capacity:
            writer.begin_unit()
            with pytest.raises(BufferError, match="does not fit"):
                [writer.write_binary(each) for each in unit]
            writer.abort_unit()
            continue
        places, span = _write(writer, *unit)
        total += span
        assert [bytes(reader.read_binary(*place)) for place in places] == unit
        reader.end_unit(span, [])
        assert ring.head == ring.tail == total
    ring.close()


def test_full_ring_refuses_at_once_without_a_timeout() -> None:
    """With ``acquire_timeout=0`` the producer does not wait; the unit it gave up leaves no trace."""
    ring = SharedMemoryRingBuffer(100, acquire_timeout=0)
    writer, reader = ring.open_writer(), ring.open_reader()
    _, span = _write(writer, bytes(60))
    writer.begin_unit()
    writer.write_binary(bytes(40))
    with pytest.raises(BufferError, match="ring is full: 1 bytes are needed"):
        writer.write_binary(b"x")
    writer.abort_unit()
    assert ring.head == 60
    reader.end_unit(span, [])
    assert _write(writer, bytes(100)) == ([(60, 100)], 100)
    ring.close()


def test_producer_waits_no_longer_than_its_timeout() -> None:
    """Then it fails with a ``BufferError`` that says how long it waited."""
    ring = SharedMemoryRingBuffer(10, acquire_timeout=0.01)
    writer = ring.open_writer()
    _write(writer, bytes(10))
    writer.begin_unit()
    with pytest.raises(BufferError, match=r"within 0\.01 s"):
        writer.write_binary(b"x")
    ring.close()


def test_waiting_producer_goes_on_when_there_is_room() -> None:
    """The end of a unit wakes it."""
    ring = SharedMemoryRingBuffer(10)
    writer, reader = ring.open_writer(), ring.open_reader()
    units = [bytes([number]) * 7 for number in range(50)]
    messages: queue.SimpleQueue[tuple[list[tuple[int, int]], int]] = queue.SimpleQueue()

    def produce() -> None:
        for unit in units:
            messages.put(_write(writer, unit))

    thread = threading.Thread(target=produce)
    thread.start()
    received = []
    for _ in units:
        (place,), span = messages.get()
        received.append(bytes(reader.read_binary(*place)))
        reader.end_unit(span, [])
    thread.join()
    assert received == units
    ring.close()


@pytest.mark.parametrize("how", ["shutdown_arena", "close"])
def test_shutdown_wakes_a_waiting_producer(how: str) -> None:
    """It gets a ``BufferError``, whether it waits already or comes to."""
    ring = SharedMemoryRingBuffer(10)
    writer = ring.open_writer()
    _write(writer, bytes(10))
    errors: list[BufferError] = []

    def produce() -> None:
        writer.begin_unit()
        try:
            writer.write_binary(b"x")
        except BufferError as exc:
            errors.append(exc)

    thread = threading.Thread(target=produce)
    thread.start()
    getattr(ring, how)()
    thread.join()
    assert "shut down" in str(errors[0])
    ring.shutdown_arena()
    ring.close()
    ring.unlink()
    ring.unlink()


def test_reset_empties_the_ring() -> None:
    """What an iteration left is forgotten."""
    ring = SharedMemoryRingBuffer(100, acquire_timeout=0)
    writer = ring.open_writer()
    _write(writer, bytes(100))
    writer.reset()
    assert (ring.head, ring.tail) == (0, 0)
    _write(writer, bytes(100))
    ring.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 0}, "capacity must be > 0, got 0"),
        ({"capacity": -1}, "capacity must be > 0"),
        ({"capacity": 1, "acquire_timeout": -1}, "acquire_timeout must be >= 0"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    """Sizes and times that make no sense are refused."""
    with pytest.raises(ValueError, match=message):
        SharedMemoryRingBuffer(**arguments)


def test_closed_ring_says_so() -> None:
    """By its name, which is for messages only."""
    ring = SharedMemoryRingBuffer(10)
    assert ring.capacity == 10
    ring.close()
    ring.close()
    with pytest.raises(ValueError, match=f"{ring.name} is closed"):
        ring.open_writer()


def test_ring_is_pickled_only_for_a_new_process() -> None:
    """Its memory goes with a descriptor."""
    ring = SharedMemoryRingBuffer(10)
    with pytest.raises(RuntimeError, match="inherit"):
        pickle.dumps(ring)
    ring.close()
