"""Calls with any number of outputs: generators, sync and async, and disaggregation.

The call of a sync generator is resumable. After each step it is in one of three states: *running* on a lane, *parked*
with outputs that wait for room, or *resumable*, waiting for a thread. It keeps its slot in all of them. One task drives
an async generator from its first step to its close. In input order, only the oldest call may emit; the others run until
they have an output and then wait.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl._reports import log, shown
from spdl.pipeline._engine._channel import MARK
from spdl.pipeline._engine._remote_calls import Collected
from spdl.pipeline._engine._ticket import Ticket

from ._call import CallStage
from ._outcomes import begin

if TYPE_CHECKING:
    from spdl.pipeline._engine._lane import AsyncLane


class _ManyOutputs(CallStage):
    """Base class of stages whose calls have any number of outputs: each step counts as a call."""

    __slots__ = ("num_ends", "ordered")

    def __init__(self, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ordered = ordered
        self.num_ends = 0  # of calls: their last steps have no output

    def release_failed(self, ticket: Ticket) -> None:
        """Do nothing: the end of the call's branch releases the item."""

    @property
    def num_counted_calls(self) -> int:
        return self.counters.num_calls + self.num_ends


class GeneratorStage(_ManyOutputs):
    """Emits every yielded value as it is produced, while there is room."""

    __slots__ = ("calls", "parked", "pumping", "resumable")

    has_steps = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: deque[Ticket] = deque()  # all live generators, in input order
        self.parked: deque[Ticket] = deque()
        self.resumable: deque[Ticket] = deque()
        self.pumping = False

    # -- what the lanes use

    def ready(self) -> bool:
        if self.resumable:
            return True
        items = self.inbox.items
        return bool(items) and items[0] is not MARK and len(self.calls) < self.limit

    def take(self, now: float) -> Ticket:
        if self.resumable:
            ticket = self.resumable.popleft()
            ticket.started = now
            self.running += 1
            return ticket
        ticket = super().take(now)
        ticket.branch = self.engine.ledger.branch(ticket.origin)
        ticket.outputs = deque()
        self.calls.append(ticket)
        return ticket

    def step(self, ticket: Ticket) -> None:
        """Run one step of the generator; the first step creates it. Not under the lock."""
        generator = ticket.generator
        if generator is None:
            generator = ticket.generator = self.op(ticket.value)
        try:
            ticket.result = next(generator)
        except StopIteration:
            ticket.exhausted = True

    def run(self, ticket: Ticket) -> None:
        try:
            self.step(ticket)
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code
            ticket.exhausted = True
            self.settle_error(ticket, exc)

    def settle_outputs(self, ticket: Ticket, outputs: Collected) -> None:
        ticket.exhausted = True
        ticket.result = outputs
        if outputs.error is not None:
            self.settle_error(ticket, outputs.error)

    def finish(self, ticket: Ticket, now: float) -> None:
        self.running -= 1
        if self.cancelled:
            self.engine.close_later(ticket.generator)
            self.discard()
            return
        result, ticket.result = ticket.result, None
        if isinstance(result, Collected):
            self.add_collected(ticket, result.values, now - ticket.started)
        if ticket.exhausted and ticket.error is None and ticket.fatal is None:
            self.num_ends += 1
            self.counters.other_time += now - ticket.started
        elif self.account(ticket, now):
            self.add_output(ticket, result if ticket.error is None else ticket.result)
            ticket.result = None
        if self.ended:  # the call's error failed the stage
            return
        if ticket.outputs:
            self.parked.append(ticket)
        else:
            self.proceed(ticket)
        if self.parked:
            self.pump(now)  # in input order, the end of the oldest call lets the next one emit
        self.after_call(now)

    # -- outputs

    def add_collected(self, ticket: Ticket, values: list[Any], wall: float) -> None:
        """Take the outputs of a generator that ran elsewhere. Each is a call, with an equal share of the time."""
        for value in values:
            self.count_success(wall / len(values), was_sampled=False)
            self.add_output(ticket, value)
        if values:
            ticket.started += wall  # all time is attributed; the last step, end or error, gets none

    def add_output(self, ticket: Ticket, value: Any) -> None:
        if value is None:
            self.counters.num_dropped += 1
        else:
            assert ticket.branch is not None
            assert ticket.outputs is not None
            if ticket.branch.done and ticket.branch.skip_if_done():
                return
            ticket.outputs.append((value, ticket.branch.output()))

    def pump(self, now: float) -> None:
        """Move waiting outputs while there is room. Guarded against re-entry: putting may make room at once."""
        if self.pumping:
            return
        self.pumping = True
        out = self.out
        while self.parked and len(out.items) < out.capacity:
            ticket = self.calls[0] if self.ordered else self.parked[0]
            if not ticket.outputs:
                break  # the oldest call has no output yet; the others wait for it
            entry = ticket.outputs.popleft()
            if not ticket.outputs:
                self.parked.remove(ticket)
                self.proceed(ticket)
            self.counters.num_emitted += 1
            out.put(entry, now)
            if self.ended:
                break
        self.pumping = False
        if self.parked:
            self.counters.begin_blocked(now)
        else:
            self.counters.end_blocked(now)

    def proceed(self, ticket: Ticket) -> None:
        """Handle a call without outputs left to place: it ends, or waits for a thread."""
        if not ticket.exhausted:
            self.resumable.append(ticket)
            self.lane.offer(self)
            return
        self.calls.remove(ticket)
        assert ticket.branch is not None
        self.engine.ledger.end_branch(ticket.branch)

    # -- notifications from neighbours

    def on_room(self) -> None:
        if self.parked:
            now = self.engine.clock()
            self.pump(now)
            if self.inbox.num_marks or self.inbox.closed:
                self.engine.advance(self, now)
        super().on_room()

    @property
    def num_in_flight(self) -> int:
        return len(self.calls)

    def num_free(self) -> int:
        return max(0, self.limit - len(self.calls))

    def is_idle(self) -> bool:
        return not self.calls and self.running == 0  # a ticket being taken is counted before it is in ``calls``

    def drop_work(self) -> None:
        super().drop_work()
        for ticket in self.calls:
            ticket.cancelled = True
        for ticket in (*self.parked, *self.resumable):
            self.engine.close_later(ticket.generator)
        self.calls.clear()
        self.parked.clear()
        self.resumable.clear()


