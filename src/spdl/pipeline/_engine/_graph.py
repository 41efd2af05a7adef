"""Turns descriptions into nodes and channels. Starts nothing.

Stage ids are assigned in this order: source, stages, sink; a merge before its sub-pipelines; for path variants the
router, then the stages of the paths, then the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spdl.pipeline._engine._channel import Channel
from spdl.pipeline._engine._deadlines import Deadlines
from spdl.pipeline._engine._engine import Engine
from spdl.pipeline._engine._failures import FailureReporter, Limit
from spdl.pipeline._engine._isolated_workers import StartIsolated
from spdl.pipeline._engine._lane import CallLane
from spdl.pipeline._engine._lanes import ExecutorLane, LoopLane, PoolLane, RegionLane, SourceLane
from spdl.pipeline._engine._node import Node
from spdl.pipeline._engine._op_wrapper import OpWrapper
from spdl.pipeline._engine._sink import Sink
from spdl.pipeline._engine._stages import (
    AggregateStage,
    AsyncGeneratorStage,
    BatchedPathMerge,
    CallStage,
    CollateStage,
    CustomMergeStage,
    DueAggregateStage,
    GeneratorStage,
    HookedGenerator,
    HookedOp,
    MergeStage,
    OrderedCallStage,
    RegionStage,
    RouterStage,
    SourceNode,
    TimedCallStage,
    TimedGeneratorStage,
    TimedOrderedCallStage,
    TimedStage,
    steps_on_thread,
)
from spdl.pipeline._info import StageInfo
from spdl.pipeline.defs import (
    AggregateConfig,
    Aggregator,
    Collate,
    DisaggregateConfig,
    MergeConfig,
    PathVariantsConfig,
    Pipe,
    PipeConfig,
    PipelineConfig,
    Region,
    SourceConfig,
    check_regions,
    split_regions,
    validate_max_failures,
)

if TYPE_CHECKING:
    from spdl.pipeline._engine._region_workers import RegionWorkers

__all__ = ["GraphOptions", "NodeKind", "StageWiring", "build_graph", "run_in_background"]

NodeKind: TypeAlias = Literal["source", "stage", "router", "path", "sink"]

#: Maximum number of items buffered between two stages.
CHANNEL_CAPACITY = 2


@dataclass
class StageWiring:
    """The observers of one node. The graph sets ``node`` and ``channel``."""

    task_hooks: list[Any] = field(default_factory=list)  # hooks whose ``task_hook`` must run around every call
    stage_hooks: list[Callable[[], Any]] = field(default_factory=list)  # return async context managers around the stage
    node: Node | None = None
    channel: Channel | None = None


@dataclass(frozen=True)
class GraphOptions:
    """Options of a build. ``wire`` is called once per stage and once per path, in order of stage id."""

    pipeline_id: int
    num_threads: int
    max_failures: int | Fraction
    first_stage_id: int
    wire: Callable[[StageInfo, NodeKind, int], StageWiring]
    make_merge_queues: Callable[[CustomMergeStage], tuple[list[Any], Any]]
    report_failure: FailureReporter
    start_isolated: StartIsolated
    make_region_workers: Callable[[Region, StageInfo], RegionWorkers]


def build_graph(config: PipelineConfig[Any], options: GraphOptions) -> Engine:
    """Make an engine with all nodes and channels of ``config``."""
    if _has_mixed_sources(config):
        raise ValueError("Mixed continuous mode: continuous and ordinary sources cannot be merged into one pipeline")
    return _Builder(config, options).build()


def run_in_background(engine: Engine, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine beside the pipeline, until all of its stages have ended. Before the start."""
    engine.shared_lane(LoopLane).run_in_background(name, make)


def _sources(config: PipelineConfig[Any]) -> list[SourceConfig[Any]]:
    if isinstance(config.src, MergeConfig):
        return [source for sub in config.src.pipeline_configs for source in _sources(sub)]
    return [config.src]


def _has_mixed_sources(config: PipelineConfig[Any]) -> bool:
    return len({source.continuous for source in _sources(config)}) > 1


