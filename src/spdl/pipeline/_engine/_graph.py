"""Turns a description into an engine with all its nodes, channels and lanes. Starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from spdl.pipeline.defs import MergeConfig, PipelineConfig, SourceConfig

from ._engine import Engine
from ._graph_builder import GraphBuilder, GraphOptions
from ._kinds._refill import with_gate
from ._kinds._table import KINDS
from ._lanes._loop import LoopLane
from ._recorded import RecordedEngine
from ._refill import replacement_of
from ._sink import Sink
from ._stages._source import SourceNode


def build_graph(config: PipelineConfig[Any], options: GraphOptions) -> Engine:
    """Make an engine with all nodes and channels of ``config``."""
    sources = _sources(config)
    if len({source.continuous for source in sources}) > 1:
        raise ValueError("Mixed continuous mode: continuous and ordinary sources cannot be merged into one pipeline")
    engine = (RecordedEngine if options.is_recorded else Engine)(
        options.pipeline_id, options.num_threads, len(sources), options.report_failure
    )
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
