"""Builds a stage that calls an op. The kind of the op, and where it should run, determine the lane.

Task hooks are async. With hooks, every op becomes an async op on the loop, and a sync op runs elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._random import StageSeeds
from spdl.pipeline._limits import Limit, RateLimit
from spdl.pipeline.defs import MaxFailures, PipeConfig, Rate, validate_max_failures

from ._core import swap_methods
from ._graph_builder import GraphBuilder, is_limited
from ._lanes._executor import ExecutorLane, is_remote, no_future
from ._lanes._isolated import IsolatedJobs, IsolatedLane
from ._remote_calls import IsolatedTask, call_remotely, collect_remotely, unpack_remote, unpack_remote_generator
from ._stages._call import CallStage, OrderedCallStage
from ._stages._generator import AsyncGeneratorStage, GeneratorStage
from ._stages._outcomes import WrongParameters, begin
from ._stages._policies import (
    HookLog,
    Op,
    SeededOp,
    hooked,
    hooked_steps,
    in_time,
    outcome_of,
    result_of,
    sleep,
    steps_on_thread,
    to_its_end,
    with_place,
    with_policies,
)

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

    from ._channel import Channel
    from ._lane import CallLane


def add_pipe(graph: GraphBuilder, config: PipeConfig[Any, Any], tail: Channel, out: Channel) -> None:
    """Add the stage. With task hooks, its calls are async, on the loop."""
    info = graph.info(config.name, config._concurrency)
    wiring = graph.wire(info, "stage", out.capacity)
    pipe = _Pipe(graph, config, info)
    stage = pipe.hooked(wiring.task_hooks) if wiring.task_hooks else pipe.plain()
    stage.lane.add(stage)
    if config._rng is not None:
        swap_methods(stage, ("take", with_place))
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


class _Pipe:
    """Makes the stage of one description. Starts nothing."""

    def __init__(self, graph: GraphBuilder, config: PipeConfig[Any, Any], info: StageInfo) -> None:
        self.graph = graph
        self.config = config
        self.info = info
        self.is_async = config._kind.startswith("async")
        self.has_steps = config._kind.endswith("generator")
        self.is_ordered = config._output_order == "input" and config._concurrency > 1

    # -- the op

    def bare_op(self) -> Op:
        """Return the op; if it takes random numbers, with a wrapper that passes them."""
        config = self.config
        if config._rng is None:
            return config._op
        self.graph.engine.places.are_needed = True
        return SeededOp(config._op, StageSeeds(self.graph.options.seed, config._rng))

    def op(self) -> Op:
        """Return the op with its retries and, on the loop, with its timeout."""
        config = self.config
        if config._isolate:  # its lane handles retries and timeouts
            return self.bare_op()
        is_elsewhere = config._executor is not None and is_remote(config._executor)
        wait = sleep if is_elsewhere else self.graph.engine.stopped.wait
        stage, retry, timeout = str(self.info), config._retry, config._timeout
        return with_policies(self.bare_op(), config._kind, stage, retry=retry, timeout=timeout, wait=wait)

    def async_op(self) -> Op:
        """Return an async op, or an async generator function, that runs the op where it should run."""
        config, op, executor, timeout = self.config, self.op(), self.config._executor, self.config._timeout
        if config._isolate:
            jobs = IsolatedJobs(self.graph.engine, self.info, self.isolated_lane(), self.graph.loop)
            return jobs.generate_isolated if self.has_steps else jobs.call_isolated
        if self.is_async:
            return partial(begin, op)
        if executor is None:
            call = self.graph.job_queue(self.info, timeout).call
            if self.has_steps:
                return partial(steps_on_thread, call, op)
            return lambda item: to_its_end(call(op, item, item))

        def end(call: Awaitable[Any]) -> Awaitable[Any]:
            return to_its_end(call) if timeout is None else in_time(call, timeout, str(self.info))

        if not is_remote(executor):

            async def call_there(function: Op, argument: Any, item: Any) -> Any:
                # An asyncio future cannot hold ``StopIteration``.
                return result_of(await end(_submit(executor, self.info, outcome_of, function, argument)))

            if self.has_steps:
                return partial(steps_on_thread, call_there, op)
            return lambda item: call_there(op, item, item)

        async def remote(item: Any) -> Any:
            value, error = unpack_remote(await end(_submit(executor, self.info, call_remotely, op, item)))
            if error is not None:
                raise error
            return value

        async def remote_steps(item: Any) -> AsyncIterator[Any]:
            outcome = await end(_submit(executor, self.info, collect_remotely, op, item))
            collected = unpack_remote_generator(outcome)
            for value in collected.values:
                yield value
            if collected.error is not None:
                raise collected.error

        return remote_steps if self.has_steps else remote

    # -- the stage

    def isolated_lane(self) -> IsolatedLane:
        config, engine = self.config, self.graph.engine
        task = IsolatedTask(
            self.info, self.bare_op(), self.has_steps, config._concurrency, config._retry, config._timeout
        )
        return engine.add_lane(IsolatedLane(engine, task, self.graph.options.start_isolated))

    def plain(self) -> CallStage:
        """Make a stage without task hooks: its op runs on the lane for its kind."""
        config, graph = self.config, self.graph
        lane: CallLane
        if config._isolate:
            lane = self.isolated_lane()
        elif self.is_async:
            lane = graph.loop
        elif config._executor is not None:
            lane = graph.engine.add_lane(ExecutorLane(graph.engine, config._executor))
        else:
            lane = graph.pool
        stage = self.stage(self.op(), lane)
        if config._timeout is not None and not config._isolate and not self.is_async:  # an async op is cancelled
            stage.set_timeout(config._timeout, graph.deadlines)
        return stage

    def hooked(self, hooks: list[Any]) -> CallStage:
        op = partial(hooked_steps if self.has_steps else hooked, HookLog(self.info), hooks, self.async_op())
        return self.stage(op, self.graph.loop)

    def stage(self, op: Op, lane: CallLane) -> CallStage:
        engine, info, limit, location = self.graph.engine, self.info, self.config._concurrency, self.config._location
        if self.has_steps:
            steps = AsyncGeneratorStage if lane is self.graph.loop else GeneratorStage
            return steps(engine, info, op, ordered=self.is_ordered, limit=limit, lane=lane, location=location)
        one = OrderedCallStage if self.is_ordered else CallStage
        return one(engine, info, op, limit=limit, lane=lane, location=location)


def _submit(executor: Executor, info: StageInfo, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
    future: object = executor.submit(function, *args)
    if not isinstance(future, Future):
        raise WrongParameters from no_future(executor, info, future)
    return asyncio.wrap_future(future)


def may_all_fail(config: PipeConfig[Any, Any], pipeline_limit: MaxFailures) -> bool:
    """Return whether the limits allow that every call of the stage fails."""
    own = config._max_failures
    return _is_all(pipeline_limit) if own is None else _is_all(own) or not is_limited(own)


def _is_all(limit: MaxFailures) -> bool:
    """Return whether the limit allows that all calls fail. The default of a build, a negative number, does not."""
    share = limit.share if isinstance(limit, Rate) else limit
    return share == 1 and not isinstance(limit, int)
