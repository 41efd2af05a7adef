"""Priority pools of threads, processes and interpreters, their entry points, and the registry of pools.

The registry has one pool per identity and process. This is necessarily process-wide: a pool that is unpickled twice, as
part of two stages, must be one pool, and a pool inherited by ``fork`` has lost its threads. It holds pools weakly.
"""

import functools
import heapq
import itertools
import os
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

from spdl._cpus import usable_cpus
from spdl._errors import UnsupportedPythonError
from spdl._numbers import as_int

P = ParamSpec("P")
T = TypeVar("T")


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
        """Queue a call. Raises as the ``submit`` of an entry point."""
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
        """See the pool's ``shutdown``."""
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
        with self._lock:
            # Not if a thread waits: a process executor shut down with wait=False cannot be joined afterwards.
            is_done = self._closed and not self._joined and self._is_settled()
        if is_done:
            self._executor.shutdown(wait=False)

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


class _Registry:
    def __init__(self) -> None:
        self.lock = threading.RLock()  # garbage collection while it is held may remove a pool
        self.pools: weakref.WeakValueDictionary[str, _PriorityPool] = weakref.WeakValueDictionary()

    def after_fork(self) -> None:
        self.lock = threading.RLock()  # the inherited lock may be held by a thread that does not exist here
        for pool in list(self.pools.values()):
            pool.forget_parent()


_REGISTRY = _Registry()


def register(identity: str, pool: "_PriorityPool") -> None:
    """Register a new pool under its identity."""
    _watch_forks()
    with _REGISTRY.lock:
        _REGISTRY.pools[identity] = pool


@functools.cache
def _watch_forks() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_REGISTRY.after_fork)


class PriorityExecutorEntrypoint(Executor):
    """An executor for one stage. Its calls compete by priority with those of the pool's other entry points.

    Made by ``get_executor`` of a priority pool. Keeps the pool alive. Pickles: in another process, all entry points of
    one pool are restored as entry points of one pool there.

    Args:
        owner: Pool that runs the calls.
        priority: Priority of the calls. Higher runs first; equal priorities run in order of arrival.
    """

    def __init__(self, owner: "_PriorityPool", priority: int) -> None:
        self._owner = owner
        self._priority = priority

    @property
    def priority(self) -> int:
        """Priority of the calls; higher runs first."""
        return self._priority

    @property
    def is_process_pool(self) -> bool:
        """Whether calls run in other processes, so that functions, arguments and results must pickle."""
        return self._owner.is_process_pool

    @property
    def is_interpreter_pool(self) -> bool:
        """Whether calls run in other interpreters of this process, so that the same must pickle."""
        return self._owner.is_interpreter_pool

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call with the priority of this entry point.

        Raises:
            RuntimeError: The pool has been shut down.
            concurrent.futures.BrokenExecutor: The workers of the pool died or could not be initialized.
        """
        return self._owner.submit_with_priority(self._priority, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: the pool is shared, and its owner shuts it down."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._owner, self._priority))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} priority={self._priority} of {self._owner!r}>"


class _PriorityPool(ABC):
    """A pool of workers that stages use through entry points. Subclasses choose the executor that runs the calls.

    The pool lives as long as it or one of its entry points is referenced; then its workers finish their calls and end.
    Pickling saves its arguments and identity, not its calls: it is restored as one pool per process. In the child of a
    ``fork`` it starts again with its own workers. Calls that have not started when the interpreter exits fail with
    ``RuntimeError``; leave the pool's ``with`` block, or call ``shutdown``, to run them first.
    """

    is_process_pool = False
    is_interpreter_pool = False

    def __init__(self, num_workers: int, options: dict[str, Any]) -> None:
        self._set_up(os.urandom(16).hex(), num_workers, options)
        self._dispatcher_here()  # now, so that bad arguments raise here
        register(self._identity, self)

    def _set_up(self, identity: str, num_workers: int, options: dict[str, Any]) -> None:
        self._identity = identity
        self._num_workers = num_workers
        self._options = options
        self._lock = threading.Lock()  # guards the fields below
        self._num_ranked = 0
        self._closed = False
        self._dispatcher: Dispatcher | None = None
        self._inherited: Dispatcher | None = None

    @abstractmethod
    def _make_executor(self) -> Executor:
        """Make the executor that runs the calls."""

    def get_executor(self, *, priority: int | None = None) -> PriorityExecutorEntrypoint:
        """Return a new entry point, an executor for one stage.

        Args:
            priority: Priority of its calls; higher runs first. ``None``: 1 for the first entry point made with
                ``None``, one more for each further one.

        Raises:
            TypeError: ``priority`` is not an integer.
        """
        if priority is None:
            with self._lock:
                self._num_ranked += 1
                priority = self._num_ranked
        else:
            priority = as_int("priority", priority)
        return PriorityExecutorEntrypoint(self, priority)

    def submit_with_priority(
        self, priority: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[Any]:
        """Queue a call. For entry points."""
        return self._dispatcher_here().submit(priority, fn, args, kwargs)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """Accept no more calls. Queued calls still run unless they are cancelled. Idempotent.

        Args:
            wait: Whether to return only when all calls have finished and all workers are joined.
            cancel_futures: Whether to cancel calls that have not started.
        """
        dispatcher = self._dispatcher_here()
        with self._lock:
            self._closed = True
        dispatcher.shutdown(wait, cancel_futures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.shutdown(wait=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self._num_workers} workers>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self._identity, self._num_workers, self._options))

    def _dispatcher_here(self) -> Dispatcher:
        with self._lock:
            if self._dispatcher is None:
                self._dispatcher = Dispatcher(self._make_executor(), self._num_workers)
                if self._closed:
                    self._dispatcher.shutdown(wait=False, cancel_futures=True)
            return self._dispatcher

    def forget_parent(self) -> None:
        """Discard the parent's dispatcher in the child of a fork."""
        self._lock = threading.Lock()
        # Kept alive: collecting an executor inherited from the parent would use locks and pipes shared with the parent.
        self._inherited, self._dispatcher = self._dispatcher or self._inherited, None


