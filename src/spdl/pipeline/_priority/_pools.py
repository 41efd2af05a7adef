"""Pools of threads, processes and interpreters that several stages share by priority."""

import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from spdl.pipeline._cpus import usable_cpus
from spdl.pipeline._errors import UnsupportedPythonError
from spdl.pipeline._priority._dispatcher import Dispatcher
from spdl.pipeline._priority._entrypoint import PriorityExecutorEntrypoint
from spdl.pipeline._priority._registry import register, restore

__all__ = ["PriorityInterpreterPoolExecutor", "PriorityProcessPoolExecutor", "PriorityThreadPoolExecutor"]


class _PriorityPool(ABC):
    """A pool that is reached through entry points only; subclasses say which executor does the work.

    It lives as long as someone holds it or one of its entry points; then its workers end, once their work is done.
    Pickled, it carries its arguments and identity, not its work: it is restored as one pool per process.
    In the child of a ``fork`` it starts anew with workers of its own. Calls that have not started when the interpreter
    ends fail with RuntimeError; leave the pool's ``with`` block, or call ``shutdown``, to have them run.
    """

    is_process_pool = False

    def __init__(self, num_workers: int, options: dict[str, Any]) -> None:
        self._set_up(os.urandom(16).hex(), num_workers, options)
        self._dispatcher_here()  # at once, so that bad arguments are refused here
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
        """Make the executor that does the work."""

    def get_executor(self, *, priority: int | None = None) -> PriorityExecutorEntrypoint:
        """Make an entry point, an executor for one stage.

        Args:
            priority: Higher goes first. ``None``: above all entry points that were made with ``None`` before, the
                first of which has 1.

        Raises:
            TypeError: ``priority`` is not an integer.
        """
        if priority is None:
            with self._lock:
                self._num_ranked += 1
                priority = self._num_ranked
        elif not isinstance(priority, int) or isinstance(priority, bool):
            raise TypeError(f"priority must be an int or None, got {priority!r}")
        return PriorityExecutorEntrypoint(self, priority)

    def submit_with_priority(
        self, priority: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[Any]:
        """Queue a call. For entry points."""
        return self._dispatcher_here().submit(priority, fn, args, kwargs)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """Take no more work; can be repeated. Work that is queued still runs, unless it is cancelled.

        Args:
            wait: Return when all work has ended and all workers are joined.
            cancel_futures: Cancel the work that has not started.
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
        """Start anew in the child of a fork."""
        self._lock = threading.Lock()
        # Kept, because collecting an executor of the parent would take locks and pipes that it shares with it.
        self._inherited, self._dispatcher = self._dispatcher or self._inherited, None


def _restore(cls: type[_PriorityPool], identity: str, num_workers: int, options: dict[str, Any]) -> _PriorityPool:
    def make() -> _PriorityPool:
        pool = cls.__new__(cls)  # a subclass may have other arguments than these
        pool._set_up(identity, num_workers, options)
        return pool

    return restore(identity, cls, make)


class PriorityThreadPoolExecutor(_PriorityPool):
    """Threads that several stages share by priority.

    .. code-block:: python

        with PriorityThreadPoolExecutor(max_workers=8) as pool:
            builder.pipe(download, executor=pool.get_executor(), concurrency=8)
            builder.pipe(decode, executor=pool.get_executor(), concurrency=8)  # goes before downloads

    Args:
        max_workers: Number of threads; ``None``: usable CPUs + 4, at most 32.
        thread_name_prefix: Of the names of the threads.
        initializer: Called in each thread first. If it raises, the pool is broken: pending and later calls fail with
            ``BrokenThreadPool``.
        initargs: Arguments of ``initializer``.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(
            min(32, usable_cpus() + 4) if max_workers is None else max_workers,
            {"thread_name_prefix": thread_name_prefix, "initializer": initializer, "initargs": initargs},
        )

    def _make_executor(self) -> Executor:
        return ThreadPoolExecutor(self._num_workers, **self._options)


class PriorityProcessPoolExecutor(_PriorityPool):
    """Processes that several stages share by priority.

    A worker process gets its next call when it has returned the one before, so that the most urgent one can be chosen
    as late as possible; with calls much shorter than a millisecond that costs throughput.

    Args:
        max_workers: Number of processes; ``None``: usable CPUs.
        kwargs: Further arguments of :class:`concurrent.futures.ProcessPoolExecutor`.
    """

    is_process_pool = True

    def __init__(self, max_workers: int | None = None, **kwargs: Any) -> None:
        super().__init__(usable_cpus() if max_workers is None else max_workers, kwargs)

    def _make_executor(self) -> Executor:
        # Not imported above: it brings all of multiprocessing, which only users of processes should pay for.
        return futures.ProcessPoolExecutor(self._num_workers, **self._options)


class PriorityInterpreterPoolExecutor(_PriorityPool):
    """Subinterpreters, each in a thread of its own, that several stages share by priority. Requires Python 3.14.

    Args:
        max_workers: Number of interpreters; ``None``: usable CPUs + 4, at most 32.
        thread_name_prefix: Of the names of the threads.
        initializer: Called in each interpreter first.
        initargs: Arguments of ``initializer``.

    Raises:
        UnsupportedPythonError: This Python is older than 3.14.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(
            min(32, usable_cpus() + 4) if max_workers is None else max_workers,
            {"thread_name_prefix": thread_name_prefix, "initializer": initializer, "initargs": initargs},
        )

    def _make_executor(self) -> Executor:
        cls: Callable[..., Executor] | None = getattr(futures, "InterpreterPoolExecutor", None)
        if cls is None:
            raise UnsupportedPythonError(
                f"PriorityInterpreterPoolExecutor requires Python 3.14 or later, this is {sys.version.split()[0]}; "
                "use PriorityThreadPoolExecutor or PriorityProcessPoolExecutor"
            )
        return cls(self._num_workers, **self._options)
