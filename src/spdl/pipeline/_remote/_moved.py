"""Executors of a pipeline that runs in another process. An executor itself cannot be sent there.

Thread pools are made again in the pipeline's process. Workers of process pools are started here and belong to this
process; the pipeline's process reaches them directly, through connections that both get when they are started.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from spdl._errors import WorkerDiedError, WorkerError
from spdl._processes._calls import Answer
from spdl._processes._child import Child, stop_all, wait_deaths
from spdl._processes._transport._connecting import LinkEnd, link_ends
from spdl._reports import add_note, notes_of
from spdl.pipeline.defs import PathStage, PipelineConfig

from ._moved_pool import MovedProcessPool, MovedThreadPool, map_executors, map_pipes, work

U = TypeVar("U")

#: Maximum time between the end of a worker's connection and the end of the worker: on a busy machine, the end of a
#: process takes seconds.
_DEATH_TIMEOUT = 10.0


class MovedWorkers:
    """Workers that this process owns and another process uses: those of process pools, and those of regions."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self._starting: list[Child] = []  # workers whose initializer has not returned, as far as is known
        self._ends: list[LinkEnd] = []  # of the links, for the process that uses the workers

    def add(self, child: Child, end: LinkEnd, *, is_awaited: bool) -> None:
        """Take ownership of a worker, and keep the user process's end of its link until it was sent.

        Args:
            child: The worker.
            end: Of its link to the process that uses it.
            is_awaited: Whether ``wait_ready`` waits for it. The pipeline itself waits for workers of regions.
        """
        self.children.append(child)
        if is_awaited:
            self._starting.append(child)
        self._ends.append(end)

    def close_ends(self) -> None:
        """Close this process's copies of the ends, after the process that uses the workers has started or failed to."""
        while self._ends:
            self._ends.pop().close()

    def wait_ready(self) -> None:
        """Wait until the initializers of pools have returned.

        Raises:
            WorkerError: An initializer failed, or its worker has died.
        """
        for child in self._starting:
            frame = child.recv()
            if frame.kind == Answer.BROKEN:
                attempt, failure = frame.load()
                raise failure.as_error(f"{attempt} in {child.what}")
            frame.discard()
        self._starting.clear()

    def explain(self, error: WorkerError) -> WorkerError:
        """Return the error, with the worker that died and how, if a worker's death caused the error."""
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
    """Return the pipeline with executors that can be sent to a new process. Starts the workers of process pools.

    Args:
        config: Description of the pipeline. Executors of stages in regions are dropped, because regions ignore them.
        workers: Gets the workers that are started, and the link ends for the process where the pipeline runs.
        mp_context: Start method of the workers. ``None``: that of the pool, unless it is fork.

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
    # A subclass with its own arguments must define itself how it is pickled.
    interpreters = sys.modules.get("concurrent.futures.interpreter")  # from 3.14 on; any user has imported it
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
        workers.add(child, here, is_awaited=True)
    return MovedProcessPool(name, ends)


# -- private attributes of the standard library: there is no public way to get this


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
    """Return the initializer of a pool of threads or interpreters, and its arguments."""
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
    """Return how a process pool was made. ``None``: it is not a process pool of the standard library."""
    processes = sys.modules.get("concurrent.futures.process")  # imported if there is such a pool
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
            None if method == "fork" else method,  # it is not known whether fork was requested or is the default
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
    """Return the names of the stages of each executor, by its id."""
    users: dict[int, list[str]] = {}

    def note(stage: PathStage, executor: Executor) -> Executor:
        users.setdefault(id(executor), []).append(stage.name)
        return executor

    map_pipes(config, note)
    return users
