"""The tasks that run async calls: each works like a thread of the pool, so a call needs no task of its own."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._reports import shown

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._lane import CallLane
    from spdl.pipeline._engine._stages._call import CallStage
    from spdl.pipeline._engine._ticket import CallSource, Ticket

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
