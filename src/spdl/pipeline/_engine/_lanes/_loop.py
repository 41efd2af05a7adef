"""The event loop: async ops, async sources, custom merge ops, stage and task hooks, background tasks.

One thread runs one loop, started only if needed. Async ops run in *slots*: tasks that work like the threads of the pool
(complete one ticket, claim the most downstream next). So a call needs no task of its own, and an item may pass through
several async stages in one iteration of the loop. Requests from other threads are queued under the engine's lock and
passed to the loop in one wake-up (``_kick``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl._reports import log, shown
from spdl.pipeline._engine._failures import as_stage_failure
from spdl.pipeline._engine._joining import RunningCall, Stuck, running_on, stack_of, stuck_in
from spdl.pipeline._engine._lane import AsyncLane, Rank
from spdl.pipeline._engine._stages._call import CallStage
from spdl.pipeline._engine._thread import EngineThread, Task
from spdl.pipeline._engine._ticket import CallSource, Ticket

from ._async_source import iterate_async_source
from ._merge_op import run_merge_op

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._joining import Joining
    from spdl.pipeline._engine._node import Node
    from spdl.pipeline._engine._stages import CustomMergeStage, SourceNode
    from spdl.pipeline._info import StageInfo

__all__ = ["LoopLane"]

_LOG = logging.getLogger("spdl.pipeline")

#: A slot yields to the loop after this many calls: an op that never waits would starve the other tasks.
_CALLS_PER_TURN = 32

#: How long a join waits for stage hooks after it abandoned a call of their stage, in seconds.
_HOOKS_TIMEOUT = 1.0


class _Slot:
    """One task that runs async calls, one after the other."""

    __slots__ = ("idle", "task", "ticket")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.ticket: Ticket | None = None
        self.idle: asyncio.Future[LoopLane] | None = None


class _Root:
    """The only object that the idle loop thread refers to, so that an unused engine can be collected.

    The waking thread passes it the lane. Running sources, merge ops, stage hooks and background tasks keep the lane
    alive, though.
    """

    def __init__(self, lane: LoopLane) -> None:
        self.lane: LoopLane | None = lane
        self.found = weakref.ref(lane)
        self.tasks: set[asyncio.Task[Any]] = set()

    def run(self, thread: EngineThread) -> None:
        """Body of the thread."""
        try:
            with asyncio.Runner() as runner:
                runner.run(self._live())
        except BaseException as exc:  # noqa: BLE001 - it would be lost otherwise
            self.report(exc)
        finally:
            lane = self.found()
            if lane is not None:
                lane._stop_kicks()
                lane.hooks_entered.set()
                lane.engine.close_generators()

    def report(self, exc: BaseException) -> None:
        lane = self.found()
        if lane is not None:  # else nobody reads
            with lane.engine.lock:
                lane.engine.broken(exc)

    async def _live(self) -> None:
        lane, self.lane = self.lane, None
        assert lane is not None
        over = await lane._begin(self)
        lane = None
        lane = await over
        await lane._finish(self)

    def on_wake_fd(self, wake_fd: int) -> None:
        if sys.platform == "linux":
            os.eventfd_read(wake_fd)
        lane, self.lane = self.lane, None
        if lane is not None:
            lane._on_kick()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self.report(exc)


async def _serve(slot: _Slot, lane: LoopLane) -> None:
    """Body of a slot's task. Holds no references while idle."""
    found = weakref.ref(lane)
    while await lane._work(slot):
        idle, slot.idle = slot.idle, None
        assert idle is not None
        del lane
        try:
            lane = await idle
        except asyncio.CancelledError:  # by an op: the engine cancels calls, not slots
            revived = found()
            if revived is None:
                return
            lane = revived
            lane._revive(slot)
            await _forget_cancellation()
        del idle


