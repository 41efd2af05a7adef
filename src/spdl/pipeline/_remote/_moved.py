"""Executors of a pipeline that moves to another process, which cannot move themselves.

Thread pools are made again there. Workers of process pools are started here and belong to this process; the pipeline's
process reaches them directly, by connections that both get when they are started.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from spdl._errors import WorkerDiedError, WorkerError
from spdl._processes._child import Child, stop_all, wait_deaths
from spdl._processes._transport import LinkEnd, link_ends
from spdl._reports import add_note, notes_of
from spdl.pipeline.defs import PathStage, PipelineConfig

from ._executors import MovedThreadPool, map_executors, map_pipes
from ._moved_main import work
from ._moved_pool import MovedProcessPool
from ._protocol import FromMoved

__all__ = ["MovedWorkers", "move_executors"]

U = TypeVar("U")

#: How long the end of a worker may come after its connection's: on a busy machine, the end of a process takes seconds.
_DEATH_TIMEOUT = 10.0


class MovedWorkers:
    """Workers that this process owns and another process uses: those of process pools, and those of regions."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self._starting: list[Child] = []  # whose initializer has not returned, as far as is known
        self._to_close: list[Callable[[], object]] = []  # ends that are for the process that uses the workers

    def add(self, child: Child, end: LinkEnd) -> None:
        """Own a worker of a pool, and keep the end for who uses it until that was sent."""
        self.children.append(child)
        self._starting.append(child)
        self._to_close.append(end.close)

    def adopt(self, children: Sequence[Child], close_ends: Callable[[], object]) -> None:
        """Own workers of regions, whose initializers the pipeline itself waits for."""
        self.children += children
        self._to_close.append(close_ends)

    def close_ends(self) -> None:
        """The process that uses the workers has been started, or will not be: it alone holds its ends from now on."""
        while self._to_close:
            self._to_close.pop()()

    def wait_ready(self) -> None:
        """Return when the initializers of pools have.

        Raises:
            WorkerError: One has failed, or its worker has died.
        """
        for child in self._starting:
            frame = child.recv()
            if frame.kind == FromMoved.INITIALIZER_FAILED:
                raise frame.load().as_error(f"Initializer failed in {child.what}")
            frame.discard()
        self._starting.clear()

    def explain(self, error: WorkerError) -> WorkerError:
        """The error with the worker that died and how, if that is why the process that uses it failed."""
        if isinstance(error, WorkerDiedError) or not self.children:
            return error
        dead = wait_deaths(self.children, _DEATH_TIMEOUT if error._has_dead_worker else 0.0)
        deaths = [child.died() for child in dead]
        if not deaths:
            return error
        text = "\n".join([str(error), *map(str, deaths)])
        explained = WorkerDiedError(text, exit_code=deaths[0].exit_code, remote_traceback=error.remote_traceback)
        for note in notes_of(error):
            add_note(explained, note)
        return explained

    def stop(self) -> None:
        """End all workers and wait for them. Idempotent."""
        self.close_ends()
        children, self.children = self.children, []
        stop_all(children)


def move_executors(config: PipelineConfig[U], workers: MovedWorkers, mp_context: Any) -> PipelineConfig[U]:
    """The same pipeline with executors that can be sent to a new process. Starts the workers of process pools.

    Args:
        config: Executors of stages in regions are dropped: they count for nothing there.
        workers: Gets the workers that are started, and the ends for the process where the pipeline runs.
        mp_context: How to start them. ``None``: as the pool says, unless that is by fork.

    Raises:
        ValueError: A pool has been used or shut down.
    """
    moved: dict[int, Executor] = {}
    users = _users(config)

    def move(executor: Executor) -> Executor:
        if id(executor) not in moved:
            moved[id(executor)] = _move(executor, users[id(executor)], workers, mp_context)
        return moved[id(executor)]

    return map_executors(config, move)


def _move(executor: Executor, stages: Sequence[str], workers: MovedWorkers, mp_context: Any) -> Executor:
    # A subclass with arguments of its own has to know itself how it is pickled.
    interpreters = sys.modules.get("concurrent.futures.interpreter")  # from 3.14 on; whoever made one has imported it
    known = [ThreadPoolExecutor] if interpreters is None else [ThreadPoolExecutor, interpreters.InterpreterPoolExecutor]
    if any(type(executor).__init__ is each.__init__ for each in known):
        return _describe_threads(executor, stages)
    parameters = _process_parameters(executor, stages)
    return executor if parameters is None else _start_workers(parameters, stages, workers, mp_context)


