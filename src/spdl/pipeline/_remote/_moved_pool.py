"""The proxy of a moved process pool in the process where the pipeline runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, NamedTuple, ParamSpec, TypeVar

from spdl._errors import WorkerDiedError
from spdl._processes._environment import Environment
from spdl._processes._transport import Encoded, Link, LinkEnd
from spdl.pipeline._engine._remote_calls import unpack_remote

from ._protocol import MovedCall

P = ParamSpec("P")
T = TypeVar("T")


class _Task(NamedTuple):
    future: Future[Any]
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class MovedProcessPool(Executor):
    """An executor whose workers belong to another process, and are reached from here.

    It pickles as an argument of a new process, and is used only there. Calls start in the order of ``submit``, each on
    the first free worker. When a worker has died, queued calls and all later ones fail.

    Args:
        name: Name of the pool in errors.
        ends: One connection to each worker.
    """

    is_process_pool = True

    def __init__(self, name: str, ends: Sequence[LinkEnd]) -> None:
        self._name = name
        self._ends = list(ends)
        self._environments = [Environment() for _ in self._ends]  # of the workers, which have started with this process
        self._lock = threading.Lock()  # guards the fields below; no call is put in a queue that no thread reads
        self._has_started = False
        self._broken: str | None = None
        self._tasks: SimpleQueue[_Task] = SimpleQueue()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._name, self._ends)

    def __repr__(self) -> str:
        return f"<{self._name}, {len(self._ends)} workers>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a call.

        Raises:
            BrokenExecutor: A worker has died.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._broken is not None:
                raise _broken_pool(self._broken)
            if not self._has_started:
                self._start()
            self._tasks.put(_Task(future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: the workers are for all pipelines of this process, and end with their owner."""

    def _start(self) -> None:
        self._has_started = True
        for number, (end, environment) in enumerate(zip(self._ends, self._environments, strict=True), 1):
            # A daemon: it waits for calls as long as the process lives.
            threading.Thread(
                target=self._serve, args=(number, end.open(), environment), name=f"spdl-moved-{number}", daemon=True
            ).start()

    def _serve(self, number: int, link: Link, environment: Environment) -> None:
        """Body of the thread of one worker."""
        while True:
            task = self._tasks.get()
            if not task.future.set_running_or_notify_cancel():
                continue
            try:
                encoded = link.encode((task.fn, task.args, task.kwargs))
            except BaseException as exc:  # noqa: BLE001 - pickling runs the user's code
                task.future.set_exception(exc)
                continue
            future = task.future
            del task  # the arguments may be large, and must not be kept until the next call
            if not _call(link, encoded, future, environment):
                link.close()
                self._break(number, future)
                return
            del encoded, future

    def _break(self, number: int, future: Future[Any]) -> None:
        with self._lock:
            if self._broken is None:
                why = "is gone; the main process started it and knows more"
                self._broken = f"worker {number} of the {self._name} {why}"
            waiting = []
            while not self._tasks.empty():
                waiting.append(self._tasks.get())
        future.set_exception(_broken_pool(self._broken))
        for task in waiting:
            if task.future.set_running_or_notify_cancel():
                task.future.set_exception(_broken_pool(self._broken))


def _call(link: Link, encoded: Encoded, future: Future[Any], environment: Environment) -> bool:
    """Run one call on the worker and set the result of its future. Returns False if the worker is gone."""
    try:
        if changes := environment.changes():
            link.send(MovedCall.ENVIRONMENT, 0, changes)
        link.send_encoded([(MovedCall.CALL, 0, encoded)])
        frame = link.recv()
    except (OSError, EOFError):
        return False
    try:
        result = frame.load()
    except BaseException as exc:  # noqa: BLE001 - unpickling runs the user's code
        future.set_exception(exc)
        return True
    if frame.kind == MovedCall.FAILED:
        _, error = unpack_remote((None, result))
        future.set_exception(error)
    else:
        future.set_result(result)
    return True


def _broken_pool(why: str) -> RuntimeError:
    from concurrent.futures.process import BrokenProcessPool  # imports multiprocessing, already loaded here

    error = BrokenProcessPool(why)
    # The type of every other death of a worker: it tells the main process to add details.
    error.__cause__ = WorkerDiedError(why)
    return error