def _restore(cls: type[_PriorityPool], identity: str, num_workers: int, options: dict[str, Any]) -> _PriorityPool:
    """Return the pool with this identity; make it if this process has none."""
    with _REGISTRY.lock:
        pool = _REGISTRY.pools.get(identity)
        if not isinstance(pool, cls):
            pool = cls.__new__(cls)  # a subclass may take different arguments
            pool._set_up(identity, num_workers, options)
            register(identity, pool)
        return pool


class _PriorityPoolOfThreads(_PriorityPool):
    """Base class of pools of threads and of interpreters (one thread each), which take the same arguments."""

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(
            min(32, usable_cpus() + 4) if max_workers is None else as_int("max_workers", max_workers),
            {"thread_name_prefix": thread_name_prefix, "initializer": initializer, "initargs": initargs},
        )


class PriorityThreadPoolExecutor(_PriorityPoolOfThreads):
    """A thread pool that several stages share by priority.

    .. code-block:: python

        with PriorityThreadPoolExecutor(max_workers=8) as pool:
            builder = PipelineBuilder().add_source(paths)
            builder.pipe(Path.read_bytes, executor=pool.get_executor(), concurrency=8)
            builder.pipe(decode, executor=pool.get_executor(), concurrency=8)  # runs before it reads more

    Args:
        max_workers: Number of threads; ``None``: number of usable CPUs + 4, at most 32.
        thread_name_prefix: Prefix of the thread names.
        initializer: Function called first in each thread. If it raises, the pool is broken: pending and later calls
            fail with ``BrokenThreadPool``.
        initargs: Arguments of ``initializer``.
    """

    def _make_executor(self) -> Executor:
        return ThreadPoolExecutor(self._num_workers, **self._options)


class PriorityProcessPoolExecutor(_PriorityPool):
    """Processes that several stages share by priority.

    A worker process gets its next call only when it has returned the previous one, so that the most urgent call is
    chosen as late as possible. For calls much shorter than a millisecond, this reduces throughput.

    Args:
        max_workers: Number of processes; ``None``: number of usable CPUs.
        kwargs: Further arguments of :class:`concurrent.futures.ProcessPoolExecutor`.
    """

    is_process_pool = True

    def __init__(self, max_workers: int | None = None, **kwargs: Any) -> None:
        super().__init__(usable_cpus() if max_workers is None else as_int("max_workers", max_workers), kwargs)

    def _make_executor(self) -> Executor:
        # Imported late: it imports all of multiprocessing.
        return futures.ProcessPoolExecutor(self._num_workers, **self._options)


class PriorityInterpreterPoolExecutor(_PriorityPoolOfThreads):
    """Subinterpreters, one thread each, that several stages share by priority. Requires Python 3.14.

    Args:
        max_workers: Number of interpreters; ``None``: number of usable CPUs + 4, at most 32.
        thread_name_prefix: Prefix of the thread names.
        initializer: Function called first in each interpreter.
        initargs: Arguments of ``initializer``.

    Raises:
        UnsupportedPythonError: This Python is older than 3.14.
    """

    is_interpreter_pool = True

    def _make_executor(self) -> Executor:
        cls: Callable[..., Executor] | None = getattr(futures, "InterpreterPoolExecutor", None)
        if cls is None:
            raise UnsupportedPythonError(
                f"PriorityInterpreterPoolExecutor requires Python 3.14 or later, this is {sys.version.split()[0]}; "
                "use PriorityThreadPoolExecutor or PriorityProcessPoolExecutor"
            )
        return cls(self._num_workers, **self._options)