def _start_workers(
    parameters: _ProcessParameters, stages: Sequence[str], workers: MovedWorkers, mp_context: Any
) -> MovedProcessPool:
    name = f"process pool of {_listed(stages)}"
    ends = []
    for number in range(1, parameters.max_workers + 1):
        here, there = link_ends()
        ends.append(here)
        try:
            child = Child.start(
                work,
                there,
                parameters.initializer,
                parameters.initargs,
                name=f"spdl-moved-{number}",
                what=f"worker {number} of the {name}",
                mp_context=parameters.start_method if mp_context is None else mp_context,
                link_limit=0,
            )
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        workers.add(child, here)
    return MovedProcessPool(name, ends)


# -- what only private attributes of the standard library tell


@dataclass(frozen=True)
class _ProcessParameters:
    max_workers: int
    initializer: Callable[..., object] | None
    initargs: tuple[Any, ...]
    start_method: str | None


def _describe_threads(executor: Any, stages: Sequence[str]) -> MovedThreadPool:
    try:
        is_used = bool(executor._threads) or executor._shutdown
        initializer, initargs = _initializer_of(executor)
        moved = MovedThreadPool(
            type(executor), executor._max_workers, executor._thread_name_prefix, initializer, tuple(initargs)
        )
    except AttributeError as exc:
        raise _unreadable(executor, stages) from exc
    _check_unused(executor, stages, is_used=is_used)
    return moved


def _initializer_of(executor: Any) -> tuple[Callable[..., object] | None, Sequence[Any]]:
    """What each thread of a thread pool, or each interpreter of a pool of them, calls first, and its arguments."""
    if not hasattr(executor, "_create_worker_context"):  # before 3.14
        return executor._initializer, executor._initargs
    context = executor._create_worker_context()  # makes no thread and no interpreter
    if not hasattr(context, "initdata"):
        return context.initializer, context.initargs
    if context.initdata is None:
        return None, ()
    initializer, initargs, _ = context.initdata
    return initializer, initargs


def _process_parameters(executor: Any, stages: Sequence[str]) -> _ProcessParameters | None:
    """``None``: it is no process pool of the standard library's."""
    processes = sys.modules.get("concurrent.futures.process")  # whoever made one has imported it
    if processes is None or type(executor).__init__ is not processes.ProcessPoolExecutor.__init__:
        return None
    try:
        is_used = executor._queue_count > 0 or executor._shutdown_thread or bool(executor._broken)
        method = executor._mp_context.get_start_method()
        limit = executor._max_tasks_per_child
        parameters = _ProcessParameters(
            executor._max_workers,
            executor._initializer,
            tuple(executor._initargs),
            None if method == "fork" else method,  # nobody can tell whether it was asked for or is the default
        )
    except AttributeError as exc:
        raise _unreadable(executor, stages) from exc
    _check_unused(executor, stages, is_used=is_used)
    if limit is not None:
        warnings.warn(
            f"max_tasks_per_child={limit} of the process pool of {_listed(stages)} has no effect: its workers are"
            " started once, for a pipeline in a subprocess",
            RuntimeWarning,
            stacklevel=7,
        )
    return parameters


def _check_unused(executor: Executor, stages: Sequence[str], *, is_used: bool) -> None:
    if is_used:
        raise ValueError(
            f"the {type(executor).__name__} of {_listed(stages)} was already used or shut down, so its workers cannot"
            " be those of a pipeline in a subprocess: give the stage a new one, to which nothing was submitted"
        )


def _unreadable(executor: Executor, stages: Sequence[str]) -> TypeError:
    return TypeError(
        f"cannot send the {type(executor).__name__} of {_listed(stages)} to a subprocess: this Python does not show how"
        " it was made. Use PriorityThreadPoolExecutor or PriorityProcessPoolExecutor, which can be sent"
    )


def _listed(stages: Sequence[str]) -> str:
    return f"{'stage' if len(stages) == 1 else 'stages'} {', '.join(stages)}"


def _users(config: PipelineConfig[Any]) -> dict[int, list[str]]:
    """Names of the stages of each executor."""
    users: dict[int, list[str]] = {}

    def note(stage: PathStage, executor: Executor) -> Executor:
        users.setdefault(id(executor), []).append(stage.name)
        return executor

    map_pipes(config, note)
    return users
