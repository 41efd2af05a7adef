"""Builds the stages that batch items, and those that split batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine._stages._aggregate import AggregateStage
from spdl.pipeline._engine._stages._aggregate_due import DueAggregateStage
from spdl.pipeline._engine._stages._async_generator import AsyncGeneratorStage
from spdl.pipeline._engine._stages._call import CallStage
from spdl.pipeline._engine._stages._collate import CollateStage
from spdl.pipeline._engine._stages._generator import GeneratorStage
from spdl.pipeline._engine._stages._hooked import HookedGenerator, HookLog, steps_on_thread
from spdl.pipeline.defs import Aggregator, Collate

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._graph_builder import GraphBuilder
    from spdl.pipeline._engine._lane import CallLane
    from spdl.pipeline.defs import AggregateConfig, DisaggregateConfig


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
        hooked = HookedGenerator(HookLog(info), wiring.task_hooks, lambda item: steps_on_thread(jobs.call, iter, item))
        stage = AsyncGeneratorStage(graph.engine, info, hooked, limit=1, lane=graph.loop, location=location)
    else:
        stage = GeneratorStage(graph.engine, info, iter, limit=1, lane=graph.pool, location=location)
    stage.lane.add(stage)
    stage.budget = graph.limit()
    graph.add(stage, [tail], [out], wiring)
