"""The two threads that communicate with the workers of a region: a sender (``dealer``) and a collector.

Sending may block if a worker does not read. Collecting never blocks, so events of the workers, including their deaths,
are handled at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from spdl._errors import WorkerDiedError
from spdl._reports import add_note, attempts_of, shown
from spdl.pipeline._engine._core import Core, EngineState
from spdl.pipeline._engine._ending import Joining, RunningCall, Stuck
from spdl.pipeline._engine._failures import Failure, FailureRecord, log_failure, release_frames
from spdl.pipeline._engine._lane import Lane, Rank
from spdl.pipeline._engine._origin import plain_origin, roots_of
from spdl.pipeline._engine._region._workers import (
    Change,
    Died,
    Event,
    Failed,
    FailedItem,
    Ready,
    RegionWorkers,
    Told,
    Unreadable,
)
from spdl.pipeline._engine._remote_calls import as_error
from spdl.pipeline._engine._thread import EngineThread, Task, new_wake_up

if TYPE_CHECKING:
    from spdl.pipeline._engine._region._stage import RegionStage
    from spdl.pipeline._engine._region._state import Held, Order, WorkerState

#: How long calls in the workers may continue before the workers are killed, in seconds: after a stop, and otherwise.
_STOP_TIMEOUT = 10.0
_SHORT_TIMEOUT = 1.0
#: A worker that dies this many times in a row while starting, or without an item, is not replaced again.
_MAX_VAIN_STARTS = 3


class RegionLane(Lane):
    """The threads of one region, and its workers."""

    rank = Rank.REGION

    def __init__(self, engine: Core, node: RegionStage, workers: RegionWorkers) -> None:
        self.engine = engine
        self.node = node
        self.workers = workers
        self.dealer: EngineThread | None = None
        self.collector: EngineThread | None = None
        self.stopping = False
        self.killed: list[tuple[str, str]] = []  # workers that did not end, and the items they held
        self._waiting: Callable[[], None] | None = None
        self._start_error: BaseException | None = None
        self._num_vain: Counter[int] = Counter()  # by worker: deaths without an item, since the last consumed item

    # -- under the lock

    def offer(self) -> None:
        """Wake the sender: there may be something to send."""
        if self._waiting is not None and self.node.has_orders():
            self._wake_dealer()

    def change_size(self) -> None:
        """Wake the collector to start and end workers, and the sender to notify workers that retire."""
        self.workers.wake()
        self.offer()

    def stop(self) -> None:
        """Stop both threads; the collector stops the workers. Never blocks."""
        if not self.stopping:
            self.stopping = True
            self._wake_dealer()
            self.workers.wake()

    def _wake_dealer(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()

    # -- not under the lock

    def prepare(self) -> None:
        """Start the processes, while the fork start method is safe.

        If that fails, the stage fails when everything else is running.
        """
        try:
            if self.node.size.may_change:
                self.workers.num_workers = len(self.node.workers)  # the collector alone changes it from here
            self.workers.start()
        except Exception as exc:  # noqa: BLE001 - ops that do not pickle, a system without room for processes
            self._start_error = release_frames(exc)

    def start(self) -> None:
        name = f"spdl-{self.engine.pipeline_id}-region-{self.node.info.stage_id}"
        error, self._start_error = self._start_error, None
        if error is not None:
            with self.engine.lock:
                self.engine.fail(self.node, error, perf_counter())
        self.collector = EngineThread(f"{name}-collect", Task(self.engine.thread_died, self._collect))
        self.collector.start()
        self.dealer = EngineThread(f"{name}-deal", Task(self.engine.thread_died, self._deal))
        self.dealer.start()

    def stop_workers(self) -> None:
        """Stop the workers. Idempotent."""
        if self.engine.state is not EngineState.STOPPING or self.engine.is_abandoned:
            self.workers.stop(_SHORT_TIMEOUT)  # a failure, or no worker is left: do not wait for calls
            return
        for index in self.workers.stop(_STOP_TIMEOUT):
            self.killed.append((self.workers.describe(index), _named(self.node.workers[index].held) or "(none)"))

    def join(self, joining: Joining) -> None:
        """Join both threads. The collector's thread ends when the workers have ended or have been killed."""
        info = str(self.node.info)
        if self.collector is None:  # the start failed
            self.stop_workers()
        elif not joining.has_ended(self.collector):
            self.workers.kill()
            joining.stuck += [
                Stuck(info, _named(worker.held), f"  {self.workers.describe(index)}\n")
                for index, worker in enumerate(self.node.workers)
                if worker.held
            ]
            return
        killed, self.killed = self.killed, []
        joining.stuck += [Stuck(info, items, f"  {who}, which was killed\n") for who, items in killed]
        joining.thread(self.dealer)

    def running(self) -> list[RunningCall]:
        held = [one.describe() for worker in self.node.workers for one in list(worker.held.values())]
        if not held or self.collector is None or not self.collector.is_alive():
            return []
        return [RunningCall(str(self.node.info), ", ".join(held))]

    def _deal(self, thread: EngineThread) -> None:
        engine, node = self.engine, self.node
        wake_up = new_wake_up()
        try:
            while True:
                with engine.lock:
                    orders = [] if self.stopping else node.take_orders(perf_counter())
                    if not orders:
                        if self.stopping:  # possibly because of the end just taken: then no other thread wakes this one
                            break
                        self._waiting = wake_up.release
                if orders:
                    for order in orders:
                        self._carry_out(order)
                    orders = []  # this frame must not keep items alive
                else:
                    wake_up.acquire()
        except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
            with engine.lock:
                engine.broken(exc)
        engine.close_generators()

    def _carry_out(self, order: Order) -> None:
        worker, generation, transfer, num_credits, then = order
        refused = self.workers.send(worker, generation, transfer, num_credits, then)
        if not refused:
            return
        values = dict(transfer)
        for position, error in refused:
            held = self.node.workers[worker].held.get(position)
            if held is None:
                continue
            add_note(error, f"the item cannot be sent to {self.workers.describe(worker)}")
            record = self._log(held.origin, values[position], error)
            with self.engine.lock:
                self.node.refuse(worker, position, record, perf_counter())

    def _collect(self, thread: EngineThread) -> None:
        engine = self.engine
        try:
            while True:
                if self.stopping:
                    break
                self._change_size()
                events = self.workers.wait()
                for event in events:
                    self._take(event)
                events = event = ()  # type: ignore[assignment] # this frame must not keep items alive
        except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
            with engine.lock:
                engine.broken(exc)
        self.stop_workers()
        engine.close_generators()

    def _take(self, event: Event) -> None:
        engine, node = self.engine, self.node
        if isinstance(event, Told):
            records = self._records(event)
            with engine.lock:
                node.take_report(event.worker, event.values, event.report, records, event.then, perf_counter())
            if event.report.consumed:
                self._num_vain[event.worker] = 0
        elif isinstance(event, Ready):
            with engine.lock:
                node.mark_ready(event.worker)
        elif isinstance(event, Failed):
            with engine.lock:
                self._fail(event.error)
        else:
            self._bury(event)

    def _records(self, event: Told) -> list[FailureRecord]:
        node, report = self.node, event.report
        records = []
        if report.failures:
            who = self.workers.describe(event.worker)
            worker = node.workers[event.worker]
            records = [self._record(worker, failed, who) for failed in report.failures]
        for value, descent in zip(event.values, report.descents, strict=True):
            if type(value) is Unreadable:
                held = [node.workers[event.worker].held[p] for p in (*descent.whole, *descent.parts)]
                origin = held[0].origin if len(held) == 1 else tuple(one.origin for one in held)
                who = self.workers.describe(event.worker)
                add_note(value.error, f"an output of {who} cannot be unpickled here")
                records.append(self._log(origin, None, value.error))
        return records

    def _record(self, worker: WorkerState, failed: FailedItem, who: str) -> FailureRecord:
        """Make the failure record of an item that failed in a worker, and report it."""
        engine, info = self.engine, self.node.info
        error = as_error(failed.failure)
        origin = worker.describe_origin(failed.origin)
        where = f"source position {shown(origin)}, item {failed.item}, in {who} of {info}"
        add_note(error, f"in pipeline stage {failed.stage}, {where}")
        roots = worker.roots_of(failed.origin)
        record = FailureRecord(
            failed.stage, origin, failed.item, error, attempts_of(error), failed.seconds, failed.outcome, roots
        )
        engine.watch_failure(Failure(failed.stage, roots[0] if len(roots) == 1 else roots, None, record, who))
        return record

    def _change_size(self) -> None:
        """Start and end workers if their number should change."""
        engine, node, workers = self.engine, self.node, self.workers
        with engine.lock:
            changes = node.take_changes()
            done = [index for index, worker in enumerate(node.workers) if worker.ended]
        for number, (change, index) in enumerate(changes):
            self._num_vain[index] = 0
            try:
                if change is Change.ADD:
                    workers.add()
                elif change is Change.REPLACE:
                    workers.replace(index, done)
                else:
                    workers.retire(index, at_once=change is Change.CANCEL)
            except Exception as exc:  # noqa: BLE001 - the system may be out of processes
                text = "no further worker of stage %s can be started: %s. The others continue"
                engine.log.warning(text, node.info, release_frames(exc))
                with engine.lock:
                    node.size.give_up(changes[number:])
                return

    def _bury(self, event: Died) -> None:
        """Handle the death of a worker: replace it, or fail the stage."""
        engine, node, workers = self.engine, self.node, self.workers
        index = event.worker
        with engine.lock:
            if node.ended or node.workers[index].ended:
                return
            was_starting = node.workers[index].is_away
            held = node.mark_dead(index)
            is_dismissed = not held and node.may_dismiss_worker(index, was_starting=was_starting)
            if is_dismissed:
                node.dismiss_worker(index, perf_counter())
        if is_dismissed:
            if was_starting:
                text = "a worker of stage %s died before it was ready: %s. The others continue"
                engine.log.warning(text, node.info, event.error)
            return
        self._num_vain[index] = 0 if held else self._num_vain[index] + 1
        if not workers.may_replace or self._num_vain[index] > _MAX_VAIN_STARTS:
            with engine.lock:
                self._fail(event.error)
            return
        records = {}
        who = workers.describe(index)
        num_again = 0
        for number, one in held.items():
            if one.may_go_again():
                num_again += 1
            if one.has_failed or one.may_go_again():
                continue
            error = WorkerDiedError(str(event.error), exit_code=getattr(event.error, "exit_code", None))
            text = one.describe()
            position = plain_origin(one.origin)
            second = ", which was sent again after another worker that held it had died" if one.is_second else ""
            add_note(error, f"in pipeline stage {node.info}, source position {shown(position)}, item {text}{second}")
            record = FailureRecord(str(node.info), position, text, error, roots=roots_of(one.origin))
            engine.tell_failure(Failure(node.info, one.origin, None, record, who))
            records[number] = record
        if num_again:
            items = "1 item that it held is" if num_again == 1 else f"{num_again} items that it held are"
            engine.log.warning("%s of stage %s died: %s; %s sent again", who, node.info, event.error, items)
        with engine.lock:
            must_replace = node.lose_worker(index, records, perf_counter())
            done = [other for other, worker in enumerate(node.workers) if worker.ended]
        if not must_replace:
            return
        try:
            workers.replace(index, done)
        except Exception as exc:  # noqa: BLE001 - the system may be out of processes
            with engine.lock:
                self._fail(exc)

    def _fail(self, error: BaseException) -> None:
        """Under the lock."""
        if not self.node.ended:
            self.engine.fail(self.node, error, perf_counter())

    def _log(self, origin: object, value: object, error: Exception) -> FailureRecord:
        engine, node = self.engine, self.node
        return log_failure(engine.tell_failure, node.info, origin, value, error, "its stages")  # type: ignore[arg-type]


def _named(held: dict[int, Held]) -> str:
    return ", ".join(one.describe() for one in list(held.values()))
