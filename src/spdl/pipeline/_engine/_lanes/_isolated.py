"""Isolated stages: the calls of such a stage run in child processes, so that a crash costs an item.

The stage has a pool of threads of its own, one per child. A thread claims a ticket like any worker, has its child run
it, and waits; when the child dies, or takes too long and is killed, the item fails and the next one gets a new child.
The engine starts no process: ``GraphOptions.start_isolated`` gives it what it knows as an ``IsolatedWorker``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from spdl._processes._remote_failure import RemoteFailure
from spdl._reports import add_note
from spdl.pipeline._engine._stages._call import WrongParameters
from spdl.pipeline._engine._stages._generator import Collected, GeneratorStage
from spdl.pipeline._engine._stages._hooked import JobStage
from spdl.pipeline._engine._ticket import Ticket
from spdl.pipeline._errors import StageTimeoutError, WorkerDiedError, WorkerTimeoutError

from ._pool import PoolLane
from ._remote import as_error

if TYPE_CHECKING:
    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline._engine._stages._call import CallStage
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline.defs import Retry

    from ._base import EngineThread

__all__ = ["IsolatedJobs", "IsolatedLane", "IsolatedReply", "IsolatedTask", "IsolatedWorker", "StartIsolated"]

#: So many children in a row that die before they are ready end the stage: what kills them is not an item.
_MAX_FAILED_STARTS: Final = 3


@dataclass(frozen=True, slots=True)
class IsolatedTask:
    """What the children of one stage do."""

    info: StageInfo
    op: Callable[[Any], Any]
    is_generator: bool
    concurrency: int
    retry: Retry | None
    timeout: float | None  # seconds, of each attempt


class IsolatedReply(NamedTuple):
    """How a call in a child ended."""

    value: Any  # a list of what was yielded, if the op is a generator
    failure: RemoteFailure | None
    may_retry: bool  # the stage's ``retry`` covers the exception, and nothing had been yielded


class IsolatedWorker(Protocol):
    """A child process as the engine sees it. Used by one thread; ``kill`` is for any."""

    def wait_ready(self) -> None:
        """Wait until the op is there.

        Raises:
            WorkerDiedError: The child died before.
            Exception: The op cannot be had there.
        """

    def is_alive(self) -> bool:
        """It can be given another call."""

    def call(self, value: Any, timeout: float | None) -> IsolatedReply:
        """Run the op on an item.

        Raises:
            WorkerDiedError: The child died of it, or was killed.
            WorkerTimeoutError: It took longer than ``timeout`` seconds; the child has been killed.
            Exception: What pickling the item, or unpickling the result, raises. The child is as it was.
        """

    def call_again(self, timeout: float | None) -> IsolatedReply:
        """Run the op again on the item of the last call. Raises as ``call``."""

    def kill(self) -> None:
        """End the process at once. Does not wait; whoever waits for a call gets ``WorkerDiedError``."""

    def stop(self) -> None:
        """Let the process end, and see that it does. Blocks for as long as that takes."""


StartIsolated: TypeAlias = "Callable[[IsolatedTask], IsolatedWorker]"


class _CannotStart(WrongParameters):
    """No child can run the op, whatever the item: the stage fails with the cause."""


class _CutOff(Exception):
    """Nobody wants the call's result any more."""


class _Seat:
    """A thread of the lane: its child, and the ticket that runs there. Guarded by ``IsolatedLane.guard``."""

    __slots__ = ("cut", "ticket", "worker")

    def __init__(self) -> None:
        self.worker: IsolatedWorker | None = None
        self.ticket: Ticket | None = None
        self.cut = threading.Event()  # the ticket is not wanted: the child is being killed, waits end

    def cut_off(self) -> None:
        """Only while there is a ticket: an idle child ends by itself."""
        if self.ticket is not None:
            self.cut.set()
            if self.worker is not None:
                self.worker.kill()


