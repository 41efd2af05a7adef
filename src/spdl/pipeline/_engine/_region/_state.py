"""What a region's stage knows about its workers: their items, number and failures; and its messages to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spdl._errors import WorkerError
from spdl.pipeline._engine._failures import FailureRecord, no_success, short_repr
from spdl.pipeline._engine._origin import Branch, Origin, Root, SourcePosition, plain_origin, roots_of
from spdl.pipeline._engine._region._workers import Change, Descent, Report, StageCounts, Then

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._engine._core import Node
    from spdl.pipeline._engine._counters import Counters
    from spdl.pipeline._limits import Limit

#: Types whose values are kept, to name an item held by a dead worker. Of other items only the type is kept, because
#: they may be large.
_NAMED: Final = (bool, int, float, str)


class Held:
    """An item sent to a worker and not yet accounted for."""

    __slots__ = ("branch", "has_failed", "has_failed_part", "is_second", "name", "origin", "value")

    def __init__(self, value: Any, origin: Origin, *, is_kept: bool) -> None:
        self.origin = origin
        self.branch: Branch | None = None  # set if the item has had outputs and may have more
        self.name: Any = value if type(value) in _NAMED else type(value)
        self.value = value if is_kept else None  # kept to send it again if its worker dies
        self.is_second = False  # a worker that held it has already died
        self.has_failed = False  # its failure was reported and counted, but not yet that it is consumed
        self.has_failed_part = False  # the same for one of its outputs

    def may_go_again(self) -> bool:
        """Return whether to send the item again if its worker dies: only once, and if nothing was reported about it."""
        return not (self.is_second or self.has_failed or self.has_failed_part or self.branch is not None)

    def describe(self) -> str:
        return f"<{self.name.__name__} object>" if isinstance(self.name, type) else short_repr(self.name)


class WorkerState:
    """The state of one worker process. A replacement gets a new object."""

    __slots__ = (
        "busy",
        "end_told",
        "ended",
        "generation",
        "held",
        "is_away",
        "is_gone",
        "is_retiring",
        "num_calls",
        "num_credits",
        "num_dropped",
        "num_inward",
        "num_lost",
        "num_outward",
        "num_substituted",
        "stages",
    )

    def __init__(self, generation: int) -> None:
        self.generation = generation  # number of replacements
        self.held: dict[int, Held] = {}
        self.num_inward = 0  # transfers sent and not yet read by it
        self.num_outward = 0  # transfers received and waiting for room
        self.num_credits = 0  # transfers emitted but not yet acknowledged
        self.is_away = False  # dead, or a replacement that is still starting: gets no items
        self.end_told = False  # the end of the stream was sent to it; it takes no more items
        self.ended = False
        self.is_retiring = False  # surplus: it gets the end of the stream, and its index is free when it has ended
        self.is_gone = False  # it has retired, or could not be started, and the lane was notified
        self.num_dropped = 0
        self.num_calls = 0
        self.num_substituted = 0
        self.num_lost = 0
        self.stages: tuple[StageCounts, ...] = ()
        self.busy = 0.0

    def leave(self) -> None:
        """Mark the worker as gone: no more messages are expected from it."""
        self.is_retiring = self.is_away = self.end_told = self.ended = True

    def take_origins(self, descent: Descent) -> list[Origin]:
        """Return the origins of an output, in this pipeline. Positions that are only in it are no longer held."""
        origins: list[Origin] = [self.held.pop(position).origin for position in descent.whole]
        for position in descent.parts:
            held = self.held[position]
            if held.branch is None:
                held.branch = Branch(held.origin)
            origins.append(held.branch.output())
        return origins

    def describe_origin(self, origin: object) -> object:
        """Translate an origin from the worker to this pipeline. Not under the lock: see ``RegionStage.take_report``."""
        if isinstance(origin, SourcePosition):
            held = self.held.get(origin.position)
            return "unknown" if held is None else plain_origin(held.origin)
        if isinstance(origin, tuple):
            return tuple(self.describe_origin(one) for one in origin)
        return origin

    def roots_of(self, origin: object) -> tuple[Root, ...]:
        """Return the positions that an item in the worker comes from. Not under the lock, as above."""
        if isinstance(origin, SourcePosition):
            held = self.held.get(origin.position)
            return () if held is None else roots_of(held.origin)
        return tuple(root for each in origin for root in self.roots_of(each)) if isinstance(origin, tuple) else ()

    def add_counts(self, report: Report, counters: Counters) -> None:
        """Add what the worker has counted since its last report to the counters of the stage."""
        counters.num_dropped += report.num_dropped - self.num_dropped
        self.num_dropped = report.num_dropped
        self.num_calls = report.num_calls
        counters.success_time += report.busy - self.busy
        self.busy = report.busy
        counters.num_substituted += report.num_substituted - self.num_substituted
        self.num_substituted = report.num_substituted
        counters.num_lost += report.num_lost - self.num_lost
        self.num_lost = report.num_lost

    def add_stages(self, report: Report, sums: list[list[int]]) -> None:
        """Add up, over all workers, how the calls of each stage inside have ended."""
        if not sums:
            sums += [[0, 0] for _ in report.stages]
        before = self.stages or (StageCounts(0, 0),) * len(report.stages)
        for both, now, then in zip(sums, report.stages, before, strict=True):
            both[0] += now.num_successes - then.num_successes
            both[1] += now.num_failures - then.num_failures
        self.stages = report.stages

    def take_back(self) -> list[Held]:
        """Remove and return the items to send again, after the death of the worker."""
        again = {position: held for position, held in self.held.items() if held.may_go_again()}
        for position, held in again.items():
            del self.held[position]
            held.is_second = True
        return list(again.values())

    def note_failed(self, origin: object, *, is_part: bool = False) -> None:
        """Record that the failure of an item was counted. ``origin``: as described by the worker."""
        if isinstance(origin, SourcePosition):
            held = self.held.get(origin.position)
            if held is not None and is_part:
                held.has_failed_part = True
            elif held is not None:
                held.has_failed = True
        elif isinstance(origin, tuple):
            is_part = is_part or type(origin[-1]) is int  # the number of an output; a position is of another type
            for each in origin:
                self.note_failed(each, is_part=is_part)


class Order(NamedTuple):
    """A message to one worker."""

    worker: int
    generation: int
    transfer: list[tuple[int, Any]]
    num_credits: int
    then: Then


class RegionSize:
    """Tracks the number of workers of a region, and changes ``workers``. All methods run under the engine's lock.

    ``waits_until_ready``: the first workers get items only when they are ready. ``may_change``: workers can be started
    and ended while the region runs.
    """

    __slots__ = ("may_change", "num_missing", "waits_until_ready", "workers")

    def __init__(self, workers: list[WorkerState], *, waits_until_ready: bool, may_change: bool) -> None:
        self.workers = workers
        self.waits_until_ready = waits_until_ready
        self.may_change = may_change
        self.num_missing = 0  # number of workers to start

    def begin(self, num_workers: int) -> None:
        """Set the number of workers, before the start."""
        self.workers[:] = [WorkerState(0) for _ in range(num_workers)]
        for worker in self.workers:
            worker.is_away = self.waits_until_ready

    def active(self) -> list[int]:
        """Return the indices of the workers that take part, including those that are starting."""
        return [index for index, worker in enumerate(self.workers) if not (worker.is_retiring or worker.ended)]

    def change(self, num_workers: int) -> None:
        """Choose the workers to retire, beginning with those that are still starting, or how many workers to start."""
        active = self.active()
        last = sorted(active, key=lambda index: (self.workers[index].is_away, index), reverse=True)
        for index in last[: max(0, len(active) - num_workers)]:
            self.workers[index].is_retiring = True
        num_missing = max(0, num_workers - len(active))
        for worker in self.workers:
            if num_missing and worker.is_retiring and not worker.end_told:
                worker.is_retiring = False
                num_missing -= 1
        self.num_missing = num_missing

    def take_changes(self, *, may_grow: bool) -> list[tuple[Change, int]]:
        """Return the pending changes, each with the index of a worker. The caller must carry them out."""
        changes = []
        for index, worker in enumerate(self.workers):
            if not worker.is_retiring or worker.is_gone:
                continue
            if worker.ended:
                changes.append((Change.RETIRE, index))
            elif worker.is_away and not worker.held:
                changes.append((Change.CANCEL, index))
            else:
                continue
            worker.leave()
            worker.is_gone = True
        num_missing, self.num_missing = self.num_missing, 0
        free = [index for index, worker in enumerate(self.workers) if worker.is_gone]
        for _ in range(num_missing if may_grow else 0):
            if free:
                index = free.pop(0)
                fresh = self.workers[index] = WorkerState(self.workers[index].generation + 1)
                changes.append((Change.REPLACE, index))
            else:
                fresh = WorkerState(0)
                changes.append((Change.ADD, len(self.workers)))
                self.workers.append(fresh)
            fresh.is_away = True
        return changes

    def give_up(self, changes: Sequence[tuple[Change, int]]) -> None:
        """Forget the last workers to start, because they cannot be started."""
        for change, index in reversed(changes):
            if change is Change.ADD:
                assert index == len(self.workers) - 1
                self.workers.pop()
            elif change is Change.REPLACE:
                gone = self.workers[index] = WorkerState(self.workers[index].generation - 1)
                gone.leave()
                gone.is_gone = True


class RegionLimits:
    """Checks the failure limits of a region. All methods run under the engine's lock."""

    __slots__ = ("budget", "may_all_fail", "node", "num_failures_seen", "seen", "stages")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.budget: Limit | None = None  # the pipeline's limit, if it applies to a stage inside
        self.may_all_fail = False  # the user accepts that every call fails
        #: Calls of each stage inside that succeeded and failed; and the same before this epoch, ``None`` in the first.
        self.stages: list[list[int]] = []
        self.seen: list[list[int]] | None = None
        self.num_failures_seen = 0

    def count_failures(self, records: list[FailureRecord], now: float) -> bool:
        """Count failures. Returns True if they exceeded the limit and the stage has failed."""
        node = self.node
        engine = node.engine
        for record in records:
            node.counters.num_failures += 1
            node.failures.append(record)
            engine.note_failure(record)
        budget = self.budget
        num_failures = engine.num_failures
        if budget is None or not num_failures:
            return False
        num_calls = engine.num_counted_calls()
        if not budget.exceeded(num_failures, num_calls):
            return False
        limit = budget.error(node.info, num_failures, num_calls)
        crossing = engine.crossing_failure
        where = None
        if crossing is not None:
            limit.__cause__ = crossing.error
            where = getattr(crossing.error, "remote_traceback", None)
        text = f"Fused subprocess pipeline failed: {limit}"
        error = WorkerError(f"{text}\n{where}" if where else text, remote_traceback=where)
        error.__cause__ = limit
        engine.fail(node, error, now)
        return True

    def fails_without_success(self, now: float) -> bool:
        """At the end of an epoch or of the stream: fail if every call of a stage inside has failed, in all workers."""
        node, seen = self.node, self.seen
        engine, stages = node.engine, self.stages
        before = [[0, 0] for _ in stages] if seen is None else seen
        self.seen = [list(sums) for sums in stages]
        num_failures = node.counters.num_failures - self.num_failures_seen
        self.num_failures_seen = node.counters.num_failures
        if engine.stage_failures or not engine.judges_stages or (engine.is_resumed and seen is None):
            return False
        for sums, then in zip(stages, before, strict=False):
            if sums[1] > then[1] and sums[0] == then[0]:
                newest = node.failures[-1] if node.failures else None
                engine.fail(node, no_success(node.info, sums[1] - then[1], newest), now)
                return True
        is_vain = num_failures and not any(sums[0] > then[0] for sums, then in zip(stages, before, strict=False))
        if is_vain and not self.may_all_fail:  # calls that killed their worker are in no report
            newest = node.failures[-1] if node.failures else None
            engine.fail(node, no_success(node.info, num_failures, newest), now)
            return True
        return False
