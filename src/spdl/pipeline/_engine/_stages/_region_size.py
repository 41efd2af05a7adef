"""Changes the number of a region's workers while it runs.

A surplus worker is *retiring*: it gets the end of the stream, as all workers do at the end. So it emits its remaining
outputs and reports the end. Only then is it ended, and its index is free for another worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._engine._region_workers import Change

from ._region_state import WorkerState

if TYPE_CHECKING:
    from collections.abc import Sequence


class RegionSize:
    """Tracks the number of workers of a region. All methods run under the engine's lock.

    Args:
        workers: Workers of the stage. This object changes them.
        waits_until_ready: Whether the first workers get items only when they are ready.
        may_change: Whether workers can be started and ended while the region runs.
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