class IsolatedLane(PoolLane):
    """The threads of one stage.

    ``guard`` may be taken under the engine's lock, never the other way round, and nothing blocks under it.
    """

    def __init__(self, engine: Engine, task: IsolatedTask, start_child: StartIsolated) -> None:
        super().__init__(engine, task.concurrency, f"isolated-{task.info.stage_id}")
        self.task: IsolatedTask | None = task
        self.start_child = start_child
        self.guard = threading.Lock()
        self.seats: dict[EngineThread, _Seat] = {}
        self.is_cut = False  # no call is wanted any more
        self.num_failed_starts = 0  # in a row
        self.random = Random()  # for the jitter of retries; the state of the global one is the user's

    # -- under the engine's lock; not blocking

    def cancel_calls(self, stage: CallStage) -> None:
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
        """All threads are gone: let go of the user's op."""
        self.task = None

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
        except BaseException as exc:  # noqa: BLE001 - pickling runs user code, and starting a process may fail in any way
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
        """The op's result, or all outputs of a generator, and its error; with as many attempts as the stage allows."""
        task = self.task
        assert task is not None
        retry = task.retry
        attempt = 1
        is_known = False  # the child has the item from the attempt before
        while True:
            value: Any = []
            error: Exception
            try:
                worker = self._worker_of(seat, task)
                ticket.started = self.engine.clock() if attempt == 1 else ticket.started
                reply = worker.call_again(task.timeout) if is_known else worker.call(ticket.value, task.timeout)
            except (WorkerDiedError, WorkerTimeoutError) as exc:
                self._dismiss(seat)
                if seat.cut.is_set():
                    raise _CutOff from None
                error = _explain_timeout(exc, task) if isinstance(exc, WorkerTimeoutError) else exc.with_traceback(None)
                may_retry = retry is not None and retry.covers(error)
                is_known = False
            else:
                value = reply.value
                if reply.failure is None:
                    return value, None
                error, may_retry, is_known = as_error(reply.failure), reply.may_retry, True
            if retry is None or not may_retry or attempt >= retry.attempts:
                if retry is not None and attempt > 1:
                    add_note(error, f"attempt {attempt} of {retry.attempts}; those before failed too")
                return value, error
            attempt += 1
            if seat.cut.wait(retry.delay_before(attempt, self.random.random)):
                raise _CutOff

    def _worker_of(self, seat: _Seat, task: IsolatedTask) -> IsolatedWorker:
        """The child of this thread, a new one if there is none or it died while it had nothing to do."""
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
            except Exception as exc:  # noqa: BLE001 - whatever it is, the stage fails with it
                self._dismiss(seat)
                if seat.cut.is_set():
                    raise _CutOff from None
                self.num_failed_starts += 1  # threads may count at once; a lost count costs one more start
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
                # The error is kept; the frames it came through would keep the child's descriptors.
                raise _CannotStart from exc.with_traceback(None)
            self.num_failed_starts = 0
            return worker

    def _settle(self, ticket: Ticket, value: Any, error: BaseException | None) -> None:
        stage: Any = ticket.stage
        assert self.task is not None
        ticket.exhausted = True
        is_ordinary = error is None or (isinstance(error, Exception) and not isinstance(error, _CannotStart))
        if self.task.is_generator and is_ordinary:
            collected = Collected(value, error)  # type: ignore[arg-type] # it is an Exception
            if isinstance(stage, GeneratorStage):
                stage.settle_collected(ticket, collected)
            else:
                ticket.result = collected
        elif error is None:
            ticket.result = value
        elif isinstance(stage, JobStage):
            ticket.fatal = error  # for the coroutine that waits
        else:
            stage.settle_error(ticket, error)


def _discard(ticket: Ticket) -> None:
    """Nobody wants the result; a coroutine that should wait all the same is cancelled."""
    ticket.exhausted = True
    stage: Any = ticket.stage
    if isinstance(stage, JobStage):
        ticket.fatal = asyncio.CancelledError()


def _explain_timeout(exc: WorkerTimeoutError, task: IsolatedTask) -> StageTimeoutError:
    assert task.timeout is not None
    error = StageTimeoutError(
        f"a call of isolated stage {task.info} has not returned within {task.timeout:g} s; its process was killed",
        stage=str(task.info),
        seconds=task.timeout,
    )
    if exc.remote_traceback:
        add_note(error, f"it was at\n{exc.remote_traceback}")
    return error


class IsolatedJobs(JobStage):
    """Isolated calls between hooks of the user's: the loop wants them, and cancels them by ending the child."""

    def __init__(self, engine: Engine, info: StageInfo, lane: IsolatedLane) -> None:
        super().__init__(engine, info, lane)
        self.isolated = lane

    async def call_isolated(self, item: Any) -> Any:
        """The op's result, or ``Collected`` if it is a generator."""
        ticket = self.submit(item)
        try:
            await ticket.handle
        except asyncio.CancelledError:
            with self.engine.lock:
                if ticket in self.waiting:
                    self.waiting.remove(ticket)
                self.isolated.cut_off(ticket)
            raise
        if ticket.fatal is not None:
            raise ticket.fatal
        return ticket.result

    async def generate_isolated(self, item: Any) -> AsyncIterator[Any]:
        """The same as an async generator."""
        collected = await self.call_isolated(item)
        for value in collected.values:
            yield value
        if collected.error is not None:
            raise collected.error
