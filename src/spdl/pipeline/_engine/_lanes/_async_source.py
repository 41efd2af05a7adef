"""An async source, iterated by a task of the loop."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._errors import PipelineError
from spdl._reports import log, name_of
from spdl.pipeline._engine._failures import as_stage_failure

if TYPE_CHECKING:
    from spdl.pipeline._engine._lane import AsyncLane
    from spdl.pipeline._engine._stages._source import SourceNode


async def iterate_async_source(lane: AsyncLane, node: SourceNode) -> None:
    """Feed ``node`` until the source or the pipeline has ended. The iterator's ``aclose`` is always called."""
    engine = node.engine
    error: BaseException | None = None
    waiter = _RoomWaiter(lane, node)
    task = asyncio.current_task()
    assert task is not None
    try:
        goes_on = node.passes.has_next() and await _one_pass(lane, node, waiter)
        while goes_on and node.continuous and node.passes.has_next():
            if not await waiter.wait():
                break
            with engine.lock:
                if node.ended:
                    break
                node.end_pass(perf_counter())
            if not await waiter.wait():
                break
            goes_on = await _one_pass(lane, node, waiter)
    except asyncio.CancelledError as exc:
        if not node.ended:
            error = PipelineError(f"the async source {name_of(node.iterable)} was cancelled from inside")
            error.__cause__ = exc
        else:
            task.uncancel()
    except BaseException as exc:  # noqa: BLE001 - user code: its error fails the stage
        error = as_stage_failure(
            exc, f"source of pipeline {engine.pipeline_id}, at position {node.positions.num_issued}"
        )
    with engine.lock:
        was_ended = node.ended
        if not was_ended and error is not None:
            engine.fail(node, error, perf_counter())
        elif not was_ended:
            node.end(perf_counter())
    if was_ended and error is not None:
        text = "the source of pipeline %d raised after it was cancelled"
        log(engine.log, logging.ERROR, text, engine.pipeline_id, exc_info=error)


class _RoomWaiter:
    """Waits until the source node may emit another item."""

    def __init__(self, lane: AsyncLane, node: SourceNode) -> None:
        self.lane = lane
        self.node = node

    async def wait(self) -> bool:
        """Wait for room. Returns False if the pipeline takes no more items."""
        lane, node = self.lane, self.node
        while True:
            with node.engine.lock:
                if node.ended:
                    return False
                if node.has_room():
                    return True
                room = asyncio.get_running_loop().create_future()
                node.waiting = lambda room=room: lane.notify(room)
            await room


async def _one_pass(lane: AsyncLane, node: SourceNode, waiter: _RoomWaiter) -> bool:
    iterator: Any = node.passes.begin_async()
    engine, counters = node.engine, node.counters
    try:
        began = perf_counter()
        while True:
            try:
                value = await anext(iterator)
            except StopAsyncIteration:
                with engine.lock:
                    return not node.ended
            now = perf_counter()
            with engine.lock:
                counters.other_time += now - began
                if node.ended:
                    return False
                node.emit(value, now)
                has_room = node.has_room()
            value = None
            if not has_room and not await waiter.wait():
                return False
            began = perf_counter()
    finally:
        lane.spare_task(node)  # from here on the task is not cancelled: ``aclose`` must complete
        if (aclose := getattr(iterator, "aclose", None)) is not None:
            await aclose()
        lane.watch_task(node)
