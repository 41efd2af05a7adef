"""Turns a description into an engine with all its nodes, channels and lanes. Starts nothing.

Each kind of description has a function here, or in ``_pipes``, that adds its nodes to the graph; ``KINDS`` is the table
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spdl._reports import name_of
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
)

from ._channel import Channel
from ._engine import Engine, Sink
from ._graph_builder import CHANNEL_CAPACITY, GraphBuilder, GraphOptions, Kinds
from ._lanes._loop import LoopLane
from ._lanes._source import SourceLane
from ._pipes import add_pipe, may_all_fail
from ._refill import GateStage, replacement_of
from ._region._lane import RegionLane
from ._region._stage import RegionStage
from ._stages._aggregate import AggregateStage, DueAggregateStage
from ._stages._call import CallStage
from ._stages._generator import AsyncGeneratorStage, GeneratorStage
from ._stages._merge import CustomMergeStage, MergeReader, MergeStage, MergeWriter
from ._stages._policies import HookLog, hooked_steps, steps_on_thread
from ._stages._source import CollateStage, SourceNode
from ._stages._variants import BatchedPathMerge, RouterStage

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline._records import ItemReader

    from ._core import Node
    from ._lane import CallLane


def build_graph(config: PipelineConfig[Any], options: GraphOptions) -> Engine:
    """Make an engine with all nodes and channels of ``config``."""
    sources = _sources(config)
    if len({source.continuous for source in sources}) > 1:
        raise ValueError("Mixed continuous mode: continuous and ordinary sources cannot be merged into one pipeline")
    engine = Engine(options.pipeline_id, options.num_threads, len(sources), options.report_failure)
    graph = GraphBuilder(engine, options, KINDS)
    capacity = config.sink.buffer_size
    refills = any(replacement_of(source.source) is not None for source in sources)
    tail = graph.add_pipeline(config, capacity, with_gate if refills else list)
    info = graph.info("sink")
    sink = engine.sink = Sink(engine, info)
    graph.add(sink, [tail], [], graph.wire(info, "sink", capacity))
    if engine.places.are_needed or options.keeps_keys:
        keep_places(engine)
    elif options.is_recorded:  # without keys: a provenance log does not contain them
        engine.ledger.tracks_epochs = True
    engine.num_live = len(engine.nodes)
    for node in engine.nodes:
        node.link()
    return engine


def keep_places(engine: Engine) -> None:
    """Make the engine record what it needs to find the places of items. Call before the start."""
    engine.ledger.tracks_epochs = True
    for node in engine.nodes:
        if isinstance(node, SourceNode):
            node.passes.keep_keys()


def run_in_background(engine: Engine, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine beside the pipeline, until all of its stages have ended. Call before the start."""
    engine.shared_lane(LoopLane).run_in_background(name, make)


def _sources(config: PipelineConfig[Any]) -> list[SourceConfig[Any]]:
    if isinstance(config.src, MergeConfig):
        return [source for sub in config.src.pipeline_configs for source in _sources(sub)]
    return [config.src]


def add_source(graph: GraphBuilder, config: SourceConfig[Any], capacity: int) -> Channel:
    """Add a source: a sync one gets its own thread, an async one a task of the event loop."""
    engine = graph.engine
    info = graph.info("src")
    wiring = graph.wire(info, "source", capacity)
    node = SourceNode(
        engine, info, config.source, continuous=config.continuous, number=graph.num_sources, num_epochs=config.epochs
    )
    graph.num_sources += 1
    if (replace := replacement_of(config.source)) is not None:
        if node.shares_ledger:
            raise ValueError(
                f"source {name_of(config.source)} with refill=True is merged with others, so it is not known which of "
                "them must replace an item. Use it alone, or spdl.source.KeyedMix over the datasets"
            )
        graph.refill = node.refill(replace)
    if config.exclude is not None or config.exclude_keys is not None:
        node.passes.exclude(graph.options.make_exclusion(config), node.counters)
    engine.places.sources.append(node.passes)
    out = Channel(capacity)
    graph.add(node, [], [out], wiring)
    if hasattr(config.source, "__iter__"):
        node.helped = graph.pool
        engine.add_lane(SourceLane(engine, node, graph.pool))
    else:
        node.loop = graph.loop
        graph.loop.sources.append(node)
    return out


