"""Builds path variants: a router, the stages of its paths, and the node that merges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine._channel import Channel
from spdl.pipeline._engine._graph_builder import CHANNEL_CAPACITY
from spdl.pipeline._engine._stages._merge import MergeStage
from spdl.pipeline._engine._stages._variants import BatchedPathMerge, RouterStage
from spdl.pipeline.defs import Pipe

if TYPE_CHECKING:
    from spdl.pipeline._engine._graph_builder import GraphBuilder
    from spdl.pipeline._engine._lane import CallLane
    from spdl.pipeline._engine._node import Node
    from spdl.pipeline.defs import PathVariantsConfig


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
