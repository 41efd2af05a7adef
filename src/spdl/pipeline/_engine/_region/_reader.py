"""Reads the pipeline of a region's worker, and reports the outcome of its items to the main process.

Outputs are taken with their origins. Consumed positions and failed items are collected until they are reported. The
main process assigns the positions.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from spdl._processes._remote_failure import RemoteFailure
from spdl.pipeline._engine._channel import MARK, Entry
from spdl.pipeline._engine._engine import Engine, Wait
from spdl.pipeline._engine._origin import Origin, Part, Positions, SourcePosition, plain_origin
from spdl.pipeline._engine._stages._call import CallStage
from spdl.pipeline._engine._stages._source import SourceNode
from spdl.pipeline._engine._thread import new_wake_up

from ._workers import Descent, FailedItem, Report, StageCounts, Then

if TYPE_CHECKING:
    from spdl._random import ItemPlace
    from spdl.pipeline._engine._failures import Failure


class _ReportedPositions(Positions):
    """Collects consumed positions until they are reported. ``next_index`` is set before each item.

    Guarded by the engine's lock.
    """

    __slots__ = ("consumed", "num_consumed_before", "num_given", "places", "reader")

    def __init__(self, reader: RegionReader) -> None:
        super().__init__()
        self.reader = reader
        self.consumed: list[int] = []
        self.num_consumed_before = 0
        self.num_given = 0  # written by the source's thread only
        self.places: dict[int, ItemPlace] = {}  # the places of pending positions, if an op takes random numbers

    @property
    def num_issued(self) -> int:
        return self.num_given

    def consume(self, index: int) -> None:
        self.pending.discard(index)
        self.places.pop(index, None)
        self.consumed.append(index)
        if self.is_idle():
            self.reader.note_news()

    def is_idle(self) -> bool:
        """Whether all given positions are consumed. If so, the last drops are reported without waiting for outputs."""
        return self.num_consumed_before + len(self.consumed) == self.num_given

    def take(self) -> list[int]:
        consumed, self.consumed = self.consumed, []
        self.num_consumed_before += len(consumed)
        return consumed


class _Place(SourcePosition):
    """A position as shown in logs and notes of the worker: a number in the region, not an index of the source."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self.position} of the region>"


class RegionReader:
    """The consumer of a pipeline with one source. The source calls ``next_position`` before each item.

    Made before the pipeline starts. ``take``, ``wait`` and ``report`` are for one thread.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        (self.source,) = (node for node in engine.nodes if isinstance(node, SourceNode))
        self._positions = _ReportedPositions(self)
        engine.ledger.sources[0] = self.source.positions = self._positions
        engine.places.sources[0] = self
        self.source.passes.keys = None
        # A distinct type: in a description, it cannot be confused with the number of an output.
        self.source.shares_ledger = True
        self.source.position_class = _Place
        engine.failure_watchers.append(self._on_failure)
        engine.judges_stages = False  # the main process does, for all workers together
        self._judged = [node for node in engine.nodes if isinstance(node, CallStage) and not node.may_all_fail]
        self._failures: deque[FailedItem] = deque()
        self._num_taken = 0
        self._has_news = False  # something to report, or to check again
        self._arrived = new_wake_up()

    # -- from any thread

    def next_position(self, position: int, place: ItemPlace | None = None) -> None:
        """Called before the source yields the item with this position, on the source's thread."""
        if place is not None:
            self._positions.places[position] = place
        self._positions.num_given += 1
        self._positions.next_index = position

    def transfer_taken(self) -> None:
        with self.engine.lock:
            self._num_taken += 1
            self.note_news()

    def poke(self) -> None:
        """Let ``wait`` return."""
        with self.engine.lock:
            self.note_news()

    def note_news(self) -> None:
        """Record that there is something to report. Under the lock."""
        self._has_news = True
        self.engine.sink.wake_all()

    def refuse(self, position: int, stage: str, item: str, error: BaseException) -> None:
        """Record the failure of an item before it reaches the source. Called on the source's thread."""
        self._failures.append(FailedItem(stage, SourcePosition(0, position), item, RemoteFailure.of(error)))
        with self.engine.lock:
            self._positions.num_given += 1
            self._positions.consume(position)
            self.note_news()

    def fail_output(self, entry: Entry, stage: str, item: str, error: BaseException) -> None:
        """Record the failure of an output that was taken but cannot be sent."""
        self.add_failure(FailedItem(stage, plain_origin(entry[1]), item, RemoteFailure.of(error)))

    def add_failure(self, failed: FailedItem) -> None:
        self._failures.append(failed)
        self.poke()

    def _on_failure(self, failure: Failure) -> None:
        record = failure.record
        remote = RemoteFailure.of(record.error)
        self.add_failure(
            FailedItem(record.stage, record.origin, record.item_repr, remote, record.seconds, record.outcome)
        )

    def place(self, index: int) -> ItemPlace:
        """Return the place of a pending position in the pipeline of the main process. Under the lock."""
        return self._positions.places[index]

    # -- from the consumer's thread

    def take(self, most: int) -> tuple[list[Entry], Then]:
        """Return at most ``most`` outputs, and what follows them if known. Does not wait.

        The outputs count as in flight until they are in a report.
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
            self.engine.ledger.end_epoch()

    def wait(self, *, for_items: bool) -> None:
        """Wait until there is something to report or, if ``for_items``, an output to take."""
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
        """Report everything so far, including ``outputs``, sent with the report, and ``refused``, which failed."""
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
            num_substituted = sum(node.counters.num_substituted for node in engine.nodes)
            num_lost = sum(node.counters.num_lost for node in engine.nodes)
            stages = tuple(StageCounts(node.num_successes, node.counters.num_failures) for node in self._judged)
        # Read after ``consumed``: an item consumed by a failure is then reported with its failure, or after it.
        failures = [self._failures.popleft() for _ in range(len(self._failures))]
        descents = [_descent(origin) for _, origin in outputs]
        return Report(
            num_taken, descents, consumed, failures, num_dropped, num_calls, busy, num_substituted, num_lost, stages
        )


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
