"""What a region does when a worker dies: it fails or resends the items that the worker held, and may replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._region_state import WorkerState

if TYPE_CHECKING:
    from spdl.pipeline._engine._failures import FailureRecord

    from ._region import RegionStage
    from ._region_state import Held


class RegionDeaths:
    """Handles the deaths of a region's workers. All methods run under the engine's lock.

    A worker is marked as dead first, so that it gets no more items. Then ``dismiss`` or ``lose`` handles its items.
    """

    __slots__ = ("stage",)

    def __init__(self, stage: RegionStage) -> None:
        self.stage = stage

    def mark_dead(self, index: int) -> dict[int, Held]:
        """Mark a worker as dead: it gets no more items. Returns the items it held."""
        worker = self.stage.workers[index]
        worker.is_away = True
        return dict(worker.held)

    def may_dismiss(self, index: int, *, was_starting: bool) -> bool:
        """Return whether the stage can continue without a worker that has died and held no items."""
        stage = self.stage
        if stage.workers[index].is_retiring:
            return True
        return was_starting and not stage.may_replace and any(other != index for other in stage.size.active())

    def dismiss(self, index: int, now: float) -> None:
        """Continue without a worker that has died and held no items."""
        stage = self.stage
        worker = stage.workers[index]
        worker.leave()
        worker.is_gone = True
        stage.await_no_more(index, now)
        stage.end_if_done(now)
        stage.lane.offer()

    def lose(self, index: int, records: dict[int, FailureRecord], now: float) -> bool:
        """Fail the items held by a dead worker, or send them again. Returns whether to replace the worker.

        ``records`` contains the items that fail.
        """
        stage = self.stage
        if stage.cancelled:
            return False
        worker = stage.workers[index]
        again = worker.take_back()  # items that could not be sent to it are already removed
        stage.returned += again
        stage.counters.num_redealt += len(again)
        stage.must_mark_again |= stage.is_marking and bool(again)
        lost = [records[position] for position, held in worker.held.items() if not held.has_failed]
        for position in list(worker.held):
            stage.resolve(worker, position)
        if worker.is_retiring and not stage.end_sent:  # the other workers take its items
            fresh = stage.workers[index] = WorkerState(worker.generation)
            fresh.leave()
            fresh.is_gone = True
        else:
            fresh = stage.workers[index] = WorkerState(worker.generation + 1)
            fresh.is_away = True
            fresh.ended = fresh.end_told = stage.end_sent and not stage.returned
        if stage.limits.count_failures(lost, now):
            return False
        stage.await_no_more(index, now)
        stage.end_if_done(now)
        stage.lane.offer()
        return not stage.ended and not fresh.ended
