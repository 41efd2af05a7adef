"""Wraps the op of a stage with retries, timeout, its executor, and task hooks.

Task hooks are async. With hooks, every op becomes an async op on the loop, and a sync op runs elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._random import StageSeeds
from spdl.pipeline._engine._isolated_workers import IsolatedTask
from spdl.pipeline._engine._lanes._executor import is_remote, no_future
from spdl.pipeline._engine._lanes._isolated import IsolatedJobs, IsolatedLane
from spdl.pipeline._engine._remote_calls import (
    call_remotely,
    collect_remotely,
    unpack_remote,
    unpack_remote_generator,
)
from spdl.pipeline._engine._stages._failing import WrongParameters, begin
from spdl.pipeline._engine._stages._hooked import steps_on_thread, to_its_end
from spdl.pipeline._engine._stages._retried import RemoteRetried, retried
from spdl.pipeline._engine._stages._seeded import SeededOp
from spdl.pipeline._engine._stages._timed import in_time, timed_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from spdl.pipeline._engine._graph_builder import GraphBuilder
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline.defs import PipeConfig


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