class _Builder:
    """Builds the graph in one pass over the description, from source to sink."""

    def __init__(self, config: PipelineConfig[Any], options: GraphOptions) -> None:
        self.config = config
        self.options = options
        self.engine = Engine(options.pipeline_id, options.num_threads, len(_sources(config)), options.report_failure)
        self.ops = OpWrapper(self.engine, options.start_isolated)
        self.next_id = options.first_stage_id
        self.num_sources = 0
        self.limit = Limit(options.max_failures, is_own=False) if _is_limited(options.max_failures) else None
        self.engine.limit = self.limit

    def build(self) -> Engine:
        engine = self.engine
        capacity = self.config.sink.buffer_size
        tail = self.add_pipeline(self.config, last_capacity=capacity)
        info = self.info("sink")
        sink = engine.sink = Sink(engine, info)
        self.add(sink, [tail], [], self.options.wire(info, "sink", capacity))
        engine.num_live = len(engine.nodes)
        for node in engine.nodes:
            node.link()
        return engine

    @property
    def pool(self) -> PoolLane:
        return self.engine.shared_lane(PoolLane)

    @property
    def loop(self) -> LoopLane:
        return self.engine.shared_lane(LoopLane)

    # -- names and nodes

    def info(self, name: str, concurrency: int = 1, *, stage_id: int | None = None) -> StageInfo:
        if stage_id is None:
            stage_id = self.next_id
            self.next_id += 1
        return StageInfo(self.options.pipeline_id, str(stage_id), name, concurrency if concurrency > 1 else None)

    def add(self, node: Node, inboxes: list[Channel], outs: list[Channel], wiring: StageWiring) -> None:
        node.connect(inboxes, outs)
        wiring.node = node
        wiring.channel = outs[0] if outs else inboxes[0]
        if wiring.stage_hooks:
            node.num_hooks = len(wiring.stage_hooks)
            node.hook_lane = self.loop
            self.loop.hooks.append((node, wiring.stage_hooks))
        self.engine.nodes.append(node)

    # -- stages and sub-pipelines

    def add_pipeline(self, config: PipelineConfig[Any], last_capacity: int = CHANNEL_CAPACITY) -> Channel:
        """Add source and stages, but no sink: a merged pipeline has none. Returns the last channel."""
        check_regions(config.pipes, may_stay_open=True)
        pipes = split_regions(config.pipes)
        if isinstance(config.src, MergeConfig):
            tail = self.add_merge(config.src, last_capacity if not pipes else CHANNEL_CAPACITY)
        else:
            tail = self.add_source(config.src, last_capacity if not pipes else CHANNEL_CAPACITY)
        return self.add_pipes(pipes, tail, last_capacity, None)

    def add_source(self, config: SourceConfig[Any], capacity: int) -> Channel:
        info = self.info("src")
        wiring = self.options.wire(info, "source", capacity)
        node = SourceNode(self.engine, info, config.source, continuous=config.continuous, number=self.num_sources)
        self.num_sources += 1
        out = Channel(capacity)
        self.add(node, [], [out], wiring)
        if hasattr(config.source, "__iter__"):
            node.helped = self.pool
            self.engine.add_lane(SourceLane(self.engine, node, self.pool))
        else:
            node.loop = self.loop
            self.loop.sources.append(node)
        return out

    def add_merge(self, config: MergeConfig, capacity: int) -> Channel:
        info = self.info("merge")
        wiring = self.options.wire(info, "stage", capacity)
        tails = [self.add_pipeline(sub) for sub in config.pipeline_configs]
        out = Channel(capacity)
        if config.op is None:
            self.add(MergeStage(self.engine, info), tails, [out], wiring)
            return out
        node = CustomMergeStage(self.engine, info, self.loop)
        self.add(node, tails, [out], wiring)
        inputs, output = self.options.make_merge_queues(node)
        self.loop.merges.append((node, config.op, inputs, output))
        return out

    def add_pipes(self, pipes: Sequence[Any], tail: Channel, last_capacity: int, block: RouterStage | None) -> Channel:
        for number, config in enumerate(pipes):
            out = Channel(last_capacity if number == len(pipes) - 1 else CHANNEL_CAPACITY)
            first = len(self.engine.nodes)
            if isinstance(config, PipeConfig):
                self.add_pipe(config, tail, out)
            elif isinstance(config, AggregateConfig):
                self.add_aggregate(config, tail, out)
            elif isinstance(config, DisaggregateConfig):
                self.add_disaggregate(config, tail, out)
            elif isinstance(config, PathVariantsConfig):
                self.add_variants(config, tail, out)
            elif isinstance(config, Region):
                self.add_region(config, tail, out)
            else:
                raise TypeError(f"not a stage description: {config!r}")
            for node in self.engine.nodes[first:]:
                if node.block is None:
                    node.block = block
            tail = out
        return tail

    def add_pipe(self, config: PipeConfig[Any, Any], tail: Channel, out: Channel) -> None:
        info = self.info(config.name, config._concurrency)
        wiring = self.options.wire(info, "stage", out.capacity)
        make = self.make_hooked if wiring.task_hooks else self.make_plain
        stage = make(config, info, wiring)
        own = config._max_failures
        if own is None:
            stage.budget = self.limit
        elif _is_limited(validate_max_failures(own, f"stage {config.name!r}")):
            stage.budget = Limit(own, is_own=True)
        self.add(stage, [tail], [out], wiring)

    def make_plain(self, config: PipeConfig[Any, Any], info: StageInfo, wiring: StageWiring) -> CallStage:
        """Make a stage without task hooks: its op runs on the lane for its kind."""
        engine, kind = self.engine, config._kind
        timeout = None if config._isolate else config._timeout  # its lane handles the timeout
        ordered = config._output_order == "input" and config._concurrency > 1
        op = self.ops.wrapped_op(config, info)
        lane: CallLane
        if config._isolate:
            lane = self.ops.isolated_lane(config, info)
        elif kind in ("async", "async_generator"):
            lane, timeout = self.loop, None  # the op is cancelled
        elif config._executor is not None:
            lane = engine.add_lane(ExecutorLane(engine, config._executor))
        else:
            lane = self.pool
        arguments: dict[str, Any] = {"limit": config._concurrency, "lane": lane, "location": config._location}
        stage: CallStage
        if kind == "async_generator":
            stage = AsyncGeneratorStage(engine, info, op, **arguments)
        elif kind == "generator":
            made = GeneratorStage if timeout is None else TimedGeneratorStage
            stage = made(engine, info, op, ordered=ordered, **arguments)
        elif timeout is None:
            stage = (OrderedCallStage if ordered else CallStage)(engine, info, op, **arguments)
        else:
            stage = (TimedOrderedCallStage if ordered else TimedCallStage)(engine, info, op, **arguments)
        if timeout is not None:
            assert isinstance(stage, TimedStage)
            stage.set_timeout(timeout, engine.shared_lane(Deadlines))
        lane.add(stage)
        return stage

    def make_hooked(self, config: PipeConfig[Any, Any], info: StageInfo, wiring: StageWiring) -> CallStage:
        """Make a stage with task hooks: its calls are async, on the loop."""
        engine = self.engine
        ordered = config._output_order == "input" and config._concurrency > 1
        arguments: dict[str, Any] = {"limit": config._concurrency, "lane": self.loop, "location": config._location}
        stage: CallStage
        if config._kind in ("async_generator", "generator"):
            hooked = HookedGenerator(info, wiring.task_hooks, self.ops.async_generator(config, info))
            stage = AsyncGeneratorStage(engine, info, hooked, ordered=ordered, **arguments)
        else:
            op = HookedOp(info, wiring.task_hooks, self.ops.async_op(config, info))
            stage = (OrderedCallStage if ordered else CallStage)(engine, info, op, **arguments)
        self.loop.add(stage)
        return stage

    def add_aggregate(self, config: AggregateConfig[Any], tail: Channel, out: Channel) -> None:
        info = self.info(config.name)
        wiring = self.options.wire(info, "stage", out.capacity)
        if type(config.op) is Collate and not wiring.task_hooks:
            node: Node = CollateStage(self.engine, info, config.op.num_items, drop_last=config.drop_last)
        else:
            hooks = wiring.task_hooks
            lane: CallLane = self.loop if hooks else self.pool
            may_be_due = type(config.op).deadline is not Aggregator.deadline
            made = DueAggregateStage if may_be_due else AggregateStage
            node = stage = made(self.engine, info, config.op, drop_last=config.drop_last, lane=lane)
            if isinstance(stage, DueAggregateStage):
                stage.set_deadlines(self.engine.shared_lane(Deadlines))
            if hooks:
                stage.set_hooks(hooks, self.ops.job_queue(info).call)
            lane.add(stage)
        self.add(node, [tail], [out], wiring)

    def add_disaggregate(self, config: DisaggregateConfig[Any], tail: Channel, out: Channel) -> None:
        info = self.info(config.name)
        wiring = self.options.wire(info, "stage", out.capacity)
        location = "disaggregate()"
        stage: CallStage
        if wiring.task_hooks:
            job = self.ops.job_queue(info)
            hooked = HookedGenerator(info, wiring.task_hooks, lambda item: steps_on_thread(job.call, iter, item))
            stage = AsyncGeneratorStage(self.engine, info, hooked, limit=1, lane=self.loop, location=location)
            self.loop.add(stage)
        else:
            stage = GeneratorStage(self.engine, info, iter, limit=1, lane=self.pool, location=location)
            self.pool.add(stage)
        stage.budget = self.limit
        self.add(stage, [tail], [out], wiring)

    def add_region(self, region: Region, tail: Channel, out: Channel) -> None:
        info = self.info(region.name)
        wiring = self.options.wire(info, "stage", out.capacity)
        workers = self.options.make_region_workers(region, info)
        stage = RegionStage(
            self.engine,
            info,
            workers.num_workers,
            region.input_size,
            region.output_size,
            may_replace=workers.may_replace,
        )
        if region.is_limited_by_pipeline:
            stage.budget = self.limit
        stage.lane = self.engine.add_lane(RegionLane(self.engine, stage, workers))
        self.add(stage, [tail], [out], wiring)

    def add_variants(self, config: PathVariantsConfig[Any], tail: Channel, out: Channel) -> None:
        engine = self.engine
        router_id = self.next_id
        info = self.info(config.name)
        channels = [Channel(CHANNEL_CAPACITY) for _ in config.paths]
        wirings = [
            self.options.wire(self.info(f"path_variants_path{number}", stage_id=router_id), "path", CHANNEL_CAPACITY)
            for number in range(len(channels))
        ]
        wiring = self.options.wire(info, "router", CHANNEL_CAPACITY)
        for number, path_wiring in enumerate(wirings):
            wiring.stage_hooks.extend(path_wiring.stage_hooks)
            path_wiring.channel = channels[number]
        described = Pipe(config.router)  # determines the kind and the location of the router
        is_async = described._kind == "async"
        lane: CallLane = self.loop if is_async else self.pool
        router = RouterStage(engine, info, described._op, limit=1, lane=lane, location=described._location)
        lane.add(router)
        self.add(router, [tail], channels, wiring)
        for path_wiring in wirings:
            path_wiring.node = router
        first = len(engine.nodes)
        tails = [
            self.add_pipes(list(path), channel, CHANNEL_CAPACITY, router)
            for path, channel in zip(config.paths, channels, strict=True)
        ]
        info = self.info("path_variants_merge")
        wiring = self.options.wire(info, "stage", out.capacity)
        merge: Node = BatchedPathMerge(engine, info, router) if config.batched else MergeStage(engine, info)
        router.members = engine.nodes[first:]
        self.add(merge, tails, [out], wiring)


def _is_limited(value: int | Fraction) -> bool:
    return not (isinstance(value, int) and value < 0)
