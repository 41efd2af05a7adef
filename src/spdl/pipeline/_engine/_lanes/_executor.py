"""Calls in an executor of the user's: one thread per such stage submits, the executor's callbacks complete.

``submit`` is user code: it may block or run the call at once. So it runs neither under the lock nor on a thread that
others depend on. A generator on a thread pool is driven step by step; in a process pool it runs to its end there and
is collected.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from spdl.pipeline._engine._failures import log_failure
from spdl.pipeline._engine._stages._generator import GeneratorStage
from spdl.pipeline._engine._stages._timed import give_up
from spdl.pipeline._errors import PipelineError

from ._base import EngineThread
from ._deadlines import close_given_up
from ._remote import call_remotely, collect_remotely, unpack_remote, unpack_remote_generator

if TYPE_CHECKING:
    from spdl.pipeline._engine._scheduler import Engine
    from spdl.pipeline._engine._stages._call import CallStage
    from spdl.pipeline._engine._ticket import Ticket

__all__ = ["ExecutorLane", "is_process_pool"]

#: Before 3.12.1, a process pool that breaks while it holds a cancelled call loses its managing thread, as
#: ``set_exception`` raises there, and the exit of the interpreter then waits for the pool's workers for ever.
_MAY_CANCEL_REMOTE_CALLS: Final = sys.version_info >= (3, 12, 1)


def is_process_pool(executor: Executor) -> bool:
    """Whether calls run in another process, so that errors and generators cannot come back as they are."""
    # Whoever made a ProcessPoolExecutor has imported its module; to import it here would cost everybody 13 ms.
    processes = sys.modules.get("concurrent.futures.process")
    if processes is not None and isinstance(executor, processes.ProcessPoolExecutor):
        return True
    return bool(getattr(executor, "is_process_pool", False))


def _run_noted(ticket: Ticket, function: Callable[[Any], Any], argument: Any) -> Any:
    """On a thread of the executor: run the call, and note where, for the report about stuck calls."""
    ticket.thread_id = threading.get_ident()
    if (timeout := getattr(ticket.stage, "timeout", None)) is not None:
        ticket.stage.engine.deadlines.watch(ticket, timeout, give_up, ticket.thread_id)
    return function(argument)


class ExecutorLane:
    """The submitting thread of one stage."""

    def __init__(self, engine: Engine, executor: Executor) -> None:
        self.engine = engine
        self.executor = executor
        self.is_remote = is_process_pool(executor)
        self.may_cancel = _MAY_CANCEL_REMOTE_CALLS or not self.is_remote
        self.stage: CallStage | None = None  # set by the graph
        self.thread: EngineThread | None = None
        self.waiting: Callable[[], None] | None = None
        self.stopping = False
        self.tickets: set[Ticket] = set()  # submitted, and not yet completed
        self.is_claiming = False  # the submitting thread never waits with the lock held

    # -- under the lock

    def offer(self, stage: CallStage) -> None:
        if self.waiting is not None and stage.ready():
            self._wake()

    def cancel_calls(self, stage: CallStage) -> None:
        for ticket in self.tickets:
            ticket.cancelled = True
            if ticket.handle is not None and self.may_cancel:
                # Runs callbacks on this thread, which would take the lock again: leave it to somebody without the lock.
                self.engine.to_close.append(ticket.handle.cancel)

    def lose_call(self, ticket: Ticket) -> None:
        """A call has been given up: nobody waits for it any more."""
        self.tickets.discard(ticket)
        if ticket.handle is not None and self.may_cancel:
            self.engine.to_close.append(ticket.handle.cancel)
        self.offer(ticket.stage)

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting()

    def stop(self) -> None:
        self.stopping = True
        self._wake()

    # -- not under the lock

    def start(self) -> None:
        assert self.stage is not None
        name = f"spdl-{self.engine.pipeline_id}-submit-{self.stage.info.stage_id}"
        self.thread = EngineThread(name, self._submit_all)
        self.thread.start()

    def _submit_all(self, thread: EngineThread) -> None:
        engine, stage = self.engine, self.stage
        assert stage is not None
        lock = engine.lock
        wake_up = threading.Lock()
        wake_up.acquire()
        ticket: Ticket | None = None
        while True:
            with lock:
                if stage.ready():
                    ticket = stage.take(perf_counter())
                    self.tickets.add(ticket)
                elif self.stopping:
                    break
                else:
                    self.waiting = wake_up.release
            if engine.to_close:
                engine.close_generators()
            if ticket is None:
                wake_up.acquire()
            else:
                self._submit(thread, ticket)
                ticket = None
        engine.close_generators()

    def _submit(self, thread: EngineThread, ticket: Ticket) -> None:
        stage = ticket.stage
        function, argument = self._task(ticket)
        timeout: float | None = getattr(stage, "timeout", None)
        thread.ticket = ticket
        try:
            if self.is_remote:
                remote = collect_remotely if isinstance(stage, GeneratorStage) else call_remotely
                future = self.executor.submit(remote, function, argument)
            elif isinstance(self.executor, ThreadPoolExecutor):
                future = self.executor.submit(_run_noted, ticket, function, argument)
            else:
                future = self.executor.submit(function, argument)
        except BaseException as exc:  # noqa: BLE001 - the executor is the user's
            self._settle_broken(ticket, exc, refused=isinstance(exc, RuntimeError))
            self._complete(ticket)
            return
        finally:
            thread.ticket = None
        ticket.handle = future
        if timeout is not None and not isinstance(self.executor, ThreadPoolExecutor):
            # When a worker elsewhere begins cannot be seen: the time it waits for one counts.
            self.engine.deadlines.watch(ticket, timeout, give_up)
        future.add_done_callback(lambda done: self._done(ticket, done))
        with self.engine.lock:
            stop = ticket.cancelled
        if stop and self.may_cancel:
            future.cancel()

    def _task(self, ticket: Ticket) -> tuple[Callable[[Any], Any], Any]:
        if isinstance(ticket.stage, GeneratorStage) and not self.is_remote:
            return ticket.stage.step, ticket
        return ticket.stage.op, ticket.value

    def _done(self, ticket: Ticket, future: Future[Any]) -> None:
        """Callback of the future, on a thread of the executor."""
        stage = ticket.stage
        if not self.engine.deadlines.forget(ticket):
            close_given_up(ticket, self.engine)
            return
        # Asked for, not raised: a traceback through here would keep the pool's own threads and descriptors alive.
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
        self._complete(ticket)

    def _settle_result(self, ticket: Ticket, result: Any) -> None:
        stage = ticket.stage
        if not self.is_remote:
            if not isinstance(stage, GeneratorStage):  # a generator's step has left its result in the ticket
                ticket.result = result
            return
        if isinstance(stage, GeneratorStage):
            stage.settle_collected(ticket, unpack_remote_generator(result))
            return
        value, error = unpack_remote(result)
        if error is None:
            ticket.result = value
        elif not ticket.cancelled:
            ticket.error = log_failure(
                self.engine.report_failure, stage.info, ticket.origin, ticket.value, error, stage.location
            )

    def _settle_broken(self, ticket: Ticket, exc: BaseException, *, refused: bool = False) -> None:
        """A broken executor fails the stage: it would fail every item after this one. Anything else costs the item."""
        stage = ticket.stage
        ticket.exhausted = True
        if refused or isinstance(exc, BrokenExecutor):
            error = PipelineError(
                f"executor {type(self.executor).__name__} of stage {stage.info} takes no more calls: "
                f"{type(exc).__name__}: {exc}. A worker died, or the executor was shut down before the pipeline ended."
            )
            error.__cause__ = exc
            ticket.fatal = error
        else:
            stage.settle_error(ticket, exc)

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
