"""The event loop: async ops, async sources, custom merge ops, stage and task hooks, background tasks.

One thread runs one loop, started only if needed. Async ops run in *slots*: tasks that work like the threads of the pool
(complete one ticket, claim the most downstream next). So a call needs no task of its own, and an item may pass through
several async stages in one iteration of the loop. Requests from other threads are queued under the engine's lock and
passed to the loop in one wake-up (``_kick``).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._reports import frames_of_threads, log
from spdl.pipeline._engine._ending import Joining, Stuck, stack_of, stuck_in
from spdl.pipeline._engine._lane import AsyncLane, OpenCall, Rank
from spdl.pipeline._engine._stages._call import CallStage
from spdl.pipeline._engine._stages._merge import CustomMergeStage, run_merge_op
from spdl.pipeline._engine._thread import EngineThread, Task
from spdl.pipeline._engine._ticket import CallSource, Ticket

from ._loop_slots import Slot, Slots, StageHooks
from ._source import iterate_async_source

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._stages._source import SourceNode

_LOG = logging.getLogger("spdl.pipeline")

#: How long a join waits for stage hooks after it abandoned a call of their stage, in seconds.
_HOOKS_TIMEOUT = 1.0


def _frames_of(task: asyncio.Task[None]) -> list[FrameType]:
    """Return the frames of a waiting task, outermost first. ``Task.get_stack`` has only the outermost one."""
    frames = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(waiting, f"{kind}_frame")), None)
        frame = None if kind is None else getattr(waiting, f"{kind}_frame")
        if frame is None:
            break
        frames.append(frame)
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await", None)
    return frames


def _waits_for_room(ticket: Ticket) -> bool:
    """Return whether the call is an async generator that has an output and no room, and so runs no step."""
    stage = ticket.stage
    return isinstance(stage, CallStage) and stage.has_steps and stage.out.overflow > 0


class LoopLane(AsyncLane):
    """The event loop. The engine's lock guards the fields; slots and tasks are used on the loop's thread only."""

    rank = Rank.LOOP
    runs_on = "loop"

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.sources: list[SourceNode] = []
        self.merges: list[tuple[CustomMergeStage, Callable[..., Any], list[Any], Any]] = []  # node, op, queues
        self.hooks = StageHooks(engine)
        self.slots = Slots(engine, self)
        self.background: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self.thread: EngineThread | None = None
        self.hooks_entered = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stopping = False
        self.is_claiming = False
        self._kicked = False
        self._wake_fd: int | None = None  # an eventfd where available: two system calls per kick, not four
        self._to_wake: list[asyncio.Future[None]] = []
        self._to_cancel: list[Slot] = []
        self._tasks_to_cancel: list[int] = []
        self._root: Root | None = None
        # on the loop's thread only
        self._node_tasks: dict[int, asyncio.Task[Any]] = {}  # async sources and merge ops, by id of the node
        self._over: asyncio.Future[LoopLane] | None = None
        self._background: list[asyncio.Task[None]] = []

    # -- before the start

    def add(self, source: CallSource) -> None:
        assert isinstance(source, CallStage)
        self.slots.stages.insert(0, source)  # a slot prefers the calls nearest to the consumer

    def run_in_background(self, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.background.append((name, make))

    # -- under the lock, from any thread

    def offer(self, source: CallSource) -> None:
        if not self._kicked and not self.slots.num_waking and not self.is_claiming and source.ready():
            self._kick()

    def cancel_calls(self, source: CallSource) -> None:
        self._to_cancel += self.slots.cancel_calls(source)
        self._kick()

    def cancel_task(self, owner: object) -> None:
        self._tasks_to_cancel.append(id(owner))
        self._kick()

    def notify(self, future: asyncio.Future[None]) -> None:
        if self.thread is not None and threading.get_ident() == self.thread.ident:
            if not future.done():
                future.set_result(None)  # the loop needs no wake-up from itself
            return
        self._to_wake.append(future)
        self._kick()

    def leave_hooks(self, owner: object) -> None:
        leave = self.hooks.leave(owner)
        if leave is not None:
            self.notify(leave)

    def stop(self) -> None:
        """End the loop when the hooks have exited."""
        self.stopping = True
        self._kick()

    def _stack_of(self, task: asyncio.Task[None]) -> str:
        """Return the stack of a waiting task; for the current task, which blocks the loop, the stack of the thread."""
        loop, thread = self.loop, self.thread
        if loop is not None and thread is not None and asyncio.current_task(loop) is task:
            frame = frames_of_threads().get(thread.ident or -1)
            return "".join(traceback.format_stack(frame)) if frame is not None else ""
        return "".join(line for frame in _frames_of(task) for line in traceback.format_stack(frame, limit=1))

    def watch_task(self, owner: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._node_tasks[id(owner)] = task

    def spare_task(self, owner: object) -> None:
        self._node_tasks.pop(id(owner), None)

    def _kick(self) -> None:
        if not self._kicked and self.loop is not None:
            self._kicked = True
            if self._wake_fd is not None and sys.platform == "linux":
                assert self._root is not None
                self._root.lane = self
                os.eventfd_write(self._wake_fd, 1)
            else:
                self.loop.call_soon_threadsafe(self.on_kick)

    # -- the thread

    def start(self) -> None:
        """``hooks_entered`` is set when all stage hooks have been entered."""
        self._root = Root(self)
        self.thread = EngineThread(f"spdl-{self.engine.pipeline_id}-loop", Task(None, self._root.run))
        self.thread.start()

    def wait_started(self, timeout: float | None) -> bool:
        return self.hooks_entered.wait(timeout)

    def join(self, joining: Joining) -> None:
        if joining.stuck:
            # A call that does not return would keep the stage hooks, and so the loop, open forever.
            with self.engine.lock:
                for node in self.hooks.to_leave():
                    self.leave_hooks(node)
            joining.extend(_HOOKS_TIMEOUT)
        if joining.has_ended(self.thread):
            return
        assert self.thread is not None
        stuck = [stuck_in(ticket, self._stack_of(task)) for ticket, task in self.slots.running()]
        stuck += [
            Stuck(f"{info} (its stage hook)", "(none)", self._stack_of(task)) for info, task in self.hooks.running()
        ]
        joining.stuck += stuck or [Stuck(self.thread.name, "(none)", stack_of(self.thread.ident))]

    def open_calls(self) -> list[OpenCall]:
        thread_id = None if self.thread is None else self.thread.ident
        return [
            OpenCall(ticket, thread_id, partial(self._stack_of, task), is_busy=not _waits_for_room(ticket))
            for ticket, task in self.slots.running()
        ]

    def forget(self) -> None:
        self.hooks.of_nodes.clear()
        self.background.clear()
        self.merges.clear()

    async def begin(self, root: Root) -> asyncio.Future[LoopLane]:
        """Start the tasks of the loop. Returns a future that gets this lane when all of them may end."""
        engine = self.engine
        loop = asyncio.get_running_loop()
        self.slots.begin(root.spawn)
        self._over = over = loop.create_future()
        with engine.lock:
            self.loop = loop
            if sys.platform == "linux":
                self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                loop.add_reader(self._wake_fd, root.on_wake_fd, self._wake_fd)
        self._background = [root.spawn(self._in_background(name, make)) for name, make in self.background]
        for task, (name, _) in zip(self._background, self.background, strict=True):
            task.set_name(name)
        await self.hooks.enter_all(root.spawn)  # no item may reach a stage before its hooks are entered
        self.hooks_entered.set()
        for source in self.sources:
            self._node_tasks[id(source)] = root.spawn(iterate_async_source(self, source))
        for node, op, inputs, output in self.merges:
            self._node_tasks[id(node)] = root.spawn(run_merge_op(node, op, inputs, output))
        with engine.lock:
            self._kick()
        return over

    async def finish(self, root: Root) -> None:
        """Signal the end and wait for the tasks of the loop."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*root.tasks, return_exceptions=True)
        self._stop_kicks()

    def loop_ended(self) -> None:
        self._stop_kicks()
        self.hooks_entered.set()
        self.engine.close_generators()

    def _stop_kicks(self) -> None:
        """Reject further scheduling. On the loop's thread."""
        with self.engine.lock:
            loop, self.loop = self.loop, None
            wake_fd, self._wake_fd = self._wake_fd, None
        if wake_fd is not None:
            if loop is not None and not loop.is_closed():
                loop.remove_reader(wake_fd)
            os.close(wake_fd)

    def on_kick(self) -> None:
        """On the loop: process the requests of other threads."""
        try:
            self._do_as_asked()
        except BaseException as exc:  # noqa: BLE001 - the loop would only log it
            with self.engine.lock:
                self._kicked = False
                self.engine.broken(exc)

    def _do_as_asked(self) -> None:
        engine = self.engine
        with engine.lock:
            self._kicked = False
            self.slots.pass_on()
            over = self.stopping
            if not (over or self._to_wake or self._to_cancel or self._tasks_to_cancel):
                return
            to_wake, self._to_wake = self._to_wake, []
            to_cancel, self._to_cancel = self._to_cancel, []
            tasks_to_cancel, self._tasks_to_cancel = self._tasks_to_cancel, []
        for future in to_wake:
            if not future.done():
                future.set_result(None)
        for slot in to_cancel:
            ticket = slot.ticket
            if ticket is not None and ticket.cancelled and not ticket.closing and slot.task is not None:
                slot.task.cancel()
        for key in tasks_to_cancel:
            if (task := self._node_tasks.get(key)) is not None:
                task.cancel()
        if over and self._over is not None and not self._over.done():
            self._over.set_result(self)
            with engine.lock:
                self.slots.wake_all()

    # -- background tasks

    async def _in_background(self, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await make()
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - a background task's error is logged only
            text = "background task %s of pipeline %d failed"
            log(_LOG, logging.ERROR, text, name, self.engine.pipeline_id, exc_info=exc)


class Root:
    """The only object that the idle loop thread refers to, so that an unused engine can be collected.

    The waking thread passes it the lane. Running sources, merge ops, stage hooks and background tasks keep the lane
    alive, though.
    """

    def __init__(self, lane: LoopLane) -> None:
        self.lane: LoopLane | None = lane
        self.found = weakref.ref(lane)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.make_runner = asyncio.Runner  # looked up here, not on the thread, because this imports asyncio

    def run(self, thread: EngineThread) -> None:
        """Body of the thread."""
        try:
            with self.make_runner() as runner:
                runner.run(self._live())
        except BaseException as exc:  # noqa: BLE001 - it would be lost otherwise
            self.report(exc)
        finally:
            lane = self.found()
            if lane is not None:
                lane.loop_ended()

    def report(self, exc: BaseException) -> None:
        lane = self.found()
        if lane is not None:  # otherwise there is no reader
            with lane.engine.lock:
                lane.engine.broken(exc)

    async def _live(self) -> None:
        lane, self.lane = self.lane, None
        assert lane is not None
        over = await lane.begin(self)
        lane = None
        lane = await over
        await lane.finish(self)

    def on_wake_fd(self, wake_fd: int) -> None:
        if sys.platform == "linux":
            os.eventfd_read(wake_fd)
        lane, self.lane = self.lane, None
        if lane is not None:
            lane.on_kick()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self.report(exc)
