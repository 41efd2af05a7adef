"""Isolated stages: calls run in child processes, so that a crash fails only the item.

The stage has its own pool of threads, one per child. A thread claims a ticket like any worker, sends it to its child
and waits. When the child dies, or times out and is killed, the item fails, and the next item gets a new child. The
engine starts no process itself: ``GraphOptions.start_isolated`` returns an ``IsolatedWorker``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator
from random import Random
from typing import TYPE_CHECKING, Any, Final

import spdl.pipeline._asyncio as asyncio
from spdl._errors import StageTimeoutError, WorkerDiedError, WorkerTimeoutError
from spdl._reports import add_note, note_attempts
from spdl.pipeline._engine._remote_calls import Collected, IsolatedTask, IsolatedWorker, StartIsolated, as_error
from spdl.pipeline._engine._stages._outcomes import WrongParameters
from spdl.pipeline._engine._ticket import CallSource, Ticket

from ._jobs import JobQueue
from ._pool import PoolLane

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._lane import AsyncLane
    from spdl.pipeline._engine._thread import EngineThread
    from spdl.pipeline._info import StageInfo

#: If this many children in a row die before they are ready, the stage fails: the cause is not an item.
_MAX_FAILED_STARTS: Final = 3


class _CannotStart(WrongParameters):
    """No child can run the op for any item: the stage fails with the cause."""


class _CutOff(Exception):
    """The call's result is no longer needed."""


class _Seat:
    """A thread of the lane with its child and the running ticket. Guarded by ``IsolatedLane.guard``."""

    __slots__ = ("cut", "ticket", "worker")

    def __init__(self) -> None:
        self.worker: IsolatedWorker | None = None
        self.ticket: Ticket | None = None
        self.cut = threading.Event()  # the ticket is cancelled: the child is being killed

    def cut_off(self) -> None:
        """Kill the child, only while it runs a ticket: an idle child ends by itself."""
        if self.ticket is not None:
            self.cut.set()
            if self.worker is not None:
                self.worker.kill()