class AsyncGeneratorStage(_ManyOutputs):
    """Emits every value of an async generator as it is produced. It waits for room, and keeps its slot meanwhile."""

    __slots__ = ("num_parked", "queue", "room_waiters")

    lane: AsyncLane

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.queue: deque[Ticket] = deque()  # calls that have not ended, in input order; only if ``ordered``
        self.num_parked = 0
        self.room_waiters: dict[Ticket, asyncio.Future[None]] = {}  # the calls whose output waits, oldest first

    def take(self, now: float) -> Ticket:
        ticket = super().take(now)
        ticket.branch = self.engine.ledger.branch(ticket.origin)
        if self.ordered:
            self.queue.append(ticket)
        return ticket

    def may_place(self, ticket: Ticket) -> bool:
        """Whether there is room and, in input order, the call is the oldest."""
        return len(self.out.items) < self.out.capacity and (not self.ordered or self.queue[0] is ticket)

    async def run_async(self, ticket: Ticket) -> None:
        """Run the generator to its end. ``finish`` handles the last step or the error."""
        engine = self.engine
        generator = None
        try:
            generator = begin(self.op, ticket.value)
            while True:
                value = await anext(generator)
                now = engine.clock()
                with engine.lock:
                    if self.cancelled:
                        return
                    self.account(ticket, now)
                    if value is None:
                        self.counters.num_dropped += 1
                    elif ticket.branch is not None and ticket.branch.done and ticket.branch.skip_if_done():
                        value = None
                    if self.budget is not None and self.check_budget(now):
                        return
                if value is not None:
                    await self.place(ticket, value)
                    value = None
                ticket.started = engine.clock()
        except StopAsyncIteration:
            ticket.exhausted = True
        except asyncio.CancelledError as exc:
            if ticket.cancelled or self.cancelled:
                raise
            self.settle_error(
                ticket, RuntimeError(f"generator of stage {self.info} was cancelled from inside: {shown(exc)}")
            )
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code
            self.settle_error(ticket, exc)
        finally:
            if generator is not None and not ticket.exhausted:
                ticket.closing = True
                await self.close(generator)
                ticket.closing = False
        if ticket.substitute is not None:
            with engine.lock:
                if self.cancelled:
                    return
                self.account(ticket, engine.clock())
                if self.budget is not None and self.check_budget(engine.clock()):
                    return
            await self.place(ticket, ticket.substitute)

    async def close(self, generator: Any) -> None:
        try:
            if (aclose := getattr(generator, "aclose", None)) is not None:
                await aclose()
        except asyncio.CancelledError:
            raise
        except BaseException as exc:  # noqa: BLE001 - an error while closing; its item is already accounted for
            text = "closing an async generator of stage %s failed"
            log(self.engine.log, logging.ERROR, text, self.info, exc_info=exc)

    async def place(self, ticket: Ticket, value: Any) -> None:
        """Put one output when there is room."""
        engine, out = self.engine, self.out
        while True:
            with engine.lock:
                if self.cancelled:
                    return
                now = engine.clock()
                if self.may_place(ticket):
                    assert ticket.branch is not None
                    self.counters.num_emitted += 1
                    out.put((value, ticket.branch.output()), now)
                    self.wake_next()
                    return
                self.counters.begin_blocked(now)
                self.num_parked += 1
                room = asyncio.get_running_loop().create_future()
                self.room_waiters[ticket] = room
            try:
                await room
            finally:
                with engine.lock:
                    self.num_parked -= 1
                    if not self.num_parked:
                        self.counters.end_blocked(engine.clock())
                    if self.room_waiters.get(ticket) is room:  # cancelled while it waited
                        del self.room_waiters[ticket]

    def finish(self, ticket: Ticket, now: float) -> None:
        self.running -= 1
        if self.ordered:
            self.queue.remove(ticket)  # usually the first
        if self.cancelled:
            self.discard()
            return
        if ticket.error is not None or ticket.fatal is not None:
            if ticket.substitute is None:  # otherwise it was counted before its substitute was emitted
                self.account(ticket, now)
        else:
            self.num_ends += 1
            self.counters.other_time += now - ticket.started
        if not self.cancelled:
            assert ticket.branch is not None
            self.engine.ledger.end_branch(ticket.branch)
        if self.ordered:
            self.wake_next()
        self.after_call(now)

    def wake_next(self) -> None:
        """Wake one waiting call; after placing its output, it wakes the next if there is still room."""
        if not self.room_waiters or len(self.out.items) >= self.out.capacity:
            return
        ticket = self.queue[0] if self.ordered else next(iter(self.room_waiters))
        room = self.room_waiters.pop(ticket, None)
        if room is not None:
            self.lane.notify(room)

    def on_room(self) -> None:
        self.wake_next()
        super().on_room()

    def drop_work(self) -> None:
        super().drop_work()
        for room in self.room_waiters.values():
            self.lane.notify(room)
        self.room_waiters.clear()
