"""The tasks of the loop: those that run async calls, and those that hold stage hooks.

A *slot* is a task that works like a thread of the pool, so a call needs no task of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._reports import shown
from spdl.pipeline._engine._failures import as_stage_failure

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core, Node
    from spdl.pipeline._engine._lane import CallLane
    from spdl.pipeline._engine._stages._call import CallStage
    from spdl.pipeline._engine._ticket import CallSource, Ticket
    from spdl.pipeline._info import StageInfo

#: A slot yields to the loop after this many calls: an op that never waits would starve the other tasks.
_CALLS_PER_TURN = 32


class Slot:
    """One task that runs async calls, one after the other."""

    __slots__ = ("idle", "task", "ticket")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.ticket: Ticket | None = None
        self.idle: asyncio.Future[Slots] | None = None


async def _serve(slot: Slot, slots: Slots) -> None:
    """Body of a slot's task. Holds no references while idle."""
    found = weakref.ref(slots)
    while await slots.work(slot):
        idle, slot.idle = slot.idle, None
        assert idle is not None
        del slots
        try:
            slots = await idle
        except asyncio.CancelledError:  # by an op: the engine cancels calls, not slots
            revived = found()
            if revived is None:
                return
            slots = revived
            slots.revive(slot)
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


class Slots:
    """All slots of a loop. Used on the loop's thread only, except that the engine's lock guards ``num_waking``,
    ``idle`` and the slots' tickets.
    """

    def __init__(self, engine: Core, lane: CallLane) -> None:
        self.engine = engine
        self.lane = lane
        self.stages: list[CallStage] = []  # downstream first
        self.all: list[Slot] = []
        self.max_slots = 0
        self.num_waking = 0  # woken or started, and has not acquired the lock yet
        self.idle: list[tuple[Slot, asyncio.Future[Slots]]] = []
        self.spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]] | None = None  # set when the loop runs

    def begin(self, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]]) -> None:
        """Called once, on the loop. ``spawn`` makes a task of a coroutine."""
        self.max_slots = sum(stage.limit for stage in self.stages)
        self.spawn = spawn

    def running(self) -> list[tuple[Ticket, asyncio.Task[None]]]:
        """Return the calls that have not returned, with their tasks. From any thread."""
        found = []
        for slot in list(self.all):
            ticket, task = slot.ticket, slot.task
            if ticket is not None and task is not None:
                found.append((ticket, task))
        return found

    def cancel_calls(self, source: CallSource) -> list[Slot]:
        """Under the lock, from any thread: mark the running calls of ``source``, and return their slots."""
        found = []
        for slot in self.all:
            ticket = slot.ticket
            if ticket is not None and ticket.stage is source:
                ticket.cancelled = True
                found.append(slot)
        return found

    def wake_all(self) -> None:
        """Under the lock."""
        while self.idle:
            self.wake()

    def claim(self, now: float) -> Ticket | None:
        for stage in self.stages:
            if stage.ready():
                return stage.take(now)
        return None

    def pass_on(self) -> None:
        """Under the lock, on the loop: ensure that a slot is awake if there is something to claim."""
        if self.num_waking:
            return
        for stage in self.stages:
            if stage.ready():
                break
        else:
            return
        if self.idle:
            self.wake()
        elif len(self.all) < self.max_slots and not self.lane.stopping:
            slot = Slot()
            self.all.append(slot)
            assert self.spawn is not None
            slot.task = self.spawn(_serve(slot, self))
            self.num_waking += 1

    def wake(self) -> None:
        _, idle = self.idle.pop()
        if not idle.done():  # otherwise it was cancelled and is about to be revived
            idle.set_result(self)
        self.num_waking += 1

    def revive(self, slot: Slot) -> None:
        """Handle the cancellation of an idle slot as a wake-up."""
        with self.engine.lock:
            idle = [(each, future) for each, future in self.idle if each is not slot]
            if len(idle) < len(self.idle):
                self.idle = idle
                self.num_waking += 1

    async def work(self, slot: Slot) -> bool:
        """Complete one ticket and claim the next under a single acquisition of the lock.

        Returns True if there was nothing more to claim and the slot is idle.
        """
        lane, engine, lock = self.lane, self.engine, self.engine.lock
        ticket: Ticket | None = None
        was_waking = True
        num_calls = 0
        now = perf_counter()
        while True:
            with lock:
                lane.is_claiming = True
                try:
                    if was_waking:
                        self.num_waking -= 1
                        was_waking = False
                    if ticket is not None:
                        slot.ticket = None
                        if not ticket.stage.hand_on(ticket, now, 0):
                            ticket.stage.finish(ticket, now)
                            ticket = None
                    if ticket is None:
                        ticket = self.claim(now)
                    slot.ticket = ticket
                    if ticket is not None:
                        if self.max_slots > 1:
                            self.pass_on()
                    elif lane.stopping:
                        return False
                    else:
                        slot.idle = asyncio.get_running_loop().create_future()
                        self.idle.append((slot, slot.idle))
                finally:
                    lane.is_claiming = False
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
            if slot.task.cancelling():  # the engine cancels calls, not slots; but an op may cancel its task
                await _forget_cancellation()
            now = perf_counter()


class StageHooks:
    """The stage hooks of all nodes. The engine's lock guards what other threads use."""

    def __init__(self, engine: Core) -> None:
        self.engine = engine
        self.of_nodes: list[tuple[Node, list[Callable[[], Any]]]] = []
        self._left: set[int] = set()  # nodes whose hooks must exit
        self._leave: dict[int, asyncio.Future[None]] = {}  # futures that the hook tasks wait for until then
        # on the loop's thread only
        self._holders: list[tuple[Node, asyncio.Task[Any]]] = []
        self._num_entering = 0

    def leave(self, owner: object) -> asyncio.Future[None] | None:
        """Under the lock: exit the hooks of a node. Returns the future to resolve on the loop, if they are entered."""
        self._left.add(id(owner))
        return self._leave.get(id(owner))

    def to_leave(self) -> list[Node]:
        """Under the lock: the ended nodes whose hooks have not exited."""
        return [node for node, _ in self.of_nodes if node.ended and node.num_hooks]

    def running(self) -> list[tuple[StageInfo, asyncio.Task[Any]]]:
        """Return the stages whose hooks have not exited, with their tasks. From any thread."""
        return [(node.info, task) for node, task in self._holders if not task.done()]

    # -- on the loop

    async def enter_all(self, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]]) -> None:
        """Start the tasks that hold the hooks, and wait until all hooks are entered."""
        self._num_entering = len(self.of_nodes)
        self._entered = asyncio.Event()
        self._holders = [(node, spawn(self.hold(node, hooks))) for node, hooks in self.of_nodes]
        if self._holders:
            await self._entered.wait()

    async def hold(self, node: Node, hooks: list[Callable[[], Any]]) -> None:
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
                self._note_entered()
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
                self._note_entered()
            with engine.lock:
                node.num_hooks = 0
                if node.ended:
                    node.close_outputs(perf_counter())

    def _note_entered(self) -> None:
        self._num_entering -= 1
        if self._num_entering == 0:
            self._entered.set()
