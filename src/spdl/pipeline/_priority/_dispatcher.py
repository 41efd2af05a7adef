"""A priority queue in front of a standard executor.

Executors of the standard library run calls in order of submission. So calls are queued here instead, and the most
urgent one is submitted when a worker is free. Uses only ``submit`` and ``shutdown`` of the executor.
"""

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from functools import partial
from typing import Any, NamedTuple


class _Work(NamedTuple):
    """A queued call. Ordered by priority, then by arrival; numbers are unique."""

    rank: int  # minus the priority: a heap pops the smallest first
    number: int
    future: Future[Any]
    call: Callable[[], Future[Any]]  # submits it to the executor


class Dispatcher:
    """Runs calls on an executor it owns, by priority.

    Threading: thread-safe. ``_lock`` guards all fields below it; neither the executor nor a future's callback is called
    under it. One thread at a time dispatches (``_dispatching``). It checks the queue again under the lock before it
    stops, so other threads need not wait for it.

    Args:
        executor: Executor that runs the calls. The dispatcher takes ownership.
        num_workers: Number of calls that the executor can run at once.
    """

    def __init__(self, executor: Executor, num_workers: int) -> None:
        self._executor = executor
        self._num_workers = num_workers
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)  # notified when no call waits or runs
        self._waiting: list[_Work] = []
        self._numbers = itertools.count()
        self._num_running = 0
        self._dispatching = False
        self._closed = False
        self._joined = False  # a thread in shutdown(wait=True) will shut the executor down
        self._broken: BrokenExecutor | None = None

    def submit(
        self, priority: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[Any]:
        """Queue a call.

        Raises:
            RuntimeError: After ``shutdown``.
            BrokenExecutor: The workers of the executor died or could not be initialized.
        """
        future: Future[Any] = Future()
        call = partial(self._executor.submit, fn, *args, **kwargs)
        with self._lock:
            if self._broken is not None:
                raise type(self._broken)(*self._broken.args) from self._broken
            if self._closed:
                raise RuntimeError(f"cannot submit {fn!r}: the priority executor has been shut down; make a new one")
            heapq.heappush(self._waiting, _Work(-priority, next(self._numbers), future, call))
        self._dispatch()
        return future

    def shutdown(self, wait: bool, cancel_futures: bool) -> None:
        """Accept no more calls. Queued calls still run unless ``cancel_futures``. Idempotent.

        Args:
            wait: Whether to return only when all calls have finished and the workers are joined.
            cancel_futures: Whether to cancel calls that have not started.
        """
        cancelled: list[_Work] = []
        with self._lock:
            self._closed = True
            self._joined = self._joined or wait
            if cancel_futures:
                cancelled, self._waiting = self._waiting, []
        for work in cancelled:
            # Both are needed: cancel() runs callbacks, the other wakes wait() and as_completed().
            work.future.cancel()
            work.future.set_running_or_notify_cancel()
        # Submits calls left in the queue by a Ctrl-C. Without wait, shuts the executor down if no call is left.
        self._dispatch()
        if wait:
            with self._lock:
                self._settled.wait_for(self._is_settled)
            self._executor.shutdown(wait=True)

    def _is_settled(self) -> bool:
        return not (self._waiting or self._num_running or self._dispatching)

    def _dispatch(self) -> None:
        """Submit queued calls while a worker is free."""
        with self._lock:
            if self._dispatching:
                return
            self._dispatching = True
        try:
            while (work := self._claim()) is not None:
                self._pass_on(work)
        except BaseException:  # Ctrl-C while the executor starts a worker
            with self._lock:
                self._dispatching = False
                self._notify_if_settled()
            raise
        self._close_if_done()

    def _pass_on(self, work: _Work) -> None:
        try:
            inner = work.call()
        except BaseException as exc:
            work.future.set_exception(exc)
            if isinstance(exc, BrokenExecutor):
                self._fail_waiting(exc)
            self._release()
            if not isinstance(exc, Exception):
                raise
            # Otherwise only this call failed, e.g. no process could be started for it; continue with the others.
        else:
            inner.add_done_callback(partial(self._finish, work.future))

    def _claim(self) -> _Work | None:
        """Take the most urgent call and reserve a worker, or stop dispatching."""
        with self._lock:
            while self._waiting and self._num_running < self._num_workers:
                work = heapq.heappop(self._waiting)
                if work.future.set_running_or_notify_cancel():  # otherwise it was cancelled while it waited
                    self._num_running += 1
                    return work
            self._dispatching = False
            self._notify_if_settled()
        return None

    def _finish(self, outer: Future[Any], inner: Future[Any]) -> None:
        """Set the outer future's result, then release the worker. Runs in a thread of the executor."""
        # The result is set first: its callbacks may submit calls that are more urgent than those in the queue.
        # The inner future is cancelled only if someone else shut the executor down.
        exc = CancelledError() if inner.cancelled() else inner.exception()
        if exc is None:
            outer.set_result(inner.result())
        else:
            outer.set_exception(exc)
        self._release()
        if not isinstance(exc, BrokenExecutor):
            self._dispatch()
        elif self._has_waiting():
            # A broken executor fails its futures while it holds its own lock, so calling it from here would deadlock.
            # The thread ends at once: either submit() raises, which fails the queued calls, or the op itself raised a
            # BrokenExecutor and dispatching continues.
            try:
                threading.Thread(target=self._dispatch, name="spdl-priority-recovery").start()
            except RuntimeError:  # the interpreter is exiting: no thread can start
                self._fail_waiting(exc)

    def _release(self) -> None:
        with self._lock:
            self._num_running -= 1
            self._notify_if_settled()

    def _fail_waiting(self, exc: BrokenExecutor) -> None:
        """The executor is broken: fail all queued calls and all later ones."""
        with self._lock:
            self._broken = exc
            waiting, self._waiting = self._waiting, []
            self._notify_if_settled()
        for work in waiting:
            if work.future.set_running_or_notify_cancel():
                work.future.set_exception(exc)

    def _has_waiting(self) -> bool:
        with self._lock:
            return bool(self._waiting)

    def _notify_if_settled(self) -> None:
        if self._is_settled():
            self._settled.notify_all()

    def _close_if_done(self) -> None:
        with self._lock:
            # Not if a thread waits: a process executor shut down with wait=False cannot be joined afterwards.
            if not self._closed or self._joined or not self._is_settled():
                return
        self._executor.shutdown(wait=False)
