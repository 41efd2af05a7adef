"""Fails a region when its workers have more than ``max_failures`` failures, or not one successful call of a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._errors import WorkerError
from spdl.pipeline._engine._failures import no_success

if TYPE_CHECKING:
    from spdl.pipeline._engine._failures import FailureRecord
    from spdl.pipeline._engine._node import Node
    from spdl.pipeline._limits import Limit


class RegionLimits:
    """Checks the failure limits of a region. All methods run under the engine's lock.

    Args:
        node: Stage of the region.
    """

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
