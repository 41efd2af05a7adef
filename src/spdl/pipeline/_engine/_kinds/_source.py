"""Builds the source of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._reports import name_of
from spdl.pipeline._engine._channel import Channel
from spdl.pipeline._engine._lanes._source import SourceLane
from spdl.pipeline._engine._refill import replacement_of
from spdl.pipeline._engine._stages._source import SourceNode

if TYPE_CHECKING:
    from spdl.pipeline._engine._graph_builder import GraphBuilder
    from spdl.pipeline.defs import SourceConfig


def add_source(graph: GraphBuilder, config: SourceConfig[Any], capacity: int) -> Channel:
    """Add a source: a sync one gets its own thread, an async one a task of the event loop."""
    engine = graph.engine
    info = graph.info("src")
    wiring = graph.wire(info, "source", capacity)
    node = SourceNode(
        engine,
        info,
        config.source,
        continuous=config.continuous,
        number=graph.num_sources,
        num_epochs=config.epochs,
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
