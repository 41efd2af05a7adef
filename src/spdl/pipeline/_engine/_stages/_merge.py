"""Merging sub-pipelines, and the paths of a path-variants stage, into one stream.

A user's merge op runs on the loop, and uses a reader for each input and a writer.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._errors import PipelineError
from spdl.pipeline._engine._channel import MARK, Channel, Entry
from spdl.pipeline._engine._core import Core, Node
from spdl.pipeline._engine._failures import as_stage_failure
from spdl.pipeline._info import EOF, EPOCH_END, StageInfo

if TYPE_CHECKING:
    from spdl.pipeline._engine._lane import AsyncLane


class MergeStage(Node):
    """Passes items on in order of arrival. An epoch mark passes when every input has reached it."""

    __slots__ = ("next_input",)

    def __init__(self, engine: Core, info: StageInfo) -> None:
        super().__init__(engine, info)
        self.next_input = 0

    def advance(self, now: float) -> None:
        """Take from the inputs in turn."""
        if self.ended:
            return
        self.counters.end_starved(now)
        inboxes, out = self.inboxes, self.out
        while len(out.items) <= out.capacity:
            moved = False
            for offset in range(len(inboxes)):
                index = (self.next_input + offset) % len(inboxes)
                items = inboxes[index].items
                if items and items[0] is not MARK:
                    self.counters.num_calls += 1
                    self.counters.num_emitted += 1
                    out.put(inboxes[index].take(), now)
                    self.next_input = (index + 1) % len(inboxes)  # round-robin
                    moved = True
                    break
            if moved:
                continue
            still_open = [channel for channel in inboxes if channel.items or not channel.closed]
            if not still_open:
                self.end(now)
                break
            if not all(channel.items for channel in still_open):
                break  # only marks, and not every input has reached its mark
            for channel in still_open:
                channel.take()
            out.put_mark(now)
        if not self.ended and not any(channel.items for channel in inboxes):
            self.counters.begin_starved(now)


class CustomMergeStage(Node):
    """A user's merge op: an async function that reads the inputs and writes the output on the loop.

    The loop lane runs the op (``run_merge_op``). The op may keep, combine or create items. If the op emits an
    item that it has read, the output gets the origin of that item; otherwise it gets the origins of all items read and
    not yet emitted.
    """

    __slots__ = ("custody", "loop", "waiters")

    def __init__(self, engine: Core, info: StageInfo, loop: AsyncLane) -> None:
        super().__init__(engine, info)
        self.loop = loop
        self.waiters: list[asyncio.Future[None]] = []  # reads that wait for input, writes that wait for room
        self.custody: list[Entry] = []  # read and not yet emitted

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            self.loop.notify(waiter)

    def on_input(self, now: float) -> None:
        self.counters.end_starved(now)
        self.wake()

    def on_room(self) -> None:
        self.wake()

    def read(self, inbox: Channel) -> Entry:
        """Take the next entry of an input and record that the op holds it."""
        entry = inbox.take()
        if entry is not MARK:
            self.counters.num_calls += 1
            self.custody.append(entry)
        return entry

    def write(self, value: Any, now: float) -> None:
        same = next((place for place, (held, _) in enumerate(self.custody) if held is value), None)
        if same is not None:
            _, origin = self.custody.pop(same)
        else:
            origin = tuple(held_origin for _, held_origin in self.custody)
            self.custody.clear()
        self.counters.num_emitted += 1
        self.out.put((value, origin), now)

    def finish(self, now: float) -> None:
        """End the stage after the op has returned: drop the items it kept and cancel the inputs."""
        if self.ended:
            return
        self.counters.num_dropped += len(self.custody)
        for _, origin in self.custody:
            self.engine.ledger.release(origin)
        self.custody.clear()
        self.engine.cancel_upstream(self, now)
        for channel in self.inboxes:
            channel.discard()
        self.end(now)

    @property
    def num_in_flight(self) -> int:
        return len(self.custody)

    def drop_work(self) -> None:
        self.custody.clear()
        self.loop.cancel_task(self)
        self.wake()


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
