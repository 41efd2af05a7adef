"""Builds a region: its stages run in workers and are one stage of the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._engine._lanes._region import RegionLane
from spdl.pipeline._engine._stages._region import RegionStage
from spdl.pipeline.defs import AggregateConfig, DisaggregateConfig, PipeConfig

from ._pipe import may_all_fail

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._graph_builder import GraphBuilder
    from spdl.pipeline.defs import Region


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
