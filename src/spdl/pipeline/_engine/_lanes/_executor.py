"""Calls in a user's executor: one thread per stage submits them, the executor's callbacks complete them.

``submit`` is user code: it may block or run the call at once. So it runs neither under the lock nor on a shared thread.
A generator on a thread pool runs step by step; in a pool of processes or interpreters it runs to its end, and its
outputs are collected there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from spdl._errors import PipelineError
from spdl._reports import describe_exception, name_of
from spdl.pipeline._engine._ending import Joining, stack_of, stuck_in
from spdl.pipeline._engine._failures import as_stage_failure, short_repr
from spdl.pipeline._engine._lane import CallLane, OpenCall, Rank
from spdl.pipeline._engine._remote_calls import call_remotely, collect_remotely, unpack_remote, unpack_remote_generator
from spdl.pipeline._engine._stages._call import CallStage
from spdl.pipeline._engine._thread import EngineThread, Task

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._ticket import CallSource, Ticket
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline._records import ThreadBoard

#: Before Python 3.12.1, a process pool that breaks while it holds a cancelled call loses its manager thread, because
#: ``set_exception`` raises there. The interpreter's exit then waits forever for the pool's workers.
_MAY_CANCEL_REMOTE_CALLS: Final = sys.version_info >= (3, 12, 1)


#: Pools whose calls run elsewhere, by module. If there is such a pool, its module is imported. Importing it here would
#: cost every user 13 ms. A pool of interpreters is a ThreadPoolExecutor too.
_REMOTE_POOLS: Final = {
    "concurrent.futures.process": "ProcessPoolExecutor",
    "concurrent.futures.interpreter": "InterpreterPoolExecutor",
}


def is_remote(executor: Executor) -> bool:
    """Return whether the executor runs calls in another process or interpreter.

    Functions, arguments and results are pickled then, and exceptions and generators cannot be returned as they are.
    """
    for module, name in _REMOTE_POOLS.items():
        if module in sys.modules and isinstance(executor, getattr(sys.modules[module], name)):
            return True
    return bool(getattr(executor, "is_process_pool", False) or getattr(executor, "is_interpreter_pool", False))


def no_future(executor: Executor, info: StageInfo, given: object) -> TypeError:
    """Return the error for an executor whose ``submit`` does not return a future."""
    return TypeError(
        f"submit() of executor {name_of(executor)} of stage {info} must return a concurrent.futures.Future, "
        f"got {short_repr(given)}"
    )


class ExecutorLane(CallLane):
    """The submitting thread of one stage."""

    rank = Rank.EXECUTOR

    def __init__(self, engine: Core, executor: Executor) -> None:
        self.engine = engine
        self.executor = executor
        self.is_remote = is_remote(executor)
        self.runs_on = "process" if self.is_remote else "executor"
        size = getattr(executor, "_max_workers", None)  # of all pools of the standard library
        self.num_workers = size if isinstance(size, int) and size > 0 else 0
        #: Whether the executor's threads run the calls in this interpreter, and record which call they run.
        self.is_noted = isinstance(executor, ThreadPoolExecutor) and not self.is_remote
        self.may_cancel = _MAY_CANCEL_REMOTE_CALLS or not self.is_remote
        self.stage: CallStage | None = None
        self.published: tuple[ThreadBoard, int]  # where threads publish what they run, and as which stage
        self.thread: EngineThread | None = None
        self.waiting = False  # the submitting thread sleeps
        self.work = Task(engine.thread_died, self._submit_all)
        self.tickets: set[Ticket] = set()  # submitted and not yet completed
        self.unsettled: set[Ticket] = set()  # those of them whose outcome no thread is processing

    def add(self, source: CallSource) -> None:
        assert isinstance(source, CallStage)
        assert self.stage is None
        self.stage = source

    def run_noted(self, ticket: Ticket, function: Callable[[Any], Any], argument: Any) -> Any:
        """Run the call on a thread of the executor, and record the thread for the report about stuck calls."""
        ticket.thread_id = threading.get_ident()
        stage: Any = ticket.stage
        if stage.timeout is not None:
            stage.deadlines.watch(ticket, stage.timeout, ticket.thread_id)
        return function(argument)

    # -- under the lock

    def offer(self, source: CallSource) -> None:
        if self.waiting and source.ready():
            self._wake()

    def cancel_calls(self, source: CallSource) -> None:
        for ticket in self.tickets:
            ticket.cancelled = True
            if ticket.handle is not None and self.may_cancel:
                # Cancelling runs callbacks on this thread, which take the lock: leave it to a thread without the lock.
                self.engine.to_close.append(ticket.handle.cancel)

    def lose_call(self, ticket: Ticket) -> bool:
        self.tickets.discard(ticket)
        self.unsettled.discard(ticket)
        if ticket.handle is not None and self.may_cancel:
            self.engine.to_close.append(ticket.handle.cancel)
        self.offer(ticket.stage)
        return False  # the thread belongs to the executor

    def _wake(self) -> None:
        if self.waiting and self.thread is not None:
            self.waiting = False
            self.thread.wake(self.work)

    def request_stop(self) -> None:
        self.stop()

    def stop(self) -> None:
        self.stopping = True
        self._wake()

    # -- not under the lock

    def start(self) -> None:
        assert self.stage is not None
        name = f"spdl-{self.engine.pipeline_id}-submit-{self.stage.info.stage_id}"
        self.thread = EngineThread(name, self.work)
        self.thread.start()

    def _submitted(self) -> dict[Any, Ticket]:
        """Return the calls that the executor has, by their futures. Under the lock, see ``Engine.start``."""
        return {ticket.handle: ticket for ticket in self.tickets if ticket.handle is not None}

    def join(self, joining: Joining) -> None:
        joining.thread(self.thread)  # before collecting its calls: it may be submitting one
        this = threading.get_ident()
        with self.engine.lock:
            tickets = self._submitted()
        waited_for = [future for future, t in tickets.items() if future not in joining.given_up and t.thread_id != this]
        if not waited_for or isinstance(threading.current_thread(), EngineThread):
            return
        joining.wait(lambda seconds: not wait(waited_for, seconds).not_done)
        remaining = [future for future in waited_for if not future.done()]
        joining.given_up.update(remaining)
        joining.stuck += [stuck_in(tickets[future], stack_of(tickets[future].thread_id)) for future in remaining]

    def open_calls(self) -> list[OpenCall]:
        tickets = self.tickets.copy()  # made at once, so it needs no lock
        if self.thread is not None and (submitting := self.thread.ticket) is not None:
            tickets.add(submitting)
        return [OpenCall(ticket, ticket.thread_id, is_busy=ticket in self.unsettled) for ticket in tickets]

    def _submit_all(self, thread: EngineThread) -> bool:
        """Body of the submitting thread. Returns True if there is nothing to submit and the thread sleeps."""
        engine, stage = self.engine, self.stage
        assert stage is not None
        lock = engine.lock
        while True:
            ticket: Ticket | None = None
            with lock:
                if stage.ready():
                    ticket = stage.take(perf_counter())
                    self.tickets.add(ticket)
                    self.unsettled.add(ticket)
                elif self.stopping:
                    break
                else:
                    self.waiting = True
            if engine.to_close:
                engine.close_generators()
            if ticket is None:
                return True
            self._submit(thread, ticket)
        engine.close_generators()
        return False

    def _submit(self, thread: EngineThread, ticket: Ticket) -> None:
        stage = self.stage
        assert stage is not None
        function, argument = self._task(ticket, stage)
        future: Any
        thread.ticket = ticket
        try:
            if self.is_remote:
                remote = collect_remotely if stage.has_steps else call_remotely
                future = self.executor.submit(remote, function, argument)
            elif self.is_noted:
                future = self.executor.submit(self.run_noted, ticket, function, argument)
            else:
                future = self.executor.submit(function, argument)
        except BaseException as exc:  # noqa: BLE001 - the executor is user code
            self._finish(ticket, partial(self._settle_broken, ticket, exc, refused=isinstance(exc, RuntimeError)))
            return
        finally:
            thread.ticket = None
        if not isinstance(future, Future):
            self._finish(ticket, partial(self._settle_no_future, ticket, future))
            return
        ticket.handle = future
        if stage.timeout is not None and not self.is_noted:
            # The start of a call elsewhere is not visible, so the wait for a worker counts.
            assert stage.deadlines is not None
            stage.deadlines.watch(ticket, stage.timeout)
        try:
            future.add_done_callback(lambda done: self._done(ticket, done))
        except BaseException as exc:  # noqa: BLE001 - a user-defined future class
            self._finish(ticket, partial(self._settle_broken, ticket, exc))
            return
        with self.engine.lock:
            stop = ticket.cancelled
        if stop and self.may_cancel:
            self.engine.to_close.append(future.cancel)
            self.engine.close_generators()

    def _task(self, ticket: Ticket, stage: CallStage) -> tuple[Callable[[Any], Any], Any]:
        if stage.has_steps and not self.is_remote:
            return stage.step, ticket
        return stage.op, ticket.value

    def _done(self, ticket: Ticket, future: Future[Any]) -> None:
        """Callback of the future, on a thread of the executor."""
        assert self.stage is not None
        if self.stage.deadlines is not None and not self.stage.deadlines.unwatch(ticket):
            self.engine.close_given_up(ticket)
            return
        self._finish(ticket, partial(self._settle, ticket, future))

    def _finish(self, ticket: Ticket, settle: Callable[[], None]) -> None:
        """Read the outcome of a call and complete it, exactly once, even if future and executor misbehave.

        Never raises: the future would only log an exception of its callback.
        """
        with self.engine.lock:
            if ticket not in self.unsettled:
                return
            self.unsettled.discard(ticket)
        try:
            settle()
        except BaseException as exc:  # noqa: BLE001 - user code; on the main thread it may be a Ctrl-C
            ticket.exhausted = True
            what = f"executor {name_of(self.executor)} of stage {ticket.stage.info}"
            ticket.fatal = as_stage_failure(exc, what)
        self._complete(ticket)

    def _settle(self, ticket: Ticket, future: Future[Any]) -> None:
        stage = ticket.stage
        # Read, not raised: a traceback through this frame would keep the pool's threads and descriptors alive.
        if future.cancelled():
            ticket.exhausted = True
            if not ticket.cancelled:
                error = RuntimeError(f"the executor of stage {stage.info} cancelled the call")
                self._settle_broken(ticket, error)
        elif (exc := future.exception()) is not None:
            ticket.exhausted = True
            self._settle_broken(ticket, exc)
        else:
            self._settle_result(ticket, future.result())

    def _settle_result(self, ticket: Ticket, result: Any) -> None:
        stage = self.stage
        assert stage is not None
        if not self.is_remote:
            if not stage.has_steps:  # a step stored its result in the ticket
                ticket.result = result
            return
        if stage.has_steps:
            stage.settle_outputs(ticket, unpack_remote_generator(result))
            return
        value, error = unpack_remote(result)
        if error is None:
            ticket.result = value
        else:
            stage.settle_error(ticket, error)

    def _settle_broken(self, ticket: Ticket, exc: BaseException, *, refused: bool = False) -> None:
        """Handle an error of ``submit``: a broken executor fails the stage, anything else the item."""
        stage = ticket.stage
        ticket.exhausted = True
        if refused or isinstance(exc, BrokenExecutor):
            error = PipelineError(
                f"executor {name_of(self.executor)} of stage {stage.info} accepts no more calls: "
                f"{describe_exception(exc)}. A worker died, or the executor was shut down before the pipeline ended."
            )
            error.__cause__ = exc
            ticket.fatal = error
        else:
            stage.settle_error(ticket, exc)

    def _settle_no_future(self, ticket: Ticket, given: object) -> None:
        """Fail the stage: the executor would fail all further items too."""
        ticket.exhausted = True
        ticket.fatal = no_future(self.executor, ticket.stage.info, given)

    def _complete(self, ticket: Ticket) -> None:
        engine, stage = self.engine, ticket.stage
        with engine.lock:
            try:
                self.tickets.discard(ticket)
                ticket.handle = None
                stage.finish(ticket, perf_counter())
                self.offer(stage)
            except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
                engine.broken(exc)
        if engine.to_close:
            engine.close_generators()
