"""Builds a stage that calls an op. The kind of the op, and where it should run, determine the lane."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar

import spdl.pipeline._asyncio as asyncio
from spdl._random import StageSeeds
from spdl.pipeline._engine._graph_builder import is_limited
from spdl.pipeline._engine._lanes._executor import ExecutorLane, is_remote, no_future
from spdl.pipeline._engine._lanes._isolated import IsolatedJobs, IsolatedLane
from spdl.pipeline._engine._remote_calls import (
    IsolatedTask,
    call_remotely,
    collect_remotely,
    unpack_remote,
    unpack_remote_generator,
)
from spdl.pipeline._engine._stages._call import CallStage, OrderedCallStage
from spdl.pipeline._engine._stages._generator import AsyncGeneratorStage, GeneratorStage
from spdl.pipeline._engine._stages._hooked import HookedGenerator, HookedOp, HookLog, steps_on_thread, to_its_end
from spdl.pipeline._engine._stages._outcomes import WrongParameters, begin
from spdl.pipeline._engine._stages._retried import RemoteRetried, retried
from spdl.pipeline._engine._stages._seeded import SeededHookedGenerator, SeededHookedOp, SeededOp, seeded
from spdl.pipeline._engine._stages._timed import (
    TimedCallStage,
    TimedGeneratorStage,
    TimedOrderedCallStage,
    TimedStage,
    in_time,
    timed_async,
)
from spdl.pipeline._limits import Limit, RateLimit
from spdl.pipeline.defs import Rate, validate_max_failures

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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


class OpWrapper:
    """Wraps ops while a graph is built. Starts nothing."""

    def __init__(self, graph: GraphBuilder) -> None:
        self.graph = graph
        self.engine = graph.engine

    def bare_op(self, config: PipeConfig[Any, Any]) -> Callable[[Any], Any]:
        """Return the op; if it takes random numbers, with a wrapper that passes them."""
        if config._rng is None:
            return config._op
        self.engine.places.are_needed = True
        return SeededOp(config._op, StageSeeds(self.graph.options.seed, config._rng))

    def wrapped_op(self, config: PipeConfig[Any, Any], info: StageInfo) -> Callable[[Any], Any]:
        """Return the op with its retries and, on the loop, with its timeout."""
        op, kind, retry, executor = self.bare_op(config), config._kind, config._retry, config._executor
        if config._isolate:  # its lane handles retries and timeouts
            return op
        if retry is not None:
            if executor is not None and is_remote(executor):
                op = RemoteRetried(op, kind, retry, str(info))
            else:
                op = retried(op, kind, retry, info, self.engine.stopped)
        if config._timeout is not None and kind in ("async", "async_generator"):
            op = timed_async(op, kind, config._timeout, info)
        return op

    def isolated_lane(self, config: PipeConfig[Any, Any], info: StageInfo) -> IsolatedLane:
        task = IsolatedTask(
            info, self.bare_op(config), config._kind == "generator", config._concurrency, config._retry, config._timeout
        )
        return self.engine.add_lane(IsolatedLane(self.engine, task, self.graph.options.start_isolated))

    def isolated_jobs(self, config: PipeConfig[Any, Any], info: StageInfo) -> IsolatedJobs:
        lane = self.isolated_lane(config, info)
        return IsolatedJobs(self.engine, info, lane, self.graph.loop)

    def async_op(self, config: PipeConfig[Any, Any], info: StageInfo) -> Callable[[Any], Any]:
        op, executor = self.wrapped_op(config, info), config._executor
        if config._isolate:
            return self.isolated_jobs(config, info).call_isolated
        if config._kind == "async":
            return lambda item: begin(op, item)
        if executor is None:
            jobs = self.graph.job_queue(info, config._timeout)
            return lambda item: to_its_end(jobs.call(op, item, item))
        end = self.end_in_time(config, info)
        if not is_remote(executor):
            return lambda item: _called_there(end(_submit(executor, info, call_there, op, item)))

        async def remote(item: Any) -> Any:
            outcome = await end(_submit(executor, info, call_remotely, op, item))
            value, error = unpack_remote(outcome)
            if error is not None:
                raise error
            return value

        return remote

    def end_in_time(self, config: PipeConfig[Any, Any], info: StageInfo) -> Callable[[Any], Any]:
        """Return a function that awaits a call in an executor, with the timeout of the stage if it has one."""
        timeout = config._timeout
        return to_its_end if timeout is None else lambda call: in_time(call, timeout, info)

    def async_generator(self, config: PipeConfig[Any, Any], info: StageInfo) -> Callable[[Any], AsyncIterator[Any]]:
        op, executor = self.wrapped_op(config, info), config._executor
        if config._isolate:
            return self.isolated_jobs(config, info).generate_isolated
        if config._kind == "async_generator":
            return lambda item: begin(op, item)
        if executor is None:
            jobs = self.graph.job_queue(info, config._timeout)
            return lambda item: steps_on_thread(jobs.call, op, item)
        end = self.end_in_time(config, info)
        if not is_remote(executor):

            async def call(function: Callable[[Any], Any], argument: Any, item: Any) -> Any:
                return await _called_there(end(_submit(executor, info, call_there, function, argument)))

            return lambda item: steps_on_thread(call, op, item)

        async def remote(item: Any) -> AsyncIterator[Any]:
            outcome = await end(_submit(executor, info, collect_remotely, op, item))
            collected = unpack_remote_generator(outcome)
            for value in collected.values:
                yield value
            if collected.error is not None:
                raise collected.error

        return remote


def _submit(executor: Executor, info: StageInfo, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
    future: object = executor.submit(function, *args)
    if not isinstance(future, Future):
        raise WrongParameters from no_future(executor, info, future)
    return asyncio.wrap_future(future)


def call_there(function: Callable[[Any], Any], argument: Any) -> tuple[Any, BaseException | None]:
    """Run a call on an executor's thread; return result or error. An asyncio future cannot hold ``StopIteration``."""
    try:
        return function(argument), None
    except BaseException as exc:  # noqa: BLE001 - the boundary to user code
        return None, exc


async def _called_there(call: Awaitable[tuple[Any, BaseException | None]]) -> Any:
    value, error = await call
    if error is not None:
        raise error
    return value
