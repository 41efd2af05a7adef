"""Makes the observers of a pipeline.

Decides which hooks run per call and which only read counters. The engine calls ``wire``, and is not imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from spdl.pipeline._info import StageInfo
from spdl.pipeline._observe._reporting import BlockReport
from spdl.pipeline._observe._stats import PipelineStats
from spdl.pipeline._observe._task_hooks import TaskHook, TaskStatsHook, overrides
from spdl.pipeline._records import NodeKind, StageWiring

if TYPE_CHECKING:
    from spdl.pipeline._observe._queues import AsyncQueue, StatsQueue


class Wiring:
    """The observers of one build.

    Args:
        task_hook_factory: Makes the hooks of a stage. ``None``: one of ``default_hook_class``, if there is one.
        queue_class: Makes the queue of a stage. ``None``: ``default_queue_class``.
        interval: Seconds between reports of the default hook and queue.
        default_hook_class: Called with ``(info, interval=s)``.
        default_queue_class: Called with ``(info, buffer_size=n, interval=s)``. ``None``: the reports of ``StatsQueue``,
            which are made without a queue.
    """

    def __init__(
        self,
        task_hook_factory: Callable[[StageInfo], list[TaskHook]] | None,
        queue_class: Callable[..., AsyncQueue] | None,
        interval: float,
        *,
        default_hook_class: Callable[..., TaskHook] | None,
        default_queue_class: Callable[..., AsyncQueue] | None,
    ) -> None:
        self.task_hook_factory = task_hook_factory
        self.queue_class = queue_class
        self.interval = interval
        self.default_hook_class = default_hook_class
        self.default_queue_class = default_queue_class
        self.call_readers: list[tuple[TaskStatsHook, StageWiring]] = []
        self.channel_readers: list[tuple[StatsQueue, StageWiring]] = []
        #: Observers without a custom stage hook. The engine runs their reports.
        self.reporters: list[TaskStatsHook | StatsQueue] = []
        #: Whether there are default observers that only log: one block for all stages replaces their log lines.
        self.has_plain = False

    def wire(self, info: StageInfo, kind: NodeKind, buffer_size: int) -> StageWiring:
        """Make the observers of one stage. Called by the graph for every stage and path, in order of stage id."""
        wiring = StageWiring()
        if kind != "router":
            self._add_queue(wiring, info, buffer_size)
        if kind in ("stage", "router"):
            for hook in self._make_hooks(info):
                self._add_hook(wiring, hook)
        return wiring

    def _make_hooks(self, info: StageInfo) -> list[TaskHook]:
        if self.task_hook_factory is not None:
            return _checked_hooks(self.task_hook_factory(info), self.task_hook_factory, info)
        make = self.default_hook_class
        return [] if make is None else [make(info, interval=self.interval)]

    def _add_queue(self, wiring: StageWiring, info: StageInfo, buffer_size: int) -> None:
        if self.queue_class is not None:
            queue = self.queue_class(info, buffer_size=buffer_size)
        elif self.default_queue_class is not None:
            queue = self.default_queue_class(info, buffer_size=buffer_size, interval=self.interval)
        else:
            self.has_plain = True
            return
        # Imported late: needs asyncio.
        from spdl.pipeline._observe._queues import AsyncQueue, StatsQueue, check_observer

        check_observer(queue)
        if isinstance(queue, StatsQueue):
            self.channel_readers.append((queue, wiring))
            if not overrides(queue, StatsQueue, "stage_hook"):
                self._add_reporter(queue, is_default=self.queue_class is None and type(queue) is StatsQueue)
                return
        if overrides(queue, AsyncQueue, "stage_hook"):
            wiring.stage_hooks.append(_checked_stage_hook(queue))

    def _add_hook(self, wiring: StageWiring, hook: TaskHook) -> None:
        if isinstance(hook, TaskStatsHook) and not overrides(hook, TaskStatsHook, "task_hook"):
            self.call_readers.append((hook, wiring))
            if not overrides(hook, TaskStatsHook, "stage_hook"):
                self._add_reporter(hook, is_default=self.task_hook_factory is None and type(hook) is TaskStatsHook)
                return
        elif overrides(hook, TaskHook, "task_hook"):
            wiring.task_hooks.append(hook)
        if overrides(hook, TaskHook, "stage_hook"):
            wiring.stage_hooks.append(_checked_stage_hook(hook))

    def _add_reporter(self, reporter: TaskStatsHook | StatsQueue, *, is_default: bool) -> None:
        if is_default:
            self.has_plain = True
        else:
            self.reporters.append(reporter)

    def attach(
        self,
        run_in_background: Callable[[str, Callable[[], Coroutine[Any, Any, None]]], None],
        call_at_end: Callable[[Callable[[], None]], None],
        read_stats: Callable[[], PipelineStats],
    ) -> None:
        """Connect the observers to the engine's counters and schedule their reports. Called when the graph is built.

        ``run_in_background`` takes a name for the coroutine function.
        """
        if self.has_plain:
            report = BlockReport(self.interval, read_stats)
            if self.interval > 0:
                run_in_background("report of the statistics", report.run)
            call_at_end(report.log_totals)
        for hook, wiring in self.call_readers:
            assert wiring.read_calls is not None
            hook._attach(wiring.read_calls)
        for queue, wiring in self.channel_readers:
            assert wiring.read_channel is not None
            queue._attach(wiring.read_channel)
        for reporter in self.reporters:
            if reporter.interval > 0:
                run_in_background(f"report of {reporter.info}", reporter._run_interval)
            call_at_end(reporter._log_totals)


def _checked_hooks(hooks: object, factory: object, info: StageInfo) -> list[TaskHook]:
    if not isinstance(hooks, Iterable):
        raise TypeError(f"task_hook_factory must return a list of hooks, got {hooks!r} from {factory!r} for {info}")
    made = list(hooks)
    for hook in made:
        if not isinstance(hook, TaskHook):
            raise TypeError(f"task_hook_factory must return a list of hooks, got {hook!r} in it for {info}")
    return made


def _checked_stage_hook(owner: TaskHook | AsyncQueue) -> Callable[[], Any]:
    """Return the stage hook of ``owner``. It is made now, so that a wrong one raises at build time."""
    context = owner.stage_hook()
    if not hasattr(context, "__aenter__") or not hasattr(context, "__aexit__"):
        if hasattr(context, "close"):
            context.close()  # a coroutine: otherwise Python warns that it was never awaited
        raise ValueError(
            f"{type(owner).__qualname__}.stage_hook() must return an async context manager "
            f"(is @asynccontextmanager missing?), got {context!r}"
        )
    return lambda: context
