"""Reading a pipeline for somebody who keeps account of its items elsewhere: the worker of a region.

Outputs are taken with their origins; which positions are consumed, and which items have failed, is collected until it
is reported. Positions are those that the owner of the region gives, not counted here.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from spdl._processes._remote_failure import RemoteFailure

from ._channel import MARK
from ._origin import Origin, Part, Positions, SourcePosition, describe
from ._region_workers import Descent, FailedItem, Report, Then
from ._stages import SourceNode, Wait

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

    from ._channel import Entry
    from ._engine import Engine

__all__ = ["RegionReader"]


class _ReportedPositions(Positions):
    """Notes what is consumed until it is asked for. ``num_issued`` is set before each item. Guarded by the lock."""

    __slots__ = ("consumed", "num_consumed_before", "num_given", "reader")

    def __init__(self, reader: RegionReader) -> None:
        super().__init__()
        self.reader = reader
        self.consumed: list[int] = []
        self.num_consumed_before = 0
        self.num_given = 0  # written by the source's thread

    def consume(self, index: int) -> None:
        self.consumed.append(index)
        if self.is_idle():
            self.reader.note_news()

    def is_idle(self) -> bool:
        """Nothing is left of all that was given. Then what was dropped last is told without waiting for outputs."""
        return self.num_consumed_before + len(self.consumed) == self.num_given

    def take(self) -> list[int]:
        consumed, self.consumed = self.consumed, []
        self.num_consumed_before += len(consumed)
        return consumed


class _Place(SourcePosition):
    """A position as logs and notes in the worker show it: it counts what was dealt, not the source's items."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self.position} of the region>"


class RegionReader:
    """The consumer of a pipeline with one source, which calls ``next_position`` before each item it gives.

    Made before the pipeline starts. ``take``, ``wait`` and ``report`` are for one thread.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        (self.source,) = (node for node in engine.nodes if isinstance(node, SourceNode))
        self._positions = _ReportedPositions(self)
        engine.ledger.sources[0] = self.source.positions = self._positions
        # Positions of a kind of their own: in a description they cannot be mistaken for the number of an output.
        self.source.shares_ledger = True
        self.source.position_class = _Place
        self._report_failure = engine.report_failure
        engine.report_failure = self._on_failure
        self._failures: deque[FailedItem] = deque()
        self._num_taken = 0
        self._has_news = False  # something to report, or to look at again
        self._arrived = threading.Lock()
        self._arrived.acquire()

    # -- from any thread

    def next_position(self, position: int) -> None:
        """The source is about to give the item with this position. On the source's thread."""
        self._positions.num_given += 1
        self._positions.num_issued = position

    def transfer_taken(self) -> None:
        with self.engine.lock:
            self._num_taken += 1
            self.note_news()

    def poke(self) -> None:
        """Let ``wait`` return."""
        with self.engine.lock:
            self.note_news()

    def note_news(self) -> None:
        """Under the lock."""
        self._has_news = True
        self.engine.sink.wake_all()

    def refuse(self, position: int, stage: str, item: str, error: BaseException) -> None:
        """An item that does not get as far as the source has failed. On the source's thread."""
        self._failures.append(FailedItem(stage, SourcePosition(0, position), item, RemoteFailure.of(error)))
        with self.engine.lock:
            self._positions.num_given += 1
            self._positions.consume(position)
            self.note_news()

    def fail_output(self, entry: Entry, stage: str, item: str, error: BaseException) -> None:
        """An output that was taken cannot be passed on."""
        self.add_failure(FailedItem(stage, describe(entry[1]), item, RemoteFailure.of(error)))

    def add_failure(self, failed: FailedItem) -> None:
        self._failures.append(failed)
        self.poke()

    def _on_failure(self, stage: StageInfo, item: str, position: object, error: BaseException) -> None:
        self._report_failure(stage, item, position, error)
        self.add_failure(FailedItem(str(stage), position, item, RemoteFailure.of(error)))

    # -- the consumer's

    def take(self, most: int) -> tuple[list[Entry], Then]:
        """At most so many outputs, and what comes after them if that is known. Does not wait.

        They count as the pipeline's until they are in a report.
        """
        inbox = self.engine.sink.inbox
        items = inbox.items
        found: list[Entry] = []
        with self.engine.lock:
            while len(found) < most and items and items[0] is not MARK:
                found.append(inbox.take())
            if items:
                return found, Then.MARK if items[0] is MARK else Then.NOTHING
            return found, Then.END if inbox.closed else Then.NOTHING

    def pass_mark(self) -> None:
        with self.engine.lock:
            entry = self.engine.sink.inbox.take()
            assert entry is MARK

    def wait(self, *, for_items: bool) -> None:
        """Until there is something to report; or, if asked, to take."""
        sink = self.engine.sink
        inbox = sink.inbox
        while True:
            with self.engine.lock:
                if self._has_news or (for_items and (inbox.items or inbox.closed)):
                    self._has_news = False
                    return
                sink.waiting.append(Wait(self._arrived.release, 0.0))
            self._arrived.acquire()

    def must_report(self) -> bool:
        positions = self._positions
        return bool(self._num_taken or self._failures or (positions.consumed and positions.is_idle()))

    def report(self, outputs: list[Entry], refused: list[Entry]) -> Report:
        """Account for all up to now; also for ``outputs``, which go with it, and ``refused``, which have failed."""
        engine, positions = self.engine, self._positions
        with engine.lock:
            engine.num_items += len(outputs)
            for _, origin in (*outputs, *refused):
                engine.ledger.release(origin)
            consumed = positions.take()
            num_taken, self._num_taken = self._num_taken, 0
            num_dropped = sum(node.counters.num_dropped for node in engine.nodes)
            num_calls = engine.num_counted_calls()
            busy = sum(node.counters.busy for node in engine.nodes if node is not self.source)
        # After ``consumed``: whatever has been consumed by failing is told with its failure, or after it.
        failures = [self._failures.popleft() for _ in range(len(self._failures))]
        descents = [_descent(origin) for _, origin in outputs]
        return Report(num_taken, descents, consumed, failures, num_dropped, num_calls, busy)


def _descent(origin: Origin) -> Descent:
    if isinstance(origin, SourcePosition):
        return Descent((origin.position,), ())
    whole: list[int] = []
    parts: set[int] = set()
    todo: list[tuple[Any, bool]] = [(origin, True)]
    while todo:
        each, is_whole = todo.pop()
        if isinstance(each, SourcePosition):
            if is_whole:
                whole.append(each.position)
            else:
                parts.add(each.position)
        elif isinstance(each, Part):
            todo.append((each.branch.parent, False))
        else:
            todo += [(one, is_whole) for one in each]
    return Descent(tuple(sorted(whole)), tuple(sorted(parts)))
