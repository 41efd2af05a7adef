"""Executors in the process where a pipeline runs: thread pools made there, proxies of moved process pools.

The worker of a moved pool has two connections. Through one, the process where the pipeline runs sends it calls. The
other leads to its owner, the process that started it. The worker ends when both are closed: so the pipeline can finish
its calls, and the owner can treat any other end as a death. If the pipeline's process does not close its connection,
the worker ends a moment after its owner has closed the other one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, ParamSpec, TypeVar

from spdl._errors import WorkerDiedError
from spdl._processes._calls import Answer, Caller, Request, await_end, is_prepared, serve_requests
from spdl._processes._transport._arena import set_current
from spdl._processes._transport._connecting import LinkEnd
from spdl._processes._transport._frame import Frame
from spdl._processes._transport._link import Link
from spdl._processes._transport._pickling import Encoded
from spdl.pipeline._engine._remote_calls import call_remotely, unpack_remote
from spdl.pipeline.defs import MainProcess, PathStage, PipelineConfig, PlacementConfig, StageConfig

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


def make_thread_pools(config: PipelineConfig[U]) -> PipelineConfig[U]:
    """Return the pipeline with thread pools in place of their descriptions. Called in the process that runs it."""
    made: dict[int, Executor] = {}

    def make(executor: Executor) -> Executor:
        if not isinstance(executor, MovedThreadPool):
            return executor
        if id(executor) not in made:
            made[id(executor)] = executor.make()
        return made[id(executor)]

    return map_executors(config, make)


def release_executors(config: PipelineConfig[Any]) -> None:
    """Shut down the executors of this process. Called in the process that ran the pipeline, before it ends.

    A process of ``multiprocessing`` waits for its children when it ends, and a process pool stops its workers only
    after that.
    """

    def release(executor: Executor) -> Executor:
        # Has no effect on an entry point of a priority pool.
        getattr(executor, "_owner", executor).shutdown(wait=False, cancel_futures=True)
        return executor

    map_executors(config, release)


@dataclass(frozen=True, eq=False)
class MovedThreadPool(Executor):
    """A picklable description of a thread pool, used in place of an executor."""

    cls: type[ThreadPoolExecutor]
    max_workers: int
    thread_name_prefix: str
    initializer: Callable[..., object] | None
    initargs: tuple[Any, ...]

    def make(self) -> ThreadPoolExecutor:
        """Make the pool."""
        return self.cls(self.max_workers, self.thread_name_prefix, self.initializer, self.initargs)


def map_executors(config: PipelineConfig[U], change: Callable[[Executor], Executor]) -> PipelineConfig[U]:
    """Return the pipeline with each executor replaced by ``change(executor)``. Executors in regions are dropped."""
    return map_pipes(config, lambda _, executor: change(executor))


_Change = Callable[[PathStage, Executor], Executor | None]


def map_pipes(config: PipelineConfig[U], change: _Change) -> PipelineConfig[U]:
    """Same as ``map_executors``, but ``change`` gets the stage too. Includes merged pipelines and all paths."""

    def changed(each: PipelineConfig[Any]) -> list[StageConfig]:
        pipes = []
        is_inside = False
        for stage in each.pipes:
            if isinstance(stage, PlacementConfig):
                is_inside = not isinstance(stage.target, MainProcess)
            pipes.append(stage._map_executors(_drop if is_inside else change))
        return pipes

    return config._with_pipes(changed)


def _drop(stage: PathStage, executor: Executor) -> None:
    """Drop an executor: stages in regions run on threads of the workers."""


class _Task(NamedTuple):
    future: Future[Any]
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class MovedProcessPool(Executor):
    """An executor whose workers belong to another process, and are reached from here.

    It pickles as an argument of a new process, and is used only there. Calls start in the order of ``submit``, each on
    the first free worker. When a worker has died, queued calls and all later ones fail.
    """

    is_process_pool = True

    def __init__(self, name: str, ends: Sequence[LinkEnd]) -> None:
        self._name = name
        self._ends = list(ends)
        self._callers = [Caller() for _ in self._ends]  # the workers have started with this process
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
        for number, (end, caller) in enumerate(zip(self._ends, self._callers, strict=True), 1):
            # A daemon: it waits for calls as long as the process lives.
            threading.Thread(
                target=self._serve, args=(number, end.open(), caller), name=f"spdl-moved-{number}", daemon=True
            ).start()

    def _serve(self, number: int, link: Link, caller: Caller) -> None:
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
            if not _call(link, encoded, future, caller):
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


def _call(link: Link, encoded: Encoded, future: Future[Any], caller: Caller) -> bool:
    """Run one call on the worker and set the result of its future. Returns False if the worker is gone."""
    try:
        caller.send(link, [(Request.CALL, 0, encoded)])
        frame = link.recv()
    except (OSError, EOFError):
        return False
    try:
        result = frame.load()
    except BaseException as exc:  # noqa: BLE001 - unpickling runs the user's code
        future.set_exception(exc)
        return True
    if frame.kind == Answer.RAISED:
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


def work(owner: Link, there: LinkEnd, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
    """Serve calls until both connections are closed."""
    with there.open() as link:
        if link.sender is not None:
            set_current(link.sender)  # ops allocate results in the memory from which they are sent
        if not is_prepared(owner, "Initializer failed", initializer, *initargs):
            return
        owner.send(Answer.READY)
        serve_requests(link, {Request.CALL: partial(_answer, link)})
    await_end(owner)


def _answer(link: Link, frame: Frame) -> None:
    """Run the call in ``frame`` and send the outcome. Keeps no reference to the call or its result."""
    value, failure = call_remotely(_run, frame)
    if failure is None:
        encoded, failure = call_remotely(link.encode, value)
        del value
        if failure is None:
            link.send_encoded([(Answer.RESULT, 0, encoded)])
            return
    link.send(Answer.RAISED, 0, failure)


def _run(frame: Frame) -> Any:
    fn, args, kwargs = frame.load()
    try:
        return fn(*args, **kwargs)
    except Exception:
        raise
    except BaseException as exc:  # a sys.exit() in user code fails the call, not the worker, as in other pools
        raise RuntimeError(f"the call ended with {type(exc).__name__}: {exc}") from exc