class IsolatedLane(PoolLane):
    """The threads of one stage.

    Lock order: ``guard`` may be taken under the engine's lock, never the reverse. Nothing blocks under it.
    """

    has_child_processes = True
    runs_on = "process"

    def __init__(self, engine: Core, task: IsolatedTask, start_child: StartIsolated) -> None:
        super().__init__(engine, task.concurrency, f"isolated-{task.info.stage_id}")
        self.task: IsolatedTask | None = task
        self.start_child = start_child
        self.guard = threading.Lock()
        self.seats: dict[EngineThread, _Seat] = {}
        self.is_cut = False  # no more calls are needed
        self.num_failed_starts = 0  # in a row
        self.random = Random()  # for retry jitter; the global generator belongs to the user

    # -- under the engine's lock, non-blocking

    def cancel_calls(self, source: CallSource) -> None:
        self._cut_all()

    def stop(self) -> None:
        super().stop()
        self._cut_all()

    def _cut_all(self) -> None:
        with self.guard:
            self.is_cut = True
            for seat in self.seats.values():
                seat.cut_off()

    def cut_off(self, ticket: Ticket) -> None:
        """Kill the child that runs one ticket."""
        with self.guard:
            ticket.cancelled = True
            for seat in self.seats.values():
                if seat.ticket is ticket:
                    seat.cut_off()

    def forget(self) -> None:
        """Drop the reference to the user's op after all threads have ended."""
        self.task = None

    def note_size(self) -> None:
        """Do nothing: the pipeline's number of threads is that of its pool."""

    # -- on the lane's threads, without the engine's lock

    def run(self, thread: EngineThread, ticket: Ticket) -> None:
        with self.guard:
            seat = self.seats.setdefault(thread, _Seat())
            if self.is_cut or ticket.cancelled:
                _discard(ticket)
                return
            seat.ticket = ticket
        try:
            value, error = self._call(seat, ticket)
            self._settle(ticket, value, error)
        except _CutOff:
            _discard(ticket)
        except BaseException as exc:  # noqa: BLE001 - pickling runs user code, and a process start may fail in any way
            self._settle(ticket, [], exc)
        finally:
            with self.guard:
                seat.ticket = None
            if seat.cut.is_set():
                self._dismiss(seat)
                seat.cut.clear()

    def leave(self, thread: EngineThread) -> None:
        with self.guard:
            seat = self.seats.pop(thread, None)
        if seat is not None:
            self._dismiss(seat)

    def _dismiss(self, seat: _Seat) -> None:
        with self.guard:
            worker, seat.worker = seat.worker, None
        if worker is not None:
            worker.stop()

    def _call(self, seat: _Seat, ticket: Ticket) -> tuple[Any, Exception | None]:
        """Run the op with the retries of the stage. Returns its result or all outputs of a generator, and its error."""
        task = self.task
        assert task is not None
        retry, limit = task.retry, task.timeout
        if retry is not None and retry.timeout_per_attempt is not None:
            limit = min(retry.timeout_per_attempt, math.inf if limit is None else limit)
        attempt = 1
        is_known = False  # the child still has the item from the previous attempt
        while True:
            value: Any = []
            error: Exception
            try:
                worker = self._worker_of(seat, task)
                ticket.started = self.engine.clock() if attempt == 1 else ticket.started
                reply = worker.call_again(limit) if is_known else worker.call(ticket.value, limit)
            except (WorkerDiedError, WorkerTimeoutError) as exc:
                self._dismiss(seat)
                if seat.cut.is_set():
                    raise _CutOff from None
                error = exc.with_traceback(None)
                if isinstance(exc, WorkerTimeoutError):
                    assert limit is not None
                    error = _explain_timeout(exc, task, limit)
                may_retry = retry is not None and retry.covers(error)
                is_known = False
            else:
                value = reply.value
                if reply.failure is None:
                    return value, None
                error, may_retry, is_known = as_error(reply.failure), reply.may_retry, True
            if retry is None or not may_retry or attempt >= retry.attempts:
                if retry is not None:
                    note_attempts(error, attempt, retry.attempts)
                return value, error
            attempt += 1
            if seat.cut.wait(retry.delay_before(attempt, self.random.random)):
                raise _CutOff

    def _worker_of(self, seat: _Seat, task: IsolatedTask) -> IsolatedWorker:
        """Return the child of this thread; start a new one if there is none or it died while idle."""
        worker = seat.worker
        if worker is not None:
            if worker.is_alive():
                return worker
            self._dismiss(seat)
        while True:
            try:
                worker = self.start_child(task)
                with self.guard:
                    seat.worker = worker
                    if seat.cut.is_set():
                        worker.kill()
                worker.wait_ready()
            except Exception as exc:  # noqa: BLE001 - the stage fails with it
                self._dismiss(seat)
                if seat.cut.is_set():
                    raise _CutOff from None
                self.num_failed_starts += 1  # not synchronized: a lost count costs one more start
                if isinstance(exc, WorkerDiedError) and self.num_failed_starts < _MAX_FAILED_STARTS:
                    continue
                add_note(
                    exc, f"isolated stage {task.info} cannot start its processes; none of its items was tried there"
                )
                if isinstance(exc, WorkerDiedError):
                    add_note(
                        exc,
                        f"{self.num_failed_starts} of them in a row died before they were ready. They import the main "
                        "module: is what it runs under \"if __name__ == '__main__':\"?",
                    )
                # The error is kept; its frames would keep the child's descriptors open.
                raise _CannotStart from exc.with_traceback(None)
            self.num_failed_starts = 0
            return worker

    def _settle(self, ticket: Ticket, value: Any, error: BaseException | None) -> None:
        assert self.task is not None
        ticket.exhausted = True
        is_ordinary = error is None or (isinstance(error, Exception) and not isinstance(error, _CannotStart))
        if self.task.is_generator and is_ordinary:
            ticket.stage.settle_outputs(ticket, Collected(value, error))  # type: ignore[arg-type] # it is an Exception
        elif error is None:
            ticket.result = value
        else:
            ticket.stage.settle_error(ticket, error)


def _discard(ticket: Ticket) -> None:
    ticket.exhausted = True
    ticket.stage.settle_cancelled(ticket)


def _explain_timeout(exc: WorkerTimeoutError, task: IsolatedTask, limit: float) -> StageTimeoutError:
    error = StageTimeoutError(
        f"a call of isolated stage {task.info} has not returned within {limit:g} s; its process was killed",
        stage=str(task.info),
        seconds=limit,
    )
    if exc.remote_traceback:
        add_note(error, f"it was at\n{exc.remote_traceback}")
    return error


class IsolatedJobs(JobQueue):
    """Runs isolated calls for the loop, between task hooks. Cancelling a call kills its child."""

    def __init__(self, engine: Core, info: StageInfo, lane: IsolatedLane, loop: AsyncLane) -> None:
        super().__init__(engine, info, lane, loop)
        self.isolated = lane

    async def call_isolated(self, item: Any) -> Any:
        """Run the op. Returns its result, or ``Collected`` for a generator."""
        job = self.submit(_in_child, item, item)
        try:
            await job.handle
        except asyncio.CancelledError:
            with self.engine.lock:
                if job in self.waiting:
                    self.waiting.remove(job)
                self.isolated.cut_off(job)
            raise
        return job.outcome()

    async def generate_isolated(self, item: Any) -> AsyncIterator[Any]:
        """Run a generator op; yields its outputs."""
        collected = await self.call_isolated(item)
        for value in collected.values:
            yield value
        if collected.error is not None:
            raise collected.error


def _in_child(item: Any) -> Any:
    raise AssertionError("the lane runs the op in a child process")
