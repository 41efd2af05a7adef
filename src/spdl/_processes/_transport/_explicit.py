"""Explicit arenas: shared memory of a fixed size, as a ring from which items are copied, or in segments read in place.

They are no limits of the automatic arena, because their contract is another one: units that a user's code may write and
read itself, published and freed in order; exact sizes, so that items may wrap around the end of a ring; a producer that
waits for room, and fails, where the automatic arena never waits and sends another way.
"""

from __future__ import annotations

import os
import secrets
import struct
import weakref
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from spdl._numbers import as_int, as_seconds
from spdl._processes._memory import Area

from ._arena import pass_descriptors, take_descriptors

#: The word of the control part that becomes non-zero when nothing will be read any longer.
_SHUTDOWN = 3
#: Words of the control part of a ring: total bytes published, and freed, since the last reset.
_HEAD = 0
_TAIL = 1
#: The same of segments: number of published items.
_PUBLISHED = 0
#: Memory is reserved from the system in steps of this many bytes.
_STEP = 1 << 20
#: A cache line, and the widest vector register.
_ALIGNMENT = 64
_PAGE = 4096
_MOST_SEGMENTS = 1 << 20
_INDEX = struct.Struct("=I")


class ExplicitArena:
    """Anonymous memory of a fixed size, which either process can shut down. Subclasses define how it is used.

    Raises:
        ValueError: ``acquire_timeout`` is negative.
        OSError: The system has no shared memory left.
    """

    def __init__(self, kind: str, num_bytes: int, num_blocks: int, acquire_timeout: float) -> None:
        self._acquire_timeout = as_seconds("acquire_timeout", acquire_timeout, may_be_infinite=True)
        self._name = f"spdl-{kind}-{os.getpid()}-{secrets.token_hex(4)}"
        self._mapped: Area | None = Area(num_bytes, num_blocks, has_bell=True)

    @property
    def name(self) -> str:
        """Name in messages. The memory has no name."""
        return self._name

    @property
    def _area(self) -> Area:
        if self._mapped is None:
            raise ValueError(f"the arena {self._name} is closed")
        return self._mapped

    def shutdown_arena(self) -> None:
        """Wake the producer, if it waits for room: it fails with ``BufferError``. Idempotent, from either process."""
        if self._mapped is not None:
            self._mapped.store(_SHUTDOWN, 1)
            self._mapped.ring()

    def close(self) -> None:
        """Release the memory in this process, and wake the producer. Idempotent. Opened sides and views stay valid."""
        self.shutdown_arena()
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None

    def unlink(self) -> None:
        """Do nothing: the memory has no name to remove. Idempotent."""

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_mapped": pass_descriptors(self, self._area)}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self._mapped = take_descriptors(state["_mapped"])