async def _forget_cancellation() -> None:
    """Undo all cancellations of the current task."""
    task = asyncio.current_task()
    assert task is not None
    while task.cancelling():
        task.uncancel()
    with suppress(asyncio.CancelledError):  # a cancellation not yet delivered
        await asyncio.sleep(0)


class LoopLane(AsyncLane):
    """The event loop. The engine's lock guards the fields; slots and tasks are used on the loop's thread only."""

    rank = Rank.LOOP

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.stages: list[CallStage] = []  # downstream first
        self.sources: list[SourceNode] = []
        self.merges: list[tuple[CustomMergeStage, Callable[..., Any], list[Any], Any]] = []  # node, op, queues
        self.hooks: list[tuple[Node, list[Callable[[], Any]]]] = []  # stage hooks, by node
        self.background: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self.thread: EngineThread | None = None
        self.hooks_entered = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stopping = False
        self.is_claiming = False
        self.num_waking = 0
        self._kicked = False
        self._wake_fd: int | None = None  # an eventfd where there are any: two system calls a kick instead of four
        self._to_wake: list[asyncio.Future[None]] = []
        self._to_cancel: list[_Slot] = []
        self._tasks_to_cancel: list[int] = []
        self._root: _Root | None = None
        self._left: set[int] = set()  # nodes whose stage hooks must exit
        self._leave: dict[int, asyncio.Future[None]] = {}  # futures that the hook tasks wait for until then
        # on the loop's thread only
        self._idle: list[tuple[_Slot, asyncio.Future[LoopLane]]] = []
        self._slots: list[_Slot] = []  # each slot's ticket is guarded by the lock
        self._node_tasks: dict[int, asyncio.Task[Any]] = {}  # async sources and merge ops, by id of the node
        self._holders: list[tuple[Node, asyncio.Task[None]]] = []  # tasks that hold the stage hooks of a node
        self._max_slots = 0
        self._over: asyncio.Future[LoopLane] | None = None
        self._background: list[asyncio.Task[None]] = []
        self._num_entering = 0

    # -- before the start

    def add(self, source: CallSource) -> None:
        assert isinstance(source, CallStage)
        self.stages.insert(0, source)

    def run_in_background(self, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.background.append((name, make))

    # -- under the lock, from any thread

    def offer(self, source: CallSource) -> None:
        if not self._kicked and not self.num_waking and not self.is_claiming and source.ready():
            self._kick()

    def cancel_calls(self, source: CallSource) -> None:
        for slot in self._slots:
            ticket = slot.ticket
            if ticket is not None and ticket.stage is source:
                ticket.cancelled = True
                self._to_cancel.append(slot)
        self._kick()

    def cancel_task(self, owner: object) -> None:
        self._tasks_to_cancel.append(id(owner))
        self._kick()

    def notify(self, future: asyncio.Future[None]) -> None:
        self._to_wake.append(future)
        self._kick()

    def leave_hooks(self, owner: object) -> None:
        self._left.add(id(owner))
        leave = self._leave.get(id(owner))
        if leave is not None:
            self.notify(leave)

    def stop(self) -> None:
        """End the loop when the hooks have exited."""
        self.stopping = True
        self._kick()

    def _running_calls(self) -> list[tuple[Ticket, str]]:
        """Return the calls that have not returned, with their stacks, for the report about stuck calls."""
        found = []
        for slot in list(self._slots):
            ticket, task = slot.ticket, slot.task
            if ticket is not None and task is not None:
                found.append((ticket, self._stack_of(task)))
        return found

    def _running_hooks(self) -> list[tuple[StageInfo, str]]:
        """Return the stages whose hooks have not exited, with their stacks."""
        return [(node.info, self._stack_of(task)) for node, task in self._holders if not task.done()]

    def _stack_of(self, task: asyncio.Task[None]) -> str:
        """Return the stack of a waiting task; for the current task, which blocks the loop, the stack of the thread."""
        loop, thread = self.loop, self.thread
        if loop is not None and thread is not None and asyncio.current_task(loop) is task:
            frame = sys._current_frames().get(thread.ident or -1)
            return "".join(traceback.format_stack(frame)) if frame is not None else ""
        return "".join(line for frame in task.get_stack() for line in traceback.format_stack(frame, limit=1))

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
                self.loop.call_soon_threadsafe(self._on_kick)

    # -- the thread

    def start(self) -> None:
        """``hooks_entered`` is set when all stage hooks have been entered."""
        self._root = _Root(self)
        self.thread = EngineThread(f"spdl-{self.engine.pipeline_id}-loop", Task(None, self._root.run))
        self.thread.start()

    def wait_started(self, timeout: float | None) -> bool:
        return self.hooks_entered.wait(timeout)

    def join(self, joining: Joining) -> None:
        if joining.stuck:
            # A call that does not return would keep the stage hooks, and so the loop, open forever.
            with self.engine.lock:
                for node, _ in self.hooks:
                    if node.ended and node.num_hooks:
                        self.leave_hooks(node)
            joining.extend(_HOOKS_TIMEOUT)
        if joining.has_ended(self.thread):
            return
        assert self.thread is not None
        stuck = [stuck_in(ticket, stack) for ticket, stack in self._running_calls()]
        stuck += [Stuck(f"{info} (its stage hook)", "(none)", stack) for info, stack in self._running_hooks()]
        joining.stuck += stuck or [Stuck(self.thread.name, "(none)", stack_of(self.thread.ident))]

    def running(self) -> list[RunningCall]:
        return [call for ticket, _ in self._running_calls() for call in running_on(ticket)]

    def forget(self) -> None:
        self.hooks.clear()
        self.background.clear()
        self.merges.clear()

    async def _begin(self, root: _Root) -> asyncio.Future[LoopLane]:
        """Start the tasks of the loop. Returns a future that gets this lane when all of them may end."""
        engine = self.engine
        loop = asyncio.get_running_loop()
        self._max_slots = sum(stage.limit for stage in self.stages)
        self._over = over = loop.create_future()
        self._num_entering = len(self.hooks)
        self._entered = asyncio.Event()
        with engine.lock:
            self.loop = loop
            if sys.platform == "linux":
                self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                loop.add_reader(self._wake_fd, root.on_wake_fd, self._wake_fd)
        self._background = [root.spawn(self._in_background(name, make)) for name, make in self.background]
        for task, (name, _) in zip(self._background, self.background, strict=True):
            task.set_name(name)
        self._holders = [(node, root.spawn(self._hold_hooks(node, hooks))) for node, hooks in self.hooks]
        if self._holders:
            await self._entered.wait()  # no item may reach a stage before its hooks are entered
        self.hooks_entered.set()
        for source in self.sources:
            self._node_tasks[id(source)] = root.spawn(iterate_async_source(self, source))
        for node, op, inputs, output in self.merges:
            self._node_tasks[id(node)] = root.spawn(run_merge_op(node, op, inputs, output))
        with engine.lock:
            self._kick()
        return over

    async def _finish(self, root: _Root) -> None:
        """Signal the end and wait for the tasks of the loop."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*root.tasks, return_exceptions=True)
        self._stop_kicks()

    def _stop_kicks(self) -> None:
        """Reject further scheduling. On the loop's thread."""
        with self.engine.lock:
            loop, self.loop = self.loop, None
            wake_fd, self._wake_fd = self._wake_fd, None
        if wake_fd is not None:
            if loop is not None and not loop.is_closed():
                loop.remove_reader(wake_fd)
            os.close(wake_fd)

    def _on_kick(self) -> None:
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
            self._pass_on()
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
                while self._idle:
                    self._wake_slot()

    # -- slots

    def _claim(self, now: float) -> Ticket | None:
        for stage in self.stages:
            if stage.ready():
                return stage.take(now)
        return None

    def _pass_on(self) -> None:
        """Under the lock, on the loop: ensure that a slot is awake if there is something to claim."""
        if self.num_waking:
            return
        for stage in self.stages:
            if stage.ready():
                break
        else:
            return
        if self._idle:
            self._wake_slot()
        elif len(self._slots) < self._max_slots and not self.stopping:
            slot = _Slot()
            self._slots.append(slot)
            assert self._root is not None
            slot.task = self._root.spawn(_serve(slot, self))
            self.num_waking += 1

    def _wake_slot(self) -> None:
        _, idle = self._idle.pop()
        if not idle.done():  # otherwise it was cancelled and is about to be revived
            idle.set_result(self)
        self.num_waking += 1

    def _revive(self, slot: _Slot) -> None:
        """Handle the cancellation of an idle slot as a wake-up."""
        with self.engine.lock:
            idle = [(each, future) for each, future in self._idle if each is not slot]
            if len(idle) < len(self._idle):
                self._idle = idle
                self.num_waking += 1

    async def _work(self, slot: _Slot) -> bool:
        """Complete one ticket and claim the next under a single acquisition of the lock.

        Returns True if there was nothing more to claim and the slot is idle.
        """
        engine, lock = self.engine, self.engine.lock
        ticket: Ticket | None = None
        was_waking = True
        num_calls = 0
        now = perf_counter()
        while True:
            with lock:
                self.is_claiming = True
                try:
                    if was_waking:
                        self.num_waking -= 1
                        was_waking = False
                    if ticket is not None:
                        slot.ticket = None
                        ticket = ticket.stage.finish_and_take(ticket, now, 0)
                    if ticket is None:
                        ticket = self._claim(now)
                    slot.ticket = ticket
                    if ticket is not None:
                        if self._max_slots > 1:
                            self._pass_on()
                    elif self.stopping:
                        return False
                    else:
                        slot.idle = asyncio.get_running_loop().create_future()
                        self._idle.append((slot, slot.idle))
                finally:
                    self.is_claiming = False
            if engine.to_close:
                engine.close_generators()
            if ticket is None:
                return True
            stage: Any = ticket.stage
            try:
                await stage.run_async(ticket)
            except asyncio.CancelledError as exc:
                if not (ticket.cancelled or stage.cancelled):
                    stage.settle_error(
                        ticket, RuntimeError(f"a call of stage {stage.info} was cancelled: {shown(exc)}")
                    )
            num_calls += 1
            assert slot.task is not None
            if num_calls % _CALLS_PER_TURN == 0:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
            if slot.task.cancelling():  # the engine cancels calls, not slots; and an op may cancel what it runs in
                await _forget_cancellation()
            now = perf_counter()

    # -- hooks and background tasks

    async def _hold_hooks(self, node: Node, hooks: list[Callable[[], Any]]) -> None:
        """Enter the stage hooks of a node, wait for its end, exit them.

        Never cancelled: the exit of a hook always runs.
        """
        engine = self.engine
        entered = False
        try:
            async with AsyncExitStack() as stack:
                for hook in hooks:
                    await stack.enter_async_context(hook())
                entered = True
                self._hook_entered()
                with engine.lock:
                    leave = None
                    if id(node) not in self._left:
                        leave = self._leave[id(node)] = asyncio.get_running_loop().create_future()
                if leave is not None:
                    await leave
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code
            what = f"a stage hook of {node.info}, on {'exit' if entered else 'entry'}"
            error = as_stage_failure(exc, what)
            with engine.lock:
                engine.fail(node, error, perf_counter())
        finally:
            if not entered:
                self._hook_entered()
            with engine.lock:
                node.num_hooks = 0
                if node.ended:
                    node.close_outputs(perf_counter())

    def _hook_entered(self) -> None:
        self._num_entering -= 1
        if self._num_entering == 0:
            self._entered.set()

    async def _in_background(self, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await make()
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - a background task's error is logged only
            text = "background task %s of pipeline %d failed"
            log(_LOG, logging.ERROR, text, name, self.engine.pipeline_id, exc_info=exc)
