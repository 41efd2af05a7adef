"""Builds a stage that calls an op. The kind of the op, and where it should run, determine the lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from spdl.pipeline._engine._graph_builder import is_limited
from spdl.pipeline._engine._lanes._executor import ExecutorLane
from spdl.pipeline._engine._stages._async_generator import AsyncGeneratorStage
from spdl.pipeline._engine._stages._call import CallStage
from spdl.pipeline._engine._stages._generator import GeneratorStage
from spdl.pipeline._engine._stages._hooked import HookedGenerator, HookedOp, HookLog
from spdl.pipeline._engine._stages._ordered import OrderedCallStage
from spdl.pipeline._engine._stages._seeded import SeededHookedGenerator, SeededHookedOp, seeded
from spdl.pipeline._engine._stages._timed import TimedCallStage, TimedGeneratorStage, TimedOrderedCallStage, TimedStage
from spdl.pipeline._limits import Limit, RateLimit
from spdl.pipeline.defs import Rate, validate_max_failures

from ._op_wrapper import OpWrapper

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._graph_builder import GraphBuilder
    from spdl.pipeline._engine._lane import CallLane
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline.defs import MaxFailures, PipeConfig

Stage = TypeVar("Stage", bound=CallStage)


def add_pipe(graph: GraphBuilder, config: PipeConfig[Any, Any], tail: Channel, out: Channel) -> None:
    """Add the stage. With task hooks, its calls are async, on the loop."""
    info = graph.info(config.name, config._concurrency)
    wiring = graph.wire(info, "stage", out.capacity)
    stage = _hooked(graph, config, info, wiring.task_hooks) if wiring.task_hooks else _plain(graph, config, info)
    stage.lane.add(stage)
    own = config._max_failures
    if own is None:
        stage.budget = graph.limit()
    elif is_limited(validate_max_failures(own, f"stage {config.name!r}")):
        stage.budget = RateLimit(own) if isinstance(own, Rate) else Limit(own, is_own=True)
    stage.may_all_fail = may_all_fail(config, graph.options.max_failures)
    stage.raises = config._on_error == "raise"
    stage.substitute = config._on_error if callable(config._on_error) else None
    # Looked up on the class, because an op may have any attribute. Only ops of this package have this one.
    stage.joins_inputs = getattr(type(config._op), "spdl_joins_inputs", False) is True
    graph.add(stage, [tail], [out], wiring)


def _plain(graph: GraphBuilder, config: PipeConfig[Any, Any], info: StageInfo) -> CallStage:
    """Make a stage without task hooks: its op runs on the lane for its kind."""
    engine, kind, ops = graph.engine, config._kind, OpWrapper(graph)
    is_async = kind in ("async", "async_generator")
    timeout = None if config._isolate or is_async else config._timeout  # an async op is cancelled
    ordered = _is_ordered(config)
    op = ops.wrapped_op(config, info)
    lane: CallLane
    if config._isolate:
        lane = ops.isolated_lane(config, info)
    elif is_async:
        lane = graph.loop
    elif config._executor is not None:
        lane = engine.add_lane(ExecutorLane(engine, config._executor))
    else:
        lane = graph.pool
    arguments: dict[str, Any] = {"limit": config._concurrency, "lane": lane, "location": config._location}
    if kind == "async_generator":
        return _class(config, AsyncGeneratorStage)(engine, info, op, **arguments)
    if kind == "generator":
        arguments["ordered"] = ordered
    if timeout is None:
        untimed = GeneratorStage if kind == "generator" else OrderedCallStage if ordered else CallStage
        return _class(config, untimed)(engine, info, op, **arguments)
    timed: type[TimedStage]
    timed = TimedGeneratorStage if kind == "generator" else TimedOrderedCallStage if ordered else TimedCallStage
    stage = _class(config, timed)(engine, info, op, **arguments)
    stage.set_timeout(timeout, graph.deadlines)
    return stage


def _hooked(graph: GraphBuilder, config: PipeConfig[Any, Any], info: StageInfo, hooks: list[Any]) -> CallStage:
    engine, ops = graph.engine, OpWrapper(graph)
    ordered = _is_ordered(config)
    arguments: dict[str, Any] = {"limit": config._concurrency, "lane": graph.loop, "location": config._location}
    if config._kind in ("async_generator", "generator"):
        generator = HookedGenerator if config._rng is None else SeededHookedGenerator
        hooked = generator(HookLog(info), hooks, ops.async_generator(config, info))
        return _class(config, AsyncGeneratorStage)(engine, info, hooked, ordered=ordered, **arguments)
    op = (HookedOp if config._rng is None else SeededHookedOp)(HookLog(info), hooks, ops.async_op(config, info))
    return _class(config, OrderedCallStage if ordered else CallStage)(engine, info, op, **arguments)


def _class(config: PipeConfig[Any, Any], cls: type[Stage]) -> type[Stage]:
    """Return the class of a stage that may take random numbers."""
    return cls if config._rng is None else seeded(cls)  # type: ignore[arg-type, return-value] # a class is hashable


def may_all_fail(config: PipeConfig[Any, Any], pipeline_limit: MaxFailures) -> bool:
    """Return whether the limits allow that every call of the stage fails."""
    own = config._max_failures
    return _is_all(pipeline_limit) if own is None else _is_all(own) or not is_limited(own)


def _is_all(limit: MaxFailures) -> bool:
    """Return whether the limit allows that all calls fail. The default of a build, a negative number, does not."""
    share = limit.share if isinstance(limit, Rate) else limit
    return share == 1 and not isinstance(limit, int)


def _is_ordered(config: PipeConfig[Any, Any]) -> bool:
    return config._output_order == "input" and config._concurrency > 1
