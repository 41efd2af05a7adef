"""``SharedMemoryRingBuffer``: an explicit arena that items pass through in order; the receiver copies them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdl._processes._memory import Area

from ._explicit import ExplicitArena, as_positive, reserve, wait_until

_HEAD = 0
_TAIL = 1


class SharedMemoryRingBuffer(ExplicitArena):
    """Shared memory of a fixed size for a worker's items: a ring buffer from which the receiver copies.

    For ``iterate_in_subprocess(arena=)``, which takes ownership. Without this argument shared memory is used too, and
    without the copy; use this class for an exact limit in bytes on the shared memory. Experimental.

    The memory is anonymous: none is left behind, however the processes end. Picklable only as an argument of a process
    that is being started.

    Args:
        capacity: Size in bytes. The large parts of one item must fit together; to keep the worker busy, those of all
            items in flight should fit.
        acquire_timeout: Seconds that the worker waits for room before it fails; 0: it does not wait.

    Raises:
        ValueError: ``capacity`` is not positive, or ``acquire_timeout`` is negative.
        OSError: There is no shared memory left.
    """

    def __init__(self, capacity: int, *, acquire_timeout: float = 60.0) -> None:
        capacity = as_positive("capacity", capacity)
        super().__init__("ring", capacity, 0, acquire_timeout)
        self._capacity = capacity

    @property
    def capacity(self) -> int:
        """Size in bytes."""
        return self._capacity

    @property
    def head(self) -> int:
        """Total bytes published since the last reset."""
        return self._area.load(_HEAD)

    @property
    def tail(self) -> int:
        """Total bytes freed since the last reset."""
        return self._area.load(_TAIL)

    def open_writer(self) -> RingWriter:
        """The sending side, in the worker."""
        return RingWriter(self._area.for_this_process(), self._capacity, self._acquire_timeout)

    def open_reader(self) -> RingReader:
        """The receiving side, in the process that made the arena."""
        return RingReader(self._area.for_this_process())


class RingWriter:
    """The sending side. One thread at a time."""

    def __init__(self, area: Area, capacity: int, acquire_timeout: float) -> None:
        self._area = area
        self._capacity = capacity
        self._acquire_timeout = acquire_timeout
        self._reserved = 0
        self._start = 0  # position of the unit, absolute
        self._end = 0

    def reset(self) -> None:
        """Empty the ring for a new iteration. Only while the reader is inactive."""
        self._area.store(_HEAD, 0)
        self._area.store(_TAIL, 0)
        self._start = self._end = 0

    def begin_unit(self) -> None:
        """Begin a unit, which is published and freed as a whole."""
        self._start = self._end = self._area.load(_HEAD)

    def write_binary(self, data: Any) -> tuple[int, int]:
        """Copy a contiguous buffer to the ring. It may wrap around to the beginning.

        Returns:
            Its offset and its size, in bytes.

        Raises:
            BufferError: It does not fit, there was no room in time, or the arena was shut down.
        """
        size = memoryview(data).nbytes
        if self._end - self._start + size > self._capacity:
            raise BufferError(
                f"an item of {self._end - self._start + size} bytes or more does not fit in a ring of"
                f" {self._capacity} bytes; make capacity larger"
            )
        if not self._has_room(size):
            self._wait_for(size)
        offset = self._end % self._capacity
        self._reserved = reserve(self._area, self._reserved, min(offset + size, self._capacity), self._capacity)
        if offset + size > self._capacity:
            self._reserved = reserve(self._area, self._reserved, self._capacity, self._capacity)
        self._area.copy_in(offset, data)
        self._end += size
        return offset, size

    def _has_room(self, size: int) -> bool:
        return self._end - self._area.load(_TAIL) + size <= self._capacity

    def _wait_for(self, size: int) -> None:
        is_there = self._acquire_timeout > 0 and wait_until(
            self._area, lambda: self._has_room(size), self._acquire_timeout
        )
        if not is_there:
            free = self._capacity - (self._end - self._area.load(_TAIL))
            raise BufferError(
                f"the ring is full: {size} bytes are needed, {free} of {self._capacity} are free, and none were freed"
                f" within {self._acquire_timeout:g} s; make capacity or acquire_timeout larger, or consume faster"
            )

    def commit_unit(self) -> int:
        """Publish the unit.

        Returns:
            Its span: its size in bytes.
        """
        self._area.store(_HEAD, self._end)
        return self._end - self._start

    def abort_unit(self) -> None:
        """Discard the unit: the next one begins at the same position."""
        self._end = self._start


class RingReader:
    """The receiving side. One thread at a time; units in the order in which they were published."""

    #: Reading returns a copy: the ring reuses the space at once.
    zero_copy = False

    def __init__(self, area: Area) -> None:
        self._area = area

    def reset(self) -> None:
        """Do nothing: the writer empties the ring."""

    def read_binary(self, offset: int, nbytes: int) -> memoryview:
        """Return a writable copy of the bytes at ``offset``."""
        return memoryview(self._area.copy_out(offset, nbytes))

    def end_unit(self, span: int, pinned: Sequence[object]) -> None:
        """Free the whole oldest unit, and wake the producer. ``pinned`` is ignored, because all reads were copies."""
        self._area.add(_TAIL, span)
        self._area.ring()
