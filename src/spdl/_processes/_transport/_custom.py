"""Adapts explicit arenas, ours or the user's, to ``Store`` and ``Receiver``.

An arena of units (see ``ArenaOfUnits``) requires units to be read in the order in which they were published, each once.
So messages must be got or dropped in the order in which they were put; a unit whose message was taken back is ended by
the next message.
"""

from __future__ import annotations

from collections.abc import Sequence
from pickle import PickleBuffer
from typing import Any, NamedTuple, Protocol

from spdl._errors import InternalError
from spdl._processes._memory import exporter_of


class UnitWriter(Protocol):
    """The sending side of an arena. A unit holds the buffers of one item; it is published and freed as a whole."""

    def reset(self) -> None: ...
    def begin_unit(self) -> None: ...
    def write_binary(self, data: Any, /) -> tuple[int, int]: ...
    def commit_unit(self) -> int: ...
    def abort_unit(self) -> None: ...


class UnitReader(Protocol):
    """The receiving side. ``end_unit`` gets anchors: as long as one of them lives, views of the unit may be in use."""

    @property
    def zero_copy(self) -> bool: ...
    def reset(self) -> None: ...
    def read_binary(self, offset: int, nbytes: int, /) -> memoryview: ...
    def end_unit(self, span: int, pinned: list[object], /) -> None: ...


class ArenaOfUnits(Protocol):
    """The arenas that ``iterate_in_subprocess(arena=)`` accepts: picklable as an argument of a new process."""

    def open_writer(self) -> UnitWriter: ...
    def open_reader(self) -> UnitReader: ...
    def close(self) -> None: ...
    def unlink(self) -> None: ...
    def shutdown_arena(self) -> None: ...


def is_arena(value: object) -> bool:
    """Whether ``value`` has the methods of an arena of units."""
    names = ("open_writer", "open_reader", "close", "unlink", "shutdown_arena")
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in names)


class _Unit(NamedTuple):
    epoch: int
    number: int
    span: int


class _Spans(NamedTuple):
    unit: _Unit
    places: list[tuple[int, int]]
    skipped: list[_Unit]  # published before this one, and never sent


class CustomArena:
    """An arena of units instead of an automatic one: opened on both sides, and passed to a new process."""

    def __init__(self, arena: ArenaOfUnits) -> None:
        self.arena = arena

    def open_sender(self) -> CustomStore:
        return CustomStore(self.arena.open_writer())

    def open_receiver(self) -> CustomReceiver:
        return CustomReceiver(self.arena.open_reader())

    def close(self) -> None:
        """Wake the producer, and release the memory and its name, if it has one."""
        try:
            self.arena.shutdown_arena()
        finally:
            try:
                self.arena.close()
            finally:
                self.arena.unlink()


class CustomStore:
    """The sending side: one unit for each message that has large buffers."""

    def __init__(self, writer: UnitWriter) -> None:
        self._writer = writer
        self._epoch = 0
        self._number = 0
        self._skipped: list[_Unit] = []

    def reset(self) -> None:
        """Begin a new iteration: the reader has got or dropped everything sent before, and is inactive."""
        self._epoch += 1
        self._writer.reset()

    def put(self, buffers: Sequence[Any]) -> _Spans:
        """Write a unit.

        Raises:
            BufferError: It does not fit, or there was no room in time. Nothing was put.
        """
        writer = self._writer
        writer.begin_unit()
        try:
            places = [writer.write_binary(PickleBuffer(each).raw()) for each in buffers]
        except BaseException:
            writer.abort_unit()
            raise
        unit = _Unit(self._epoch, self._number, writer.commit_unit())
        self._number += 1
        skipped, self._skipped = self._skipped, []
        return _Spans(unit, places, skipped)

    def take_back(self, spans: _Spans) -> None:
        """The unit is already published: the next message tells the reader to end it."""
        self._skipped += [*spans.skipped, spans.unit]


class CustomReceiver:
    """The receiving side. Get or drop messages in the order in which they were put."""

    def __init__(self, reader: UnitReader) -> None:
        self._reader = reader
        self._next = 0

    @property
    def bytes_as_views(self) -> bool:
        return self._reader.zero_copy

    def reset(self) -> None:
        """Begin a new iteration: everything sent before was got or dropped. The writer is reset after this."""
        self._reader.reset()

    def get(self, spans: _Spans) -> list[Any]:
        """Return the buffers: views whose unit ends when the last of them is gone, or copies if the reader copies."""
        spans = _Spans(*spans)
        unit = self._reach(spans)
        if not self._reader.zero_copy:
            try:
                return [self._reader.read_binary(*place) for place in spans.places]
            finally:
                self._reader.end_unit(unit.span, [])
        anchor = _Anchor()
        pinned: list[object] = []
        try:
            anchor.views = [self._reader.read_binary(*place) for place in spans.places]
            pinned.append(anchor)
            return [exporter_of(view, anchor) for view in anchor.views]
        finally:
            self._reader.end_unit(unit.span, pinned)

    def drop(self, spans: _Spans) -> None:
        """End a unit without reading it, which wakes a producer that waits for room."""
        self._reader.end_unit(self._reach(_Spans(*spans)).span, [])

    def _reach(self, spans: _Spans) -> _Unit:
        """End the units that were never sent, and advance to the one that was."""
        unit = _Unit(*spans.unit)
        for each in sorted(_Unit(*skipped) for skipped in spans.skipped):
            self._expect(each)
            # Units of an earlier iteration are no longer in a ring, which was emptied since.
            if self._reader.zero_copy or each.epoch == unit.epoch:
                self._reader.end_unit(each.span, [])
        return self._expect(unit)

    def _expect(self, unit: _Unit) -> _Unit:
        if unit.number != self._next:
            raise InternalError(
                f"unit {unit.number} of an arena was requested, but {self._next} is the next one: messages must be"
                " received in the order in which they were put"
            )
        self._next += 1
        return unit


class _Anchor:
    """Lives as long as any buffer of a unit, and keeps the reader's views of it."""

    __slots__ = ("__weakref__", "views")

    views: list[memoryview]
