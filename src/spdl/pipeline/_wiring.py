"""Connects observers with the engine.

Decides which hooks run per call and which only read counters, and makes the queues of merge ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from . import config as _config
from ._engine import Engine, StageWiring, run_in_background
from ._engine._lanes._merge_op import MergeReader, MergeWriter
from ._info import StageInfo
from ._observe import AsyncQueue, StatsQueue, TaskHook, TaskStatsHook, check_observer, overrides

if TYPE_CHECKING:
    from ._engine._graph_builder import NodeKind
    from ._engine._stages import CustomMergeStage
    from ._probe import CallCounts, ChannelCounts

__all__ = ["Wiring", "make_merge_queues"]


class Wiring:
    """The observers of one build."""

    def __init__(
        self,
        task_hook_factory: Callable[[StageInfo], list[TaskHook]] | None,
        queue_class: Callable[..., AsyncQueue] | None,
        interval: float,
    ) -> None:
        self.task_hook_factory = task_hook_factory
        self.queue_class = queue_class
        self.interval = interval
        self.call_readers: list[tuple[TaskStatsHook, StageWiring]] = []
        self.channel_readers: list[tuple[StatsQueue, StageWiring]] = []
        #: Observers without a custom stage hook. The engine runs their reports.
        self.reporters: list[TaskStatsHook | StatsQueue] = []

    def wire(self, info: StageInfo, kind: NodeKind, buffer_size: int) -> StageWiring:
        """Make the observers of one stage. Called by the graph for every stage and path, in order of stage id."""
        wiring = StageWiring()
        if kind != "router":
            self._add_queue(wiring, self._make_queue(info, buffer_size))
        if kind in ("stage", "router"):
            for hook in self._make_hooks(info):
                self._add_hook(wiring, hook)
        return wiring

    def _make_queue(self, info: StageInfo, buffer_size: int) -> AsyncQueue:
        if self.queue_class is not None:
            return check_observer(self.queue_class(info, buffer_size=buffer_size))
        queue_class: Any = _config.get_default_queue_class()
        return check_observer(queue_class(info, buffer_size=buffer_size, interval=self.interval))

    def _make_hooks(self, info: StageInfo) -> list[TaskHook]:
        if self.task_hook_factory is not None:
            return _checked_hooks(self.task_hook_factory(info), self.task_hook_factory, info)
        hook_class: Any = _config.get_default_hook_class()
        return [] if hook_class is None else [hook_class(info, interval=self.interval)]

    def _add_queue(self, wiring: StageWiring, queue: AsyncQueue) -> None:
        if isinstance(queue, StatsQueue):
            self.channel_readers.append((queue, wiring))
            if not overrides(queue, StatsQueue, "stage_hook"):
                self.reporters.append(queue)
                return
        if overrides(queue, AsyncQueue, "stage_hook"):
            wiring.stage_hooks.append(_checked_stage_hook(queue))

    def _add_hook(self, wiring: StageWiring, hook: TaskHook) -> None:
        is_free = isinstance(hook, TaskStatsHook) and not overrides(hook, TaskStatsHook, "task_hook")
        if is_free:
            assert isinstance(hook, TaskStatsHook)
            self.call_readers.append((hook, wiring))
            if not overrides(hook, TaskStatsHook, "stage_hook"):
                self.reporters.append(hook)
                return
        elif overrides(hook, TaskHook, "task_hook"):
            wiring.task_hooks.append(hook)
        if overrides(hook, TaskHook, "stage_hook"):
            wiring.stage_hooks.append(_checked_stage_hook(hook))

    def attach(self, engine: Engine) -> None:
        """Connect the observers to the engine's counters and schedule their reports."""
        for hook, wiring in self.call_readers:
            hook._attach(_call_reader(engine, wiring))
        for queue, wiring in self.channel_readers:
            queue._attach(_channel_reader(engine, wiring))
        for reporter in self.reporters:
            if reporter.interval > 0:
                run_in_background(engine, f"report of {reporter.info}", reporter._run_interval)
            engine.on_ended.append(reporter._log_totals)


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


def _call_reader(engine: Engine, wiring: StageWiring) -> Callable[[], CallCounts]:
    node = wiring.node
    assert node is not None

    def read() -> CallCounts:
        with engine.lock:
            return node.counters.counts()

    return read


def _channel_reader(engine: Engine, wiring: StageWiring) -> Callable[[], ChannelCounts]:
    channel = wiring.channel
    assert channel is not None

    def read() -> ChannelCounts:
        with engine.lock:
            now = engine.ended_at if engine.ended_at is not None else perf_counter()
            return channel.counts(engine.started, now)

    return read


class _MergeInput(AsyncQueue):
    """Input queue of a custom merge op: the outputs of one sub-pipeline."""

    def __init__(self, info: StageInfo, reader: MergeReader) -> None:
        super().__init__(info, buffer_size=reader.channel.capacity)
        self._reader = reader

    def qsize(self) -> int:
        return self._reader.qsize()

    def empty(self) -> bool:
        return self.qsize() == 0

    async def get(self) -> Any:
        return await self._reader.get()

    def get_nowait(self) -> Any:
        return self._reader.get_nowait()

    async def put(self, item: Any) -> None:
        raise TypeError("a merge op reads its inputs; it puts into output_queue")

    def put_nowait(self, item: Any) -> None:
        raise TypeError("a merge op reads its inputs; it puts into output_queue")


class _MergeOutput(AsyncQueue):
    """Output queue of a custom merge op."""

    def __init__(self, info: StageInfo, writer: MergeWriter) -> None:
        super().__init__(info, buffer_size=writer.node.out.capacity)
        self._writer = writer

    def qsize(self) -> int:
        return self._writer.qsize()

    def empty(self) -> bool:
        return self.qsize() == 0

    def full(self) -> bool:
        return self._writer.full()

    async def put(self, item: Any) -> None:
        await self._writer.put(item)

    def put_nowait(self, item: Any) -> None:
        self._writer.put_nowait(item)

    async def get(self) -> Any:
        raise TypeError("a merge op puts into its output; it reads from input_queues")

    def get_nowait(self) -> Any:
        raise TypeError("a merge op puts into its output; it reads from input_queues")


def make_merge_queues(node: CustomMergeStage) -> tuple[list[AsyncQueue], AsyncQueue]:
    """Return the queues that the op of ``node`` is called with."""
    inputs: list[AsyncQueue] = [
        _MergeInput(channel.producer.info, MergeReader(node, channel)) for channel in node.inboxes
    ]
    return inputs, _MergeOutput(node.info, MergeWriter(node))
