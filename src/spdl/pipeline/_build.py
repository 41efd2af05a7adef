"""``build_pipeline``: turns a description into a ``Pipeline`` with its observers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._processes._preload import preload
from spdl._reports import add_note, log, shown

from . import config as _config
from ._cpus import usable_cpus
from ._engine import GraphOptions, build_graph, run_in_background
from ._info import StageInfo
from ._numbers import as_int, as_interval
from ._observe import AsyncQueue, BackgroundTaskFactory, TaskHook, describe_error, is_compact_log
from ._pipeline import Pipeline
from ._pipeline_ids import PIPELINE_IDS
from ._wiring import Wiring, make_merge_queues
from .defs import PipelineConfig, Region, validate_max_failures

if TYPE_CHECKING:
    from ._engine._isolated_workers import IsolatedTask, IsolatedWorker
    from ._engine._region_workers import RegionWorkers

__all__ = ["build_pipeline", "default_num_threads"]

_LOG = logging.getLogger("spdl.pipeline")
# Pipelines are built here, and so probably in children too. To import the engine takes longer than to start a process.
preload("spdl.pipeline._remote._preloaded_engine")

U = TypeVar("U")


def build_pipeline(
    pipeline_cfg: PipelineConfig[U],
    /,
    *,
    num_threads: int | None = None,
    max_failures: int | Fraction = -1,
    report_stats_interval: float = -1,
    queue_class: Callable[..., AsyncQueue] | None = None,
    task_hook_factory: Callable[[StageInfo], list[TaskHook]] | None = None,
    stage_id: int = 0,
    background_tasks: Sequence[BackgroundTaskFactory] | None = None,
    use_thread_output_queue: bool = False,
) -> Pipeline[U]:
    """Build a pipeline from its description, without starting it.

    Args:
        pipeline_cfg: Description of the pipeline, from ``PipelineBuilder.get_config`` or written by hand.
        num_threads: Number of worker threads shared by all sync ops. ``None``: derived from the number of CPUs that
            this process may use.
        max_failures: Maximum number of failed items, summed over all stages, or the maximum share of failed calls as a
            ``Fraction`` (checked from the 100th call on). Negative: no limit.
        report_stats_interval: Seconds between reports of the default hook and queue in the log; ``-1``: only at the
            end.
        queue_class: Function called with ``(info, buffer_size=n)`` for every stage. The queue that it returns observes
            the stage's output.
        task_hook_factory: Function called with the ``StageInfo`` of every stage. Returns the stage's hooks.
        stage_id: Number of the first stage.
        background_tasks: Factories of the tasks that run on the event loop beside the pipeline, after those set by
            ``config.set_default_background_tasks``.
        use_thread_output_queue: Ignored: the sink can always be read from any thread.

    Raises:
        ValueError: An argument is out of range, or a merge mixes continuous and ordinary sources.
        TypeError: An argument has the wrong type, or ``queue_class`` returns a queue that cannot observe a channel.
    """
    try:
        return _build(
            pipeline_cfg,
            num_threads=num_threads,
            max_failures=max_failures,
            interval=report_stats_interval,
            queue_class=queue_class,
            task_hook_factory=task_hook_factory,
            first_stage_id=stage_id,
            background_tasks=[*(_config.get_default_background_tasks() or ()), *(background_tasks or ())],
        )
    except Exception as exc:
        add_note(exc, f"while building\n{shown(pipeline_cfg)}")
        raise


def _build(
    cfg: PipelineConfig[U],
    *,
    num_threads: int | None,
    max_failures: int | Fraction,
    interval: float,
    queue_class: Callable[..., AsyncQueue] | None,
    task_hook_factory: Callable[[StageInfo], list[TaskHook]] | None,
    first_stage_id: int,
    background_tasks: Sequence[BackgroundTaskFactory],
) -> Pipeline[U]:
    _call_back(cfg)
    interval = as_interval("report_stats_interval", interval)

    def make_region_workers(region: Region, info: StageInfo, given: int | None = num_threads) -> RegionWorkers:
        from ._remote._regions import make_workers

        return make_workers(region, info, num_threads=given, max_failures=max_failures, interval=interval)

    if num_threads is None:
        num_threads = default_num_threads()
    elif isinstance(num_threads, bool) or not isinstance(num_threads, int):
        raise TypeError(f"num_threads must be an int or None, got {num_threads!r}")
    elif num_threads < 1:
        raise ValueError(f"num_threads must be >= 1, got {num_threads}")
    validate_max_failures(max_failures)
    first_stage_id = as_int("stage_id", first_stage_id)
    wiring = Wiring(task_hook_factory, queue_class, interval)
    engine = build_graph(
        cfg,
        GraphOptions(
            pipeline_id=PIPELINE_IDS.take(),
            num_threads=num_threads,
            max_failures=max_failures,
            first_stage_id=first_stage_id,
            wire=wiring.wire,
            make_merge_queues=make_merge_queues,
            report_failure=_log_failed_item,
            start_isolated=_start_isolated,
            make_region_workers=make_region_workers,
        ),
    )
    wiring.attach(engine)
    for factory in background_tasks:
        run_in_background(engine, getattr(factory, "__name__", None) or shown(factory), _runner(factory))
    return Pipeline(engine, repr(cfg))


def _runner(factory: BackgroundTaskFactory) -> Callable[[], Any]:
    async def run() -> None:
        await factory().run()

    return run


def _start_isolated(task: IsolatedTask) -> IsolatedWorker:
    from ._remote._isolated import IsolatedChild  # imported late: few pipelines need processes

    return IsolatedChild(task)


def _log_failed_item(stage: StageInfo, item: str, position: object, error: BaseException) -> None:
    at = shown(position)
    if is_compact_log():
        text = "stage %s dropped item %s (source position %s): %s"
        log(_LOG, logging.ERROR, text, stage, item, at, describe_error(error))
    else:
        log(_LOG, logging.ERROR, "stage %s dropped item %s (source position %s)", stage, item, at, exc_info=error)


def _call_back(cfg: PipelineConfig[Any]) -> None:
    callback = _config.get_default_build_callback()
    if callback is None:
        return
    try:
        callback(cfg)
    except Exception as exc:  # noqa: BLE001 - a callback must not fail the build
        log(_LOG, logging.ERROR, "the build callback %s failed", shown(callback), exc_info=exc)


def default_num_threads() -> int:
    """Return one thread per usable CPU, at least 4 (so that blocking calls overlap) and at most 32."""
    return max(4, min(32, usable_cpus()))
