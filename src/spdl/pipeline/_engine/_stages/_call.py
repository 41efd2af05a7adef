"""Calls of a function: one input, at most one output, emitted in order of completion or of the inputs."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, ClassVar

import spdl.pipeline._asyncio as asyncio
from spdl._reports import shown
from spdl.pipeline._engine._channel import MARK, Channel, Entry
from spdl.pipeline._engine._core import Core, swap_methods
from spdl.pipeline._engine._counters import SHORT_WAIT
from spdl.pipeline._engine._ticket import Ticket

from ._outcomes import FallibleNode, Settled, begin

if TYPE_CHECKING:
    from spdl._errors import StageTimeoutError
    from spdl.pipeline._engine._deadlines import Deadlines
    from spdl.pipeline._engine._lane import CallLane
    from spdl.pipeline._engine._origin import Origin
    from spdl.pipeline._info import StageInfo

#: A call this short is cheaper to run on the current thread than to pass to another: waking a thread costs about 25 us
#: on the machines measured. See ``_engine/README.md``, "The source thread helps".
_CHEAP_CALL = 20e-6
_CHEAP_SCORE_MAX = 64
CHEAP_SCORE = 32

#: Reading a thread's CPU clock is a system call (0.6 us where measured). Short calls are sampled, long calls are
#: always measured.
_LONG_CALL = 200e-6
_CPU_SAMPLE_EVERY = 32


def _forgotten(item: Any) -> Any:
    raise AssertionError("a call of a stage that has ended")


class CallStage(FallibleNode):
    """Runs ``op`` on each item, with at most ``limit`` calls in flight."""

    __slots__ = (
        "cheap_score",
        "cpu_countdown",
        "deadlines",
        "in_items",
        "joins_inputs",
        "lane",
        "limit",
        "next_call",
        "op",
        "out_items",
        "running",
        "timeout",
    )

    #: Whether a call runs in steps, each with an output: the op is a generator.
    has_steps: ClassVar[bool] = False

    def __init__(
        self, engine: Core, info: StageInfo, op: Callable[[Any], Any], *, limit: int, lane: CallLane, location: str
    ) -> None:
        super().__init__(engine, info, location)
        self.op = op
        self.limit = limit
        self.lane = lane
        self.next_call: CallStage | None = None  # the next stage, if results may be passed to it directly
        self.joins_inputs = False  # a call without an output leaves its input to another call: it drops nothing
        self.running = 0
        self.cheap_score = 0
        self.cpu_countdown = 0
        self.timeout: float | None = None  # of a call on a thread, in seconds
        self.deadlines: Deadlines | None = None  # not ``None`` if there is a timeout

    def set_timeout(self, seconds: float, deadlines: Deadlines) -> None:
        """Give up calls on threads that take longer (see ``_deadlines``). Called once by the graph."""
        self.timeout, self.deadlines = seconds, deadlines
        self.cheap_score = -sys.maxsize  # a source's thread must not run calls that may be abandoned
        swap_methods(self, ("run", _watched))

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        super().connect(inboxes, outs)
        self.in_items: deque[Entry] = self.inbox.items  # the deques themselves, for speed: used in every call
        self.out_items: deque[Entry] = self.out.items

    @property
    def num_workers(self) -> int:
        return self.lane.num_workers

    # -- what the lanes use

    def ready(self) -> bool:
        items = self.in_items
        if not items or items[0] is MARK:
            return False
        waiting = len(self.out_items) - self.out.capacity  # results that wait for room keep the slot of their call
        return self.running + waiting < self.limit if waiting > 0 else self.running < self.limit

    def take(self, now: float) -> Ticket:
        """Claim the oldest input. Only if ``ready()``. ``Channel.take`` is inlined here: this is the hot path."""
        inbox, items = self.inbox, self.in_items
        value, origin = items.popleft()
        inbox.num_get += 1
        self.running += 1
        if not items:
            inbox.occupied += now - inbox.occupied_since
            if self.running < self.limit and self.counters.starved_since is None:
                self.counters.starved_since = now
        if len(items) + 1 >= inbox.capacity:
            inbox.made_room(now)
        return self.new_ticket(value, origin, now)

    def accept(self, value: Any, next_origin: Callable[[], Origin], now: float) -> Ticket | None:
        """Claim a call for an item passed directly from its source. ``None``: no slot is free, or other input waits."""
        free = self.limit - self.running
        if free <= 0 or self.in_items or len(self.out_items) - self.out.capacity >= free:
            return None
        self.inbox.num_get += 1
        self.running += 1
        if free == 1:
            self.counters.end_starved(now)
        return self.new_ticket(value, next_origin(), now)

    def new_ticket(self, value: Any, origin: Origin, now: float) -> Ticket:
        ticket = Ticket()
        ticket.stage = self
        ticket.value = value
        ticket.origin = origin
        ticket.started = now
        if self.cpu_countdown > 0:
            self.cpu_countdown -= 1
        else:
            ticket.sample_cpu = True
        return ticket

    def run(self, ticket: Ticket) -> None:
        """Call the op. Never under the lock; never raises."""
        try:
            if ticket.sample_cpu:
                num_begun = self.running, self.inbox.num_get
                began_wall, began_cpu = perf_counter(), thread_time()
                ticket.result = self.op(ticket.value)
                self.note_cpu(thread_time() - began_cpu, perf_counter() - began_wall, *num_begun)
            else:
                ticket.result = self.op(ticket.value)
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code; see settle_error
            self.settle_error(ticket, exc)

    async def run_async(self, ticket: Ticket) -> None:
        """Await the op. Runs on the loop, never under the lock. Raises only the cancellation of an unfinished call."""
        try:
            ticket.result = await begin(self.op, ticket.value)
        except asyncio.CancelledError as exc:
            if ticket.cancelled or self.cancelled:
                raise
            self.settle_error(ticket, RuntimeError(f"op of stage {self.info} was cancelled from inside: {shown(exc)}"))
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code; see settle_error
            self.settle_error(ticket, exc)

    def step(self, ticket: Ticket) -> None:
        """Run one step of a call. Not under the lock. Only if ``has_steps``."""
        raise NotImplementedError

    def note_cpu(self, cpu: float, wall: float, num_running: int, num_begun: int) -> None:
        """Add the cost of a call. The numbers of running calls and of calls so far are those at its begin."""
        # Not synchronized: a sample lost to a race barely changes the mean, and a lock here would cost more.
        counters = self.counters
        counters.sampled_cpu += cpu
        counters.sampled_wall += wall
        if num_running == 1 == self.running and num_begun == self.inbox.num_get:
            counters.num_alone += 1
            counters.cpu_alone += cpu
        elif num_running > 1 and self.running > 1:
            counters.num_beside += 1
            counters.cpu_beside += cpu

    def finish(self, ticket: Ticket, now: float) -> None:
        """Take the outcome of a call and free its slot. ``emit`` is inlined here: this is the hot path."""
        self.running -= 1
        if self.cancelled:
            self.discard()
            return
        counters = self.counters
        if ticket.error is None and ticket.fatal is None:
            self.count_success(now - ticket.started, ticket.sample_cpu)
            value = ticket.result
            if value is None:
                counters.num_dropped += 1
                self.engine.ledger.release(ticket.origin)
            else:
                counters.num_emitted += 1
                out, items = self.out, self.out_items
                if not items:
                    out.occupied_since = now
                items.append((value, ticket.origin))
                if len(items) > out.capacity:
                    counters.begin_blocked(now)
                out.consumer.on_input(now)
        else:
            if self.account(ticket, now):
                self.emit(ticket.result, ticket.origin, now)
            if self.ended:  # the error failed the stage: its times are frozen
                return
        inbox = self.inbox
        if not self.in_items and counters.starved_since is None:
            counters.starved_since = now
        if self.budget is not None or inbox.closed or inbox.num_marks:
            self.after_call(now)

    def hand_on(self, ticket: Ticket, now: float, min_score: int) -> bool:
        """Finish a call by making its ticket that of the next stage's call, if the same thread may run it at once.

        This is allowed if the next stage is a plain call on the same lane with a free slot and an empty inbox: it is
        then the most downstream work. It skips the channel and the search for work. ``min_score`` is the minimum
        cheapness score of the next op; 0 for any. Returns False if nothing was done, and ``finish`` must be called.
        """
        after = self.next_call
        value = ticket.result  # ``None`` if the call failed
        if after is None or value is None or self.out_items or after.cheap_score < min_score:
            return False
        free = after.limit - after.running
        if free <= 0 or len(after.out_items) - after.out.capacity >= free:
            return False
        # ``count_success`` and ``end_starved`` are inlined: this is the hot path.
        counters = self.counters
        wall = now - ticket.started
        counters.num_calls += 1
        counters.num_emitted += 1
        counters.success_time += wall
        counters.recent.append(wall)
        if wall >= _CHEAP_CALL or self.cheap_score < _CHEAP_SCORE_MAX:
            self.rate_call(wall)
        if ticket.sample_cpu:
            ticket.sample_cpu = False
            if wall < _LONG_CALL:
                self.cpu_countdown = _CPU_SAMPLE_EVERY
        self.running -= 1
        after.running += 1
        after.inbox.num_get += 1
        if free == 1 and (since := after.counters.starved_since) is not None:
            its, waited = after.counters, now - since
            its.starved_since = None
            its.starved += waited
            if waited > SHORT_WAIT:
                its.note_starved(waited)
        ticket.stage = after
        ticket.value = value
        ticket.result = None
        ticket.started = now
        if after.cpu_countdown > 0:
            after.cpu_countdown -= 1
        else:
            ticket.sample_cpu = True
        if not self.in_items and counters.starved_since is None:
            counters.starved_since = now
        if self.inbox.closed or self.inbox.num_marks:
            self.after_call(now)
        return True

    def give_up(self, ticket: Ticket, error: StageTimeoutError) -> None:
        """Fail the item of a call that timed out. Not under the lock; runs on the deadlines thread."""
        engine = self.engine
        settled = Settled(None) if self.cancelled else self.settle_failure(ticket, error)
        must_start = False
        with engine.lock:
            try:
                # The thread that runs the call may still write to the ticket, so the fields are overwritten here.
                ticket.result, ticket.exhausted = None, True
                ticket.error, ticket.substitute, ticket.fatal = settled
                generator, ticket.generator = ticket.generator, None  # it is running: no other thread may close it
                self.finish(ticket, engine.clock())
                ticket.generator = generator
                must_start = self.lane.lose_call(ticket)
            except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
                engine.broken(exc)
        if must_start:
            self.lane.start_worker()
        engine.close_generators()

    # -- parts of finish

    def discard(self) -> None:
        """Handle the return of a call of a cancelled stage."""
        if self.num_hooks and self.running == 0:
            self.leave_hooks()

    def account(self, ticket: Ticket, now: float) -> bool:
        """Count the call. Returns True if there may be a result to emit, which is ``ticket.result``."""
        wall = now - ticket.started
        if ticket.error is None and ticket.fatal is None:
            self.count_success(wall, ticket.sample_cpu)
            return True
        self.counters.other_time += wall
        if ticket.fatal is not None:
            self.engine.fail(self, ticket.fatal, now)
            return False
        return self.count_failure(ticket, now)

    def count_success(self, wall: float, was_sampled: bool) -> None:
        counters = self.counters
        counters.num_calls += 1
        counters.success_time += wall
        counters.recent.append(wall)
        if wall >= _CHEAP_CALL or self.cheap_score < _CHEAP_SCORE_MAX:
            self.rate_call(wall)
        if was_sampled and wall < _LONG_CALL:
            self.cpu_countdown = _CPU_SAMPLE_EVERY

    def rate_call(self, wall: float) -> None:
        """Raise the cheapness score for a short call, and lower it for a long one."""
        if wall < _CHEAP_CALL:
            self.cheap_score += 1
        elif self.cheap_score > 0:
            self.cheap_score -= 16  # two long calls in a row stop inline runs; one preempted call does not

    def emit(self, value: Any, origin: Any, now: float) -> None:
        if value is None:
            self.counters.num_dropped += 1
            self.engine.ledger.release(origin)
        else:
            self.counters.num_emitted += 1
            self.out.put((value, origin), now)

    def after_call(self, now: float) -> None:
        """Handle a freed slot: check the failure limit, then marks, the end, or starvation."""
        if self.ended or (self.budget is not None and self.check_budget(now)):
            return
        inbox = self.inbox
        if not inbox.items:
            self.counters.begin_starved(now)
        if inbox.num_marks or inbox.closed:
            self.engine.advance(self, now)

    @property
    def num_dropped(self) -> int:
        return 0 if self.joins_inputs else self.counters.num_dropped

    # -- notifications from neighbours

    def on_input(self, now: float) -> None:
        inbox = self.inbox
        if self.in_items:
            counters = self.counters
            if counters.starved_since is not None:
                counters.end_starved(now)
            self.lane.offer(self)
        if inbox.num_marks or inbox.closed:
            self.engine.advance(self, now)

    def on_room(self) -> None:
        if self.inbox.items:
            self.lane.offer(self)
            if self.inbox.num_marks:
                self.engine.advance(self, self.engine.clock())

    def link(self) -> None:
        after = self.out.consumer
        if type(self) is CallStage and type(after) is CallStage and after.lane is self.lane and self.budget is None:
            self.next_call = after

    def has_running_calls(self) -> bool:
        return self.running > 0

    def forget(self) -> None:
        self.op = _forgotten

    @property
    def num_in_flight(self) -> int:
        return self.running

    def num_free(self) -> int:
        free = self.limit - self.running - self.out.overflow
        return free if free > 0 else 0

    def is_idle(self) -> bool:
        """Whether no call is in flight and no result is waiting."""
        return self.running == 0

    def advance(self, now: float) -> None:
        """Forward marks that are next, and end when the input has ended."""
        inbox = self.inbox
        while not self.ended and self.is_idle():
            if inbox.items:
                if inbox.items[0] is not MARK or self.out.overflow:
                    return
                if self.fails_without_success(now):
                    return
                self.pass_mark(now)
            elif inbox.closed:
                if not self.fails_without_success(now):
                    self.end(now)
            else:
                return

    def pass_mark(self, now: float) -> None:
        """Forward a mark, and offer the items behind it, which were not ready when they arrived."""
        self.inbox.take(now)
        for channel in self.outs:
            channel.put_mark(now)
        if not self.inbox.items:
            self.counters.begin_starved(now)
        self.lane.offer(self)

    def drop_work(self) -> None:
        self.limit = 0
        self.next_call = None
        self.lane.cancel_calls(self)

    def break_off(self) -> None:
        self.limit = 0


def _watched(run: Callable[[Any, Ticket], None]) -> Callable[[Any, Ticket], None]:
    """Swap ``run`` of a stage with a timeout."""

    def run_watched(self: Any, ticket: Ticket) -> None:
        deadlines = self.deadlines
        deadlines.watch(ticket, self.timeout, threading.get_ident())
        run(self, ticket)
        deadlines.unwatch(ticket)

    return run_watched


class OrderedCallStage(CallStage):
    """Emits in input order: finished calls wait for earlier ones and keep their slots."""

    __slots__ = ("queue",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.queue: deque[Ticket] = deque()  # in input order; the reorder buffer

    def ready(self) -> bool:
        items = self.in_items
        if not items or items[0] is MARK:
            return False
        waiting = len(self.out_items) - self.out.capacity
        held = len(self.queue)
        return held + waiting < self.limit if waiting > 0 else held < self.limit

    def take(self, now: float) -> Ticket:
        ticket = super().take(now)
        self.queue.append(ticket)
        return ticket

    def accept(self, value: Any, next_origin: Callable[[], Origin], now: float) -> Ticket | None:
        if not self.num_free():
            return None
        ticket = super().accept(value, next_origin, now)
        if ticket is not None:
            self.queue.append(ticket)
        return ticket

    def finish(self, ticket: Ticket, now: float) -> None:
        self.running -= 1
        if self.cancelled:
            self.discard()
            return
        if self.account(ticket, now):
            ticket.done = True
        elif not self.cancelled:
            self.queue.remove(ticket)
        queue = self.queue
        while queue and queue[0].done:
            first = queue.popleft()
            self.emit(first.result, first.origin, now)
        self.after_call(now)

    def is_idle(self) -> bool:
        return not self.queue and self.running == 0  # a ticket being taken is counted before it is in the queue

    def num_free(self) -> int:
        free = self.limit - len(self.queue) - self.out.overflow
        return free if free > 0 else 0

    def drop_work(self) -> None:
        super().drop_work()
        self.queue.clear()