def add_merge(graph: GraphBuilder, config: MergeConfig, capacity: int) -> Channel:
    """Add the pipelines, and the node that merges them; the op of a custom merge is a task of the event loop."""
    info = graph.info("merge")
    wiring = graph.wire(info, "stage", capacity)
    tails = [graph.add_pipeline(sub) for sub in config.pipeline_configs]
    out = Channel(capacity)
    if config.op is None:
        graph.add(MergeStage(graph.engine, info), tails, [out], wiring)
        return out
    node = CustomMergeStage(graph.engine, info, graph.loop)
    graph.add(node, tails, [out], wiring)
    readers: list[tuple[StageInfo, ItemReader]] = [
        (channel.producer.info, MergeReader(node, channel)) for channel in node.inboxes
    ]
    inputs, output = graph.options.make_merge_queues(info, readers, MergeWriter(node))
    graph.loop.merges.append((node, config.op, inputs, output))
    return out


def add_aggregate(graph: GraphBuilder, config: AggregateConfig[Any], tail: Channel, out: Channel) -> None:
    """Add a stage that makes lists without a call, or calls an aggregator on the pool."""
    engine = graph.engine
    engine.unit = "batches"
    info = graph.info(config.name)
    wiring = graph.wire(info, "stage", out.capacity)
    hooks = wiring.task_hooks
    if type(config.op) is Collate and not hooks:
        graph.add(CollateStage(engine, info, config.op.num_items, drop_last=config.drop_last), [tail], [out], wiring)
        return
    lane: CallLane = graph.loop if hooks else graph.pool
    may_be_due = type(config.op).deadline is not Aggregator.deadline
    made = DueAggregateStage if may_be_due else AggregateStage
    stage = made(engine, info, config.op, drop_last=config.drop_last, lane=lane)
    if isinstance(stage, DueAggregateStage):
        stage.set_deadlines(graph.deadlines)
    if hooks:
        stage.set_hooks(hooks, graph.job_queue(info).call)
    lane.add(stage)
    graph.add(stage, [tail], [out], wiring)


def add_disaggregate(graph: GraphBuilder, config: DisaggregateConfig[Any], tail: Channel, out: Channel) -> None:
    """Add a stage that iterates each of its inputs on the pool."""
    graph.engine.unit = "items"
    info = graph.info(config.name)
    wiring = graph.wire(info, "stage", out.capacity)
    location = "disaggregate()"
    stage: CallStage
    if wiring.task_hooks:
        jobs = graph.job_queue(info)
        op = partial(hooked_steps, HookLog(info), wiring.task_hooks, partial(steps_on_thread, jobs.call, iter))
        stage = AsyncGeneratorStage(graph.engine, info, op, limit=1, lane=graph.loop, location=location)
    else:
        stage = GeneratorStage(graph.engine, info, iter, limit=1, lane=graph.pool, location=location)
    stage.lane.add(stage)
    stage.budget = graph.limit()
    graph.add(stage, [tail], [out], wiring)


