"""Runs a user's merge op on the loop, and the reader and writer that the op uses."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._errors import PipelineError
from spdl.pipeline._engine._channel import MARK, Channel
from spdl.pipeline._engine._failures import as_stage_failure
from spdl.pipeline._marks import EOF, EPOCH_END

if TYPE_CHECKING:
    from spdl.pipeline._engine._stages._merge import CustomMergeStage


class MergeReader:
    """One input of a merge op. Used on the loop's thread only."""

    def __init__(self, node: CustomMergeStage, channel: Channel) -> None:
        self.node = node
        self.channel = channel
        self.capacity = channel.capacity

    def qsize(self) -> int:
        return len(self.channel.items)

    def get_nowait(self) -> Any:
        """Return the next item or a mark, or raise ``asyncio.QueueEmpty``. After the end: always the end mark."""
        with self.node.engine.lock:
            return self._next()

    def _next(self) -> Any:
        if self.channel.items:
            entry = self.node.read(self.channel)
            return EPOCH_END if entry is MARK else entry[0]
        if self.channel.closed:
            return EOF
        raise asyncio.QueueEmpty

    async def get(self) -> Any:
        node = self.node
        while True:
            with node.engine.lock:
                try:
                    return self._next()
                except asyncio.QueueEmpty:
                    node.counters.begin_starved(perf_counter())
                    waiter = asyncio.get_running_loop().create_future()
                    node.waiters.append(waiter)
            await waiter


class MergeWriter:
    """The output of a merge op. Used on the loop's thread only."""

    def __init__(self, node: CustomMergeStage) -> None:
        self.node = node
        self.capacity = node.out.capacity

    def qsize(self) -> int:
        return len(self.node.out.items)

    def full(self) -> bool:
        return len(self.node.out.items) >= self.node.out.capacity

    def put_nowait(self, value: Any) -> None:
        with self.node.engine.lock:
            self._put(value)

    def _put(self, value: Any) -> None:
        if value is EOF:
            raise ValueError("a merge op must not put the end mark; it ends the stream by returning")
        node = self.node
        if node.ended:
            raise PipelineError(f"merge stage {node.info} has ended; it takes no more items")
        if len(node.out.items) >= node.out.capacity:
            raise asyncio.QueueFull
        now = perf_counter()
        if value is EPOCH_END:
            node.out.put_mark(now)
        else:
            node.write(value, now)

    async def put(self, value: Any) -> None:
        node = self.node
        while True:
            with node.engine.lock:
                try:
                    return self._put(value)
                except asyncio.QueueFull:
                    node.counters.begin_blocked(perf_counter())
                    waiter = asyncio.get_running_loop().create_future()
                    node.waiters.append(waiter)
            try:
                await waiter
            finally:
                with node.engine.lock:
                    node.counters.end_blocked(perf_counter())


async def run_merge_op(node: CustomMergeStage, op: Callable[..., Any], inputs: list[Any], output: Any) -> None:
    """Await the op once. An early return cancels the stages before it; an exception fails the stage."""
    engine = node.engine
    error: BaseException | None = None
    task = asyncio.current_task()
    assert task is not None
    if node.ended:
        return
    try:
        await op(node.info, inputs, output)
    except asyncio.CancelledError as exc:
        if node.cancelled:
            task.uncancel()
        else:
            error = PipelineError(f"merge op of stage {node.info} was cancelled from inside")
            error.__cause__ = exc
    except BaseException as exc:  # noqa: BLE001 - the boundary to user code
        error = as_stage_failure(exc, f"merge op of stage {node.info}")
    with engine.lock:
        now = perf_counter()
        if error is not None:
            engine.fail(node, error, now)
        else:
            node.finish(now)
