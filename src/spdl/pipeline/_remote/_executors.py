"""Finds, replaces and shuts down the executors in the description of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from spdl.pipeline.defs import (
    MainProcess,
    MergeConfig,
    PathStage,
    PipelineConfig,
    PlacementConfig,
)

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
    source = config.src
    if isinstance(source, MergeConfig):
        source = replace(source, pipeline_configs=tuple(map_pipes(sub, change) for sub in source.pipeline_configs))
    pipes = []
    is_inside = False
    for stage in config.pipes:
        if isinstance(stage, PlacementConfig):
            is_inside = not isinstance(stage.target, MainProcess)
        pipes.append(stage._map_executors(_drop if is_inside else change))
    return replace(config, src=source, pipes=pipes)


def _drop(stage: PathStage, executor: Executor) -> None:
    """Drop an executor: stages in regions run on threads of the workers."""
