"""``build_pipeline``: turns a description into a ``Pipeline`` with its observers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from spdl._processes._environment import preload

from . import config as _config
from ._assemble import BuildOptions, assemble
from ._info import StageInfo
from ._observe._background import BackgroundTaskFactory
from ._observe._task_hooks import TaskHook
from ._pipeline import Pipeline
from .defs import MaxFailures, PipelineConfig

if TYPE_CHECKING:
    from ._engine._region._workers import RegionWorkers
    from ._observe._queues import AsyncQueue
    from ._quarantine import FailureEvent
    from .defs import Region

# A process that builds pipelines probably starts children that need the engine too, and importing it takes longer than
# starting a process.
preload(
    "spdl.pipeline._build",
    "spdl.pipeline._remote._isolated_main",
    "spdl.pipeline._remote._moved_pool",
    "spdl.pipeline._remote._region_main",
    "spdl.pipeline._remote._run_pipeline_main",
)

U = TypeVar("U")


def build_pipeline(
    pipeline_cfg: PipelineConfig[U],
    /,
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    report_stats_interval: float = -1,
    queue_class: Callable[..., AsyncQueue] | None = None,
    task_hook_factory: Callable[[StageInfo], list[TaskHook]] | None = None,
    stage_id: int = 0,
    background_tasks: Sequence[BackgroundTaskFactory] | None = None,
    use_thread_output_queue: bool = False,
    resumable: bool | Literal["best-effort"] = False,
    seed: int = 0,
    provenance: str | PathLike[str] | None = None,
    stall_timeout: float | None = None,
    stall_action: Literal["log", "raise"] = "log",
    on_failure: Callable[[FailureEvent], Any] | None = None,
    quarantine: str | PathLike[str] | None = None,
) -> Pipeline[U]:
    """Build a pipeline from its description, without starting it.

    In diagnostic mode (:func:`spdl.pipeline.config.is_diagnostic_mode_enabled`), the first read of the pipeline
    profiles its stages, prints the results, and raises ``SystemExit(0)``.

    Args:
        pipeline_cfg: Description of the pipeline, from ``PipelineBuilder.get_config`` or written by hand.
        num_threads: Number of worker threads shared by all sync ops. ``None``: derived from the number of CPUs that
            this process may use.
        max_failures: Maximum number of failed items, summed over all stages, or the maximum share of failed calls as a
            ``Fraction`` (checked from the 100th call on), or the maximum share of the newest calls of each stage as a
            :class:`~spdl.pipeline.Rate`. Negative: no limit. With any limit, a stage whose calls have all failed fails
            at the end of the stream or of an epoch.
        report_stats_interval: Seconds between reports in the log: one table of all stages, as ``str(stats())``, for
            the default hook and queue. ``-1``: only at the end.
        queue_class: Function called with ``(info, buffer_size=n)`` for every stage. The queue that it returns observes
            the stage's output.
        task_hook_factory: Function called with the ``StageInfo`` of every stage. Returns the stage's hooks.
        stage_id: Number of the first stage.
        background_tasks: Factories of the tasks that run on the event loop beside the pipeline, after those set by
            ``config.set_default_background_tasks``.
        use_thread_output_queue: Ignored: the sink can always be read from any thread.
        resumable: Whether the pipeline has a state, so that another run can continue exactly where this one was:
            :meth:`Pipeline.state_dict` and :meth:`Pipeline.load_state_dict`. ``True`` raises if something cannot be
            resumed exactly. ``"best-effort"`` accepts it, and the state lists what is approximate.
        seed: Seed of the random numbers of stages with ``rng``. The default is a fixed number, so that a run without a
            seed can be repeated and resumed too. Give each run its own seed if runs should differ.
        provenance: File to which a line is appended for each output that is read: its number and where its items come
            from. :func:`spdl.resume.replay` makes an output again from this line. A failed write is logged and ends the
            provenance log, not the pipeline.
        stall_timeout: Maximum time in seconds without progress while the consumer waits: no call ends, and nothing is
            emitted or read. When it is exceeded, a report shows the graph with its buffers, the calls in flight with
            item and age, and the stacks of all threads and child processes. Time when the consumer does not read, or
            the process is stopped, does not count. If native code holds the GIL, only the stacks are written, to
            stderr. ``None``: no stall detection.
        stall_action: ``"log"``: the report is logged, once for each stall, and the pipeline continues. ``"raise"``: the
            pipeline is stopped, and reads raise :class:`StallError` with the report; running calls are abandoned.
        on_failure: Function that is called with a :class:`~spdl.pipeline.FailureEvent` for each failed item, on the
            thread that handles the failure (the event loop for async ops), so it must be thread-safe and fast. If it
            raises, the exception is logged once and has no other effect.
        quarantine: File to which a line is appended for each failed item, as JSON: which item (``key``, ``position``,
            ``item``), where and how it failed. Several processes may append to one file. A failed write is logged once
            and has no other effect. ``spdl quarantine`` shows the file, and ``add_source(exclude=...)`` leaves its
            items out.

    Raises:
        OSError: The quarantine file or the provenance file cannot be opened.
        ValueError: An argument is out of range, a merge mixes continuous and ordinary sources, or the pipeline cannot
            be resumed exactly. The message names the stages and what to do about them.
        TypeError: An argument has the wrong type, or ``queue_class`` returns a queue that cannot observe a channel.
    """
    pipeline = assemble(
        pipeline_cfg,
        BuildOptions(
            make_region_workers=_make_region_workers,
            num_threads=num_threads,
            max_failures=max_failures,
            report_stats_interval=report_stats_interval,
            queue_class=queue_class,
            task_hook_factory=task_hook_factory,
            stage_id=stage_id,
            background_tasks=background_tasks,
            resumable=resumable,
            seed=seed,
            provenance=provenance,
            stall_timeout=stall_timeout,
            stall_action=stall_action,
            on_failure=on_failure,
            quarantine=quarantine,
        ),
    )
    if _config.is_diagnostic_mode_enabled():
        from ._profile._diagnostic import diagnosed  # imported late: for diagnostic mode only

        return diagnosed(pipeline, pipeline_cfg)
    return pipeline


def _make_region_workers(region: Region, info: StageInfo, options: BuildOptions) -> RegionWorkers:
    from ._remote._regions import make_workers  # imported late: few pipelines need processes

    return make_workers(
        region,
        info,
        num_threads=options.num_threads,
        max_failures=options.max_failures,
        interval=options.report_stats_interval,
        seed=options.seed,
    )