def add_variants(graph: GraphBuilder, config: PathVariantsConfig[Any], tail: Channel, out: Channel) -> None:
    """Add the router and all nodes between it and ``out``."""
    engine = graph.engine
    router_id = graph.next_id
    info = graph.info(config.name)
    channels = [Channel(CHANNEL_CAPACITY) for _ in config.paths]
    wirings = [
        graph.wire(graph.info(f"path_variants_path{number}", stage_id=router_id), "path", CHANNEL_CAPACITY)
        for number in range(len(channels))
    ]
    wiring = graph.wire(info, "router", CHANNEL_CAPACITY)
    for path_wiring in wirings:
        wiring.stage_hooks.extend(path_wiring.stage_hooks)
    pipe = Pipe(config.router)  # determines the kind and the location of the router
    lane: CallLane = graph.loop if pipe._kind == "async" else graph.pool
    router = RouterStage(engine, info, pipe._op, limit=1, lane=lane, location=pipe._location)
    lane.add(router)
    graph.add(router, [tail], channels, wiring)
    for path_wiring, channel in zip(wirings, channels, strict=True):
        graph.let_observe(path_wiring, router, channel)
    first = len(engine.nodes)
    tails = [
        graph.add_stages(path, channel, block=router) for path, channel in zip(config.paths, channels, strict=True)
    ]
    info = graph.info("path_variants_merge")
    wiring = graph.wire(info, "stage", out.capacity)
    merge: Node = BatchedPathMerge(engine, info, router) if config.batched else MergeStage(engine, info)
    router.members = engine.nodes[first:]
    graph.add(merge, tails, [out], wiring)


def add_region(graph: GraphBuilder, region: Region, tail: Channel, out: Channel) -> None:
    """Add the stage and the threads that communicate with its workers."""
    engine = graph.engine
    info = graph.info(region.name)
    wiring = graph.wire(info, "stage", out.capacity)
    workers = graph.options.make_region_workers(region, info)
    stage = RegionStage(
        engine,
        info,
        workers.num_workers,
        region.input_size,
        region.output_size,
        may_replace=workers.may_replace,
        waits_until_ready=workers.waits_until_ready,
        may_resize=workers.may_resize,
        sends_places=region.is_seeded,
    )
    if region.is_seeded:
        engine.places.are_needed = True
    for each in region.stages:
        if isinstance(each, AggregateConfig | DisaggregateConfig):
            engine.unit = "batches" if isinstance(each, AggregateConfig) else "items"
    if region.is_limited_by_pipeline:
        stage.limits.budget = graph.limit()
    pipes = [each for each in region.stages if isinstance(each, PipeConfig)]
    stage.limits.may_all_fail = all(may_all_fail(each, graph.options.max_failures) for each in pipes)
    stage.lane = engine.add_lane(RegionLane(engine, stage, workers))
    graph.add(stage, [tail], [out], wiring)


class Gate:
    """Placeholder for the gate in the list of stages of a pipeline whose source refills."""


def with_gate(stages: Sequence[Any]) -> list[Any]:
    """Return the same stages with a gate in front of the first aggregate; without one, behind the last stage."""
    for number, stage in enumerate(stages):
        if isinstance(stage, AggregateConfig):
            return [*stages[:number], Gate(), *stages[number:]]
        if (name := _aggregate_in(stage)) is not None:
            raise ValueError(
                f"a source with refill=True cannot be refilled: {name!r} is inside a region or path variants, so "
                "the items that have reached it are not known outside. Put the first aggregate behind them"
            )
    return [*stages, Gate()]


def _aggregate_in(stage: Any) -> str | None:
    inside: list[Any] = []
    if isinstance(stage, Region):
        inside = list(stage.stages)
    elif isinstance(stage, PathVariantsConfig):
        inside = [each for path in stage.paths for each in path]
    for each in inside:
        name = each.name if isinstance(each, AggregateConfig) else _aggregate_in(each)
        if name is not None:
            return str(name)
    return None


def add_gate(graph: GraphBuilder, config: Gate, tail: Channel, out: Channel) -> None:
    """Add the gate of the only source."""
    info = graph.info("refill")
    assert graph.refill is not None
    graph.add(GateStage(graph.engine, info, graph.refill), [tail], [out], graph.wire(info, "stage", out.capacity))


KINDS: Final = Kinds(
    sources={SourceConfig: add_source, MergeConfig: add_merge},
    stages={
        PipeConfig: add_pipe,
        AggregateConfig: add_aggregate,
        DisaggregateConfig: add_disaggregate,
        PathVariantsConfig: add_variants,
        Region: add_region,
        Gate: add_gate,
    },
)
