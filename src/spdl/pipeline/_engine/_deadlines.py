"""Deadlines of calls on threads, which cannot be interrupted, and of aggregates; and the periodic check for stalls.

One thread waits for the nearest deadline of all running calls. A call that has not returned by then is *given up*: its
item fails, its slot is freed, and its result is discarded. If a call ends just as its deadline passes, the first thread
to remove the ticket from ``_running`` wins: the thread that ran the call (``unwatch``) or this one.

The deadline of an aggregate is on its aggregator's clock. This thread only estimates the moment and then notifies the
stage, which reads the clock (``on_deadline``).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from spdl._errors import StageTimeoutError
from spdl._reports import add_note

from ._ending import Joining, stack_of
from ._lane import Lane, Rank
from ._thread import EngineThread, Task

if TYPE_CHECKING:
    from ._core import Core
    from ._ticket import Ticket


class _Running(NamedTuple):
    deadline: float
    seconds: float
    thread_id: int | None


class FlushTime(NamedTuple):
    """The deadline of an aggregate on this thread's clock; exact only if both clocks run at the same rate."""

    deadline: float
    remaining: float
    when: float
    num_moved: int  # manual moves of the aggregator's clock before it was read


class Flushed(Protocol):
    """A stage with a flush time."""

    def on_deadline(self, deadline: float) -> None:
        """Not under the lock: the time has come, by this thread's clock."""


class Patrol(Protocol):
    """An object that is called at intervals, on the deadlines thread."""

    interval: float

    def start(self) -> None:
        """Called once, before the thread is started."""

    def look(self) -> None:
        """Not under the lock."""

    def stop(self) -> None:
        """Called after the last ``look``. Never blocks."""


class Deadlines(Lane):
    """Watches deadlines. No other lock is taken while its own lock is held."""

    rank = Rank.DEADLINES

    def __init__(self, engine: Core) -> None:
        self.pipeline_id = engine.pipeline_id
        self._engine = weakref.ref(engine)  # the thread waits here: it must not keep the engine alive
        self.thread: EngineThread | None = None
        self._running: dict[Ticket, _Running] = {}
        self._flushes: dict[Flushed, FlushTime] = {}
        self._num_moved = 0
        self._changed = threading.Condition()
        self._next = float("inf")  # when the thread will wake
        self._stopping = False
        self._patrol: Patrol | None = None
        self._next_patrol = float("inf")
        self._is_patrolling = False

    def call_regularly(self, patrol: Patrol) -> None:
        """Call ``patrol.look`` at intervals. Must be called before the start."""
        self._patrol = patrol

    def start(self) -> None:
        if self._patrol is not None and not self._stopping:
            self._patrol.start()
            self._is_patrolling = True
            self._next_patrol = perf_counter() + self._patrol.interval
        self.thread = EngineThread(f"spdl-{self.pipeline_id}-deadlines", Task(None, self._watch))
        self.thread.start()

    def stop(self) -> None:
        """Stop watching. Does not block."""
        with self._changed:
            self._stopping = True
            self._running.clear()
            self._flushes.clear()
            patrol, self._patrol = self._patrol, None
            self._changed.notify()
        if patrol is not None and self._is_patrolling:
            patrol.stop()

    def join(self, joining: Joining) -> None:
        self.stop()  # a call that does not return is now waited for by the join
        joining.thread(self.thread)

    def watch(self, ticket: Ticket, seconds: float, thread_id: int | None = None) -> None:
        """Watch ``ticket``: its stage gives it up, on the deadlines thread, unless it is forgotten in time."""
        deadline = perf_counter() + seconds
        with self._changed:
            if self._stopping:
                return
            self._running[ticket] = _Running(deadline, seconds, thread_id)
            if deadline < self._next:
                self._changed.notify()

    def unwatch(self, ticket: Ticket) -> bool:
        """Stop watching a call that returned. Returns False if it was given up; its outcome is then discarded."""
        with self._changed:
            self._running.pop(ticket, None)
            return not ticket.given_up

    def flush_time(self, deadline: float, clock: Callable[[], float]) -> FlushTime:
        num_moved = self._num_moved  # taken before the clock is read: a later move is detected in flush_at
        remaining = deadline - clock()
        return FlushTime(deadline, remaining, perf_counter() + remaining, num_moved)

    def flush_at(self, stage: Flushed, time: FlushTime) -> None:
        """Schedule one call of ``stage.on_deadline``, unless it is forgotten or rescheduled before."""
        with self._changed:
            if self._stopping:
                return
            if time.num_moved != self._num_moved:
                time = time._replace(when=0.0)
            self._flushes[stage] = time
            if time.when < self._next:
                self._changed.notify()

    def forget_flush(self, stage: Flushed) -> None:
        with self._changed:
            self._flushes.pop(stage, None)

    def look_again(self) -> None:
        """Handle a manual move of an aggregator's clock."""
        with self._changed:
            self._num_moved += 1
            for stage, time in self._flushes.items():
                self._flushes[stage] = time._replace(when=0.0)
            self._changed.notify()

    def _watch(self, thread: EngineThread) -> None:
        while True:
            late: list[tuple[Ticket, _Running]] = []
            due: list[tuple[Flushed, FlushTime]] = []
            with self._changed:
                if self._stopping:
                    return
                now = perf_counter()
                for ticket, running in list(self._running.items()):
                    if running.deadline <= now:
                        ticket.given_up = ticket.cancelled = True
                        del self._running[ticket]
                        late.append((ticket, running))
                for stage, time in list(self._flushes.items()):
                    if time.when <= now:
                        del self._flushes[stage]
                        due.append((stage, time))
                patrol = self._patrol if self._next_patrol <= now else None
                if patrol is not None:
                    self._next_patrol = now + patrol.interval
                if not late and not due and patrol is None:
                    self._next = min(
                        self._next_patrol,
                        min((each.deadline for each in self._running.values()), default=float("inf")),
                        min((each.when for each in self._flushes.values()), default=float("inf")),
                    )
                    remaining = self._next - now
                    ticket = running = stage = time = None  # type: ignore[assignment]  # as below
                    self._changed.wait(None if remaining == float("inf") else min(remaining, threading.TIMEOUT_MAX))
                    self._next = 0.0  # awake: no wake-up needed
            for ticket, running in late:
                self._tell(partial(ticket.stage.give_up, ticket, self._error(ticket, running)))
            for stage, time in due:
                self._tell(partial(stage.on_deadline, time.deadline))
            if patrol is not None:
                self._tell(patrol.look)
            # Drop references, so that this frame keeps no aggregator or op alive.
            late = due = ticket = running = stage = time = patrol = None  # type: ignore[assignment]

    def _tell(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
            engine = self._engine()
            if engine is not None:
                with engine.lock:
                    engine.broken(exc)

    def _error(self, ticket: Ticket, running: _Running) -> StageTimeoutError:
        stage = str(ticket.stage.info)
        error = StageTimeoutError(
            f"a call of stage {stage} has not returned within {running.seconds:g} s; its item is given up",
            stage=stage,
            seconds=running.seconds,
        )
        if running.thread_id is not None:
            add_note(error, f"it is at\n{stack_of(running.thread_id)}")
        return error