def _as_positive(name: str, value: int) -> int:
    number = as_int(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be > 0, got {number}")
    return number


def wait_until(area: Area, is_ready: Callable[[], bool], seconds: float) -> bool:
    """Wait until the other side has changed the state.

    Returns:
        False after a timeout; at once if ``seconds`` is 0.

    Raises:
        BufferError: The arena was shut down.
    """
    if seconds <= 0:
        return False
    deadline = monotonic() + seconds
    while True:
        area.announce_wait()
        if is_ready():
            return True
        if area.load(_SHUTDOWN):
            raise BufferError("the arena was shut down while the producer waited for room")
        left = deadline - monotonic()
        if left <= 0:
            return False
        area.wait(left)


def reserve(area: Area, reserved: int, end: int, last: int) -> int:
    """Reserve system memory for the data up to ``end``, and some more, but not beyond ``last``.

    Returns:
        Where the reserved part ends after the call.

    Raises:
        BufferError: The system has no memory left.
    """
    if end <= reserved:
        return reserved
    target = min(last, max(end, reserved + _STEP))
    try:
        area.reserve(reserved, target - reserved)
    except OSError as exc:
        raise BufferError(
            f"the system has no memory for {target - reserved} more bytes of an arena: {exc.strerror}; make it smaller"
        ) from exc
    return target


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


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
        capacity = _as_positive("capacity", capacity)
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
        if not wait_until(self._area, lambda: self._has_room(size), self._acquire_timeout):
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


class SharedMemorySegmentPool(ExplicitArena):
    """Shared memory in segments of one size for a worker's items: one segment per item, read in place.

    For ``iterate_in_subprocess(arena=)``, which takes ownership. Arrays, tensors and packets are views of the segment,
    and so are bytes: they arrive as writable ``memoryview``. A segment is reused when the last view of it is gone,
    independently of other segments. Without this argument shared memory is used too, and adapts its size; use this
    class to limit it by number of items. Experimental.

    The memory is anonymous: none is left behind, however the processes end. It is allocated as segments are written.
    Picklable only as an argument of a process that is being started.

    Args:
        segment_size: Bytes in a segment. The large parts of one item must fit together, each rounded up to 64 bytes.
        count: Number of segments, that is, of items that may be in flight or in use.
        acquire_timeout: Seconds that the worker waits for a segment before it fails; 0: it does not wait.

    Raises:
        ValueError: ``segment_size`` or ``count`` is not positive, or ``acquire_timeout`` is negative.
        OSError: There is no shared memory left.
    """

    def __init__(self, segment_size: int, count: int, *, acquire_timeout: float = 60.0) -> None:
        segment_size = _as_positive("segment_size", segment_size)
        count = _as_positive("count", as_int("count", count, most=_MOST_SEGMENTS))
        super().__init__("segments", _Layout(segment_size, count).start(count), count, acquire_timeout)
        self._segment_size = segment_size
        self._count = count

    @property
    def segment_size(self) -> int:
        """Bytes in a segment."""
        return self._segment_size

    @property
    def count(self) -> int:
        """Number of segments."""
        return self._count

    @property
    def published(self) -> int:
        """Total number of published items."""
        return self._area.load(_PUBLISHED)

    @property
    def reclaimed(self) -> int:
        """Number of published items whose segments are free again."""
        area = self._area
        return area.load(_PUBLISHED) - area.num_used_blocks

    def open_writer(self) -> SegmentWriter:
        """Open the sending side: once, in the worker."""
        return SegmentWriter(
            self._area.for_this_process(), _Layout(self._segment_size, self._count), self._acquire_timeout
        )

    def open_reader(self) -> SegmentReader:
        """Open the receiving side: once, in the process that made the arena."""
        return SegmentReader(self._area.for_this_process(), _Layout(self._segment_size, self._count))


class _Layout:
    """The layout of the data: a table, then the segments.

    For each unit that is published and not yet read, the table entry at its number modulo ``count`` is its segment.
    There are never more such units than segments, so an entry is read before it is overwritten.
    """

    def __init__(self, segment_size: int, count: int) -> None:
        self.segment_size = segment_size
        self.count = count
        self._first = _round_up(_INDEX.size * count, _PAGE)
        self._distance = _round_up(segment_size, _PAGE)

    def start(self, segment: int) -> int:
        """Offset of a segment. ``start(count)`` is the total size."""
        return self._first + segment * self._distance

    def table(self, area: Area) -> memoryview:
        """Numbers of segments."""
        return memoryview(area.view(0, _INDEX.size * self.count)).cast("I")


class SegmentWriter:
    """The sending side. One thread at a time."""

    def __init__(self, area: Area, layout: _Layout, acquire_timeout: float) -> None:
        self._area = area
        self._layout = layout
        self._acquire_timeout = acquire_timeout
        reserve(area, 0, layout.start(0), layout.start(0))
        self._table = layout.table(area)
        self._free = list(reversed(range(layout.count)))  # the last to be freed is the first to be used
        self._reserved = [layout.start(segment) for segment in range(layout.count)]
        self._segment: int | None = None
        self._end = 0  # offset in the segment

    def reset(self) -> None:
        """Discard an unfinished unit, for a new iteration. Segments of earlier iterations stay in use."""
        self._end = 0

    def begin_unit(self) -> None:
        """Take a segment for a unit, which is published and freed as a whole.

        Raises:
            BufferError: No segment was free in time, or the arena was shut down.
        """
        self._end = 0
        if self._segment is not None:  # of a unit that was aborted
            return
        if not self._has_free() and not wait_until(self._area, self._has_free, self._acquire_timeout):
            raise BufferError(
                f"all {self._layout.count} segments are in use, and none was freed within {self._acquire_timeout:g} s;"
                " make count or acquire_timeout larger, consume faster, or release received objects"
            )
        self._segment = self._free.pop()

    def _has_free(self) -> bool:
        self._free += self._area.collect()
        return bool(self._free)

    def write_binary(self, data: Any) -> tuple[int, int]:
        """Copy a contiguous buffer to the segment.

        Returns:
            Its offset in the segment, a multiple of 64, and its size, in bytes.

        Raises:
            BufferError: It does not fit.
        """
        assert self._segment is not None, "no unit was begun"
        size = memoryview(data).nbytes
        offset = _round_up(self._end, _ALIGNMENT)
        if offset + size > self._layout.segment_size:
            raise BufferError(
                f"an item of {offset + size} bytes or more does not fit in a segment of {self._layout.segment_size}"
                " bytes; make segment_size larger"
            )
        at = self._layout.start(self._segment) + offset
        last = self._layout.start(self._segment + 1)
        self._reserved[self._segment] = reserve(self._area, self._reserved[self._segment], at + size, last)
        self._area.copy_in(at, data)
        self._end = offset + size
        return offset, size

    def commit_unit(self) -> int:
        """Publish the unit.

        Returns:
            Its span: its size in bytes.
        """
        segment, self._segment = self._segment, None
        assert segment is not None, "no unit was begun"
        self._table[self._area.load(_PUBLISHED) % self._layout.count] = segment
        self._area.count_up(segment)
        self._area.add(_PUBLISHED, 1)
        return self._end

    def abort_unit(self) -> None:
        """Discard the unit. The next one uses its segment."""
        self._end = 0


class SegmentReader:
    """The receiving side. One thread at a time; units in the order in which they were published."""

    #: Reading returns views of the shared memory itself.
    zero_copy = True

    def __init__(self, area: Area, layout: _Layout) -> None:
        self._area = area
        self._layout = layout
        self._table = layout.table(area)
        self._next = 0  # the unit that is being read

    def reset(self) -> None:
        """Do nothing: received views stay valid across iterations."""

    def read_binary(self, offset: int, nbytes: int) -> memoryview:
        """Return a writable view of the bytes at ``offset``, valid as long as the unit."""
        if not 0 <= offset <= offset + nbytes <= self._layout.segment_size:
            raise ValueError(f"{nbytes} bytes at {offset} do not lie within a segment")
        segment = self._table[self._next % self._layout.count]
        return memoryview(self._area.view(self._layout.start(segment) + offset, nbytes))

    def end_unit(self, span: int, pinned: Sequence[object]) -> None:
        """End the oldest unit. Its segment is free when all of ``pinned`` are gone; at once if there are none.

        Args:
            span: Result of ``commit_unit``.
            pinned: Weakly referenceable objects, at least one of which lives as long as any view of the unit.
        """
        segment = self._table[self._next % self._layout.count]
        self._next += 1
        for anchor in pinned:
            self._area.count_up(segment)
            finalizer = weakref.finalize(anchor, self._area.count_down, segment)
            finalizer.atexit = False
        self._area.count_down(segment)
