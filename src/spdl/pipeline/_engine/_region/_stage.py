"""A region: its stages run in worker processes and form one stage of the pipeline.

Items are collected into transfers and sent round-robin to the workers with room; outputs are emitted in order of
arrival. The lane (``_lane.py``) has the two threads that communicate with the workers.

If dead workers are replaced, the items that a dead worker held and reported nothing about are sent once more, before
all later items. Items of a second death fail: see ``lose_worker``.

The number of workers can change while the region runs: see ``RegionSize``. The limits on failures are in
``RegionLimits``.

Counters: ``num_calls`` counts items that are consumed in the workers, ``num_emitted`` outputs; ``num_failures`` and
``num_dropped`` are sums over the stages inside, ``busy`` over their calls.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from spdl.pipeline._engine._channel import MARK, Entry
from spdl.pipeline._engine._core import Core, Node
from spdl.pipeline._engine._places import Placed
from spdl.pipeline._engine._region._workers import Change, Descent, Report, Then, Unreadable

from ._state import Held, Order, RegionLimits, RegionSize, WorkerState

if TYPE_CHECKING:
    from spdl.pipeline._engine._failures import FailureRecord
    from spdl.pipeline._engine._origin import Origin
    from spdl.pipeline._info import StageInfo


#: Maximum number of transfers in flight to or from a worker: one in work, one waiting.
MAX_TRANSFERS: Final = 2


class RegionThreads(Protocol):
    """The interface of the lane that the stage uses. Called under the lock; never blocks."""

    def offer(self) -> None:
        """Wake the sender: there may be something to send."""

    def change_size(self) -> None:
        """Start or end workers: their number has changed."""

    def stop(self) -> None:
        """Stop the threads and the workers: the stage has ended."""


class RegionStage(Node):
    """A region as one stage. All methods run under the engine's lock unless they say otherwise."""

    __slots__ = (
        "awaited",
        "end_sent",
        "gathered",
        "input_size",
        "is_marking",
        "lane",
        "limits",
        "may_replace",
        "must_mark_again",
        "next_position",
        "next_worker",
        "num_counted",
        "num_put",
        "output_size",
        "pumping",
        "returned",
        "sends_places",
        "size",
        "transfers",
        "workers",
    )

    runs_on = "region"

    def __init__(
        self,
        engine: Core,
        info: StageInfo,
        num_workers: int,
        input_size: int,
        output_size: int,
        *,
        may_replace: bool,
        waits_until_ready: bool,
        may_resize: bool = False,
        sends_places: bool = False,
    ) -> None:
        super().__init__(engine, info)
        self.input_size = input_size
        self.output_size = output_size
        self.may_replace = may_replace
        self.sends_places = sends_places  # with each item: an op in the workers takes random numbers
        self.workers: list[WorkerState] = []
        self.size = RegionSize(self.workers, waits_until_ready=waits_until_ready, may_change=may_resize)
        self.size.begin(num_workers)
        self.limits = RegionLimits(self)
        self.lane: RegionThreads
        self.gathered: list[Entry] = []  # the transfer being filled
        self.returned: deque[Held] = deque()  # items of dead workers, to be sent again before anything else
        self.is_marking = False  # the end of an epoch was taken and has not been passed on
        self.must_mark_again = False  # items from before the mark were sent again after it
        self.next_worker = 0
        self.next_position = 0
        self.awaited: set[int] = set()  # workers that have not reached the end of the epoch; empty: none is awaited
        self.end_sent = False
        self.num_put = 0  # entries emitted, including marks
        # received transfers, each with the value of ``num_put`` at which it is emitted
        self.transfers: deque[tuple[WorkerState, int]] = deque()
        self.num_counted = 0
        self.pumping = False

    # -- input

    def on_input(self, now: float) -> None:
        self.gather(now)
        self.lane.offer()

    def on_room(self) -> None:
        self.give_credits()
        self.lane.offer()

    def gather(self, now: float) -> None:
        """Take available inputs, up to a full transfer. Guarded against re-entry: taking may bring input at once."""
        if self.pumping or self.ended:
            return
        self.pumping = True
        items, inbox = self.inbox.items, self.inbox
        while len(self.gathered) < self.input_size and items and items[0] is not MARK:
            self.gathered.append(inbox.take(now))
        self.pumping = False
        if self.gathered or items:
            self.counters.end_starved(now)
        else:
            self.counters.begin_starved(now)

    def num_free(self) -> int:
        return self.input_size - len(self.gathered)

    def worker_for_transfer(self) -> int | None:
        """Choose the worker for the collected transfer.

        A partial transfer is sent only to an idle worker, or if no more input comes; otherwise it keeps filling.
        """
        if self.returned:
            most = 1  # if an item kills a second worker, few other items are lost with it
            if self.awaited:
                return None
        elif not self.gathered or self.is_marking:
            return None
        else:
            is_due = len(self.gathered) >= self.input_size or bool(self.inbox.items) or self.inbox.closed
            most = MAX_TRANSFERS if is_due else 1
        num = len(self.workers)
        for offset in range(num):
            index = (self.next_worker + offset) % num
            worker = self.workers[index]
            if worker.num_inward < most and not worker.is_away and not worker.end_told:
                return index
        return None

    def take_transfer(self) -> list[tuple[Any, Held]]:
        """Return the items of the next transfer. Items that are sent again go one by one."""
        if self.returned:
            held = self.returned.popleft()
            value, held.value = held.value, None  # it is not sent a third time
            return [(value, held)]
        transfer = [(value, Held(value, origin, is_kept=self.may_replace)) for value, origin in self.gathered]
        self.gathered = []
        return transfer

    def next_mark(self) -> Then:
        """Return the mark or the end that must be sent to all workers next, if any."""
        if self.awaited or self.returned:
            return Then.NOTHING
        if any(worker.is_away and worker.held for worker in self.workers):
            return Then.NOTHING  # its held items are about to be counted, or sent again
        if self.is_marking:
            return Then.MARK
        if self.gathered or self.end_sent:
            return Then.NOTHING
        if self.inbox.items:
            # A mark occupies a place like an item, so that a source of empty epochs is bounded.
            return Then.NOTHING if self.out.overflow else Then.MARK
        return Then.END if self.inbox.closed else Then.NOTHING

    def lacks_end(self, worker: WorkerState) -> bool:
        """Return whether the worker must get the end of the stream: it retires, or the stream and all resends ended."""
        is_due = worker.is_retiring or (self.end_sent and not self.returned)
        return is_due and not worker.end_told and not worker.is_away

    def lacks_credit(self, worker: WorkerState) -> bool:
        """Return whether the worker waits for credits. Credits for small outputs are sent together."""
        return worker.num_credits > 0 and (
            self.output_size > 1 or worker.num_credits + worker.num_outward >= MAX_TRANSFERS
        )

    def has_orders(self) -> bool:
        return not self.ended and (
            self.worker_for_transfer() is not None
            or self.next_mark() is not Then.NOTHING
            or any(self.lacks_credit(worker) or self.lacks_end(worker) for worker in self.workers)
        )

    def take_orders(self, now: float) -> list[Order]:
        """Return the messages for the lane to send next."""
        if self.ended:
            return []
        orders = []
        index = self.worker_for_transfer()
        if index is not None:
            worker = self.workers[index]
            transfer = []
            for value, held in self.take_transfer():
                worker.held[self.next_position] = held
                sent = Placed(value, self.engine.places.of(held.origin)) if self.sends_places else value
                transfer.append((self.next_position, sent))
                self.next_position += 1
            self.next_worker = (index + 1) % len(self.workers)
            worker.num_inward += 1
            orders.append(self._order(index, transfer, Then.NOTHING))
            self.gather(now)
        then = self.next_mark()
        if then is Then.MARK:
            self.awaited = {index for index, worker in enumerate(self.workers) if not worker.is_away}
            self.must_mark_again = False
            if not self.is_marking:
                self.is_marking = True
                self.inbox.take(now)
            self.pass_mark(now)
        elif then is Then.END:
            self.end_sent = True
            for worker in self.workers:
                if worker.is_away:
                    worker.ended = worker.end_told = True
            self.end_if_done(now)
        for index, worker in enumerate(self.workers):
            if self.lacks_end(worker):
                worker.end_told = True
                orders.append(self._order(index, [], Then.END))
            elif not worker.is_away and then is Then.MARK and not worker.end_told:
                orders.append(self._order(index, [], then))
            elif not worker.is_away and self.lacks_credit(worker):
                orders.append(self._order(index, [], Then.NOTHING))
        return orders

    def _order(self, index: int, transfer: list[tuple[int, Any]], then: Then) -> Order:
        worker = self.workers[index]
        num_credits, worker.num_credits = worker.num_credits, 0
        return Order(index, worker.generation, transfer, num_credits, then)

    # -- output

    def take_report(
        self, index: int, values: list[Any], report: Report, records: list[FailureRecord], then: Then, now: float
    ) -> None:
        """Emit ``values`` and update counters. Only the calling thread removes held items.

        ``values`` and ``report.descents`` have equal length; ``records`` are all failures.
        """
        if self.cancelled:
            return
        worker, counters = self.workers[index], self.counters
        worker.num_inward -= report.num_taken
        for value, descent in zip(values, report.descents, strict=True):
            if type(value) is Unreadable:  # one of the failures
                continue
            counters.num_emitted += 1
            self.num_put += 1
            self.out.put((value, self.origin_of(worker, descent)), now)
        if report.descents:
            worker.num_outward += 1
            self.transfers.append((worker, self.num_put))
        for position in report.consumed:
            self.resolve(worker, position)
        for failed in report.failures:
            if failed.outcome == "dropped":
                worker.note_failed(failed.origin)
        self.num_counted += report.num_calls - worker.num_calls
        worker.add_counts(report, counters)
        worker.add_stages(report, self.limits.stages)
        self.give_credits()
        if self.limits.count_failures(records, now):
            return
        if then is Then.MARK:
            self.awaited.discard(index)
            self.pass_mark(now)
        elif then is Then.END:
            worker.ended = True
            if worker.is_retiring:
                worker.leave()
                self.await_no_more(index, now)
            self.end_if_done(now)
        self.lane.offer()

    def origin_of(self, worker: WorkerState, descent: Descent) -> Origin:
        self.counters.num_calls += len(descent.whole)
        origins = worker.take_origins(descent)
        return origins[0] if len(origins) == 1 else tuple(origins)

    def resolve(self, worker: WorkerState, position: int) -> None:
        """Release an item that is consumed in its worker."""
        held = worker.held.pop(position, None)
        if held is None:  # it was emitted completely
            return
        self.counters.num_calls += 1
        if held.branch is not None:
            self.engine.ledger.end_branch(held.branch)
        else:
            self.engine.ledger.release(held.origin)

    def refuse(self, index: int, position: int, record: FailureRecord, now: float) -> None:
        """Record the failure of an item that could not be sent."""
        worker = self.workers[index]
        if not self.cancelled and position in worker.held:  # otherwise it already failed with its worker
            self.resolve(worker, position)
            self.limits.count_failures([record], now)

    def give_credits(self) -> None:
        """Return credits to workers whose transfers were emitted."""
        transfers = self.transfers
        passed = self.num_put - self.out.overflow
        while transfers and transfers[0][1] <= passed:
            worker, _ = transfers.popleft()
            worker.num_outward -= 1
            worker.num_credits += 1

    # -- ends

    def pass_mark(self, now: float) -> None:
        """Emit the mark when every worker has reached it. A worker that is away has no items before it."""
        if self.awaited or self.must_mark_again:
            return
        self.is_marking = False
        if not self.limits.fails_without_success(now):
            self.num_put += 1
            self.out.put_mark(now)
            self.gather(now)

    def await_no_more(self, index: int, now: float) -> None:
        """Do not wait for a worker at the end of the epoch."""
        if index in self.awaited:
            self.awaited.discard(index)
            self.pass_mark(now)

    def end_if_done(self, now: float) -> None:
        is_done = self.end_sent and not self.ended and all(worker.ended for worker in self.workers)
        if is_done and not self.limits.fails_without_success(now):
            self.end(now)

    def end(self, now: float) -> None:
        super().end(now)
        self.lane.stop()

    def mark_ready(self, index: int) -> None:
        """Mark a worker as ready."""
        worker = self.workers[index]
        if not worker.is_gone:
            worker.is_away = False
            self.lane.offer()

    # -- the death of a worker. It is marked as dead first, then dismissed or lost.

    def mark_dead(self, index: int) -> dict[int, Held]:
        """Mark a worker as dead: it gets no more items. Returns the items it held."""
        worker = self.workers[index]
        worker.is_away = True
        return dict(worker.held)

    def may_dismiss_worker(self, index: int, *, was_starting: bool) -> bool:
        """Return whether the stage can continue without a worker that has died and held no items."""
        if self.workers[index].is_retiring:
            return True
        return was_starting and not self.may_replace and any(other != index for other in self.size.active())

    def dismiss_worker(self, index: int, now: float) -> None:
        """Continue without a worker that has died and held no items."""
        worker = self.workers[index]
        worker.leave()
        worker.is_gone = True
        self.await_no_more(index, now)
        self.end_if_done(now)
        self.lane.offer()

    def lose_worker(self, index: int, records: dict[int, FailureRecord], now: float) -> bool:
        """Fail the items held by a dead worker, or send them again. Returns whether to replace the worker.

        ``records`` contains the items that fail.
        """
        if self.cancelled:
            return False
        worker = self.workers[index]
        again = worker.take_back()  # items that could not be sent to it are already removed
        self.returned += again
        self.counters.num_redealt += len(again)
        self.must_mark_again |= self.is_marking and bool(again)
        lost = [records[position] for position, held in worker.held.items() if not held.has_failed]
        for position in list(worker.held):
            self.resolve(worker, position)
        if worker.is_retiring and not self.end_sent:  # the other workers take its items
            fresh = self.workers[index] = WorkerState(worker.generation)
            fresh.leave()
            fresh.is_gone = True
        else:
            fresh = self.workers[index] = WorkerState(worker.generation + 1)
            fresh.is_away = True
            fresh.ended = fresh.end_told = self.end_sent and not self.returned
        if self.limits.count_failures(lost, now):
            return False
        self.await_no_more(index, now)
        self.end_if_done(now)
        self.lane.offer()
        return not self.ended and not fresh.ended

    # -- the number of workers

    @property
    def num_workers(self) -> int:
        """Those that have ended with the stream count."""
        return sum(not (worker.is_retiring or worker.is_gone) for worker in self.workers)

    def resize(self, num_workers: int) -> None:
        """Change the number of workers while the stage runs."""
        if not (self.ended or self.end_sent):
            self.size.change(num_workers)
            self.lane.change_size()

    def take_changes(self) -> list[tuple[Change, int]]:
        """Return the changes that bring the number of workers to the requested one."""
        return [] if self.ended else self.size.take_changes(may_grow=not self.end_sent)

    @property
    def num_in_flight(self) -> int:
        return 0 if self.ended else len(self.returned) + sum(len(worker.held) for worker in self.workers)

    @property
    def num_counted_calls(self) -> int:
        return self.num_counted

    def forget(self) -> None:
        for worker in self.workers:
            worker.held.clear()
        self.returned.clear()

    def drop_work(self) -> None:
        self.gathered = []
        self.returned.clear()
        self.transfers.clear()
        self.awaited = set()
