"""Calls that may take only so long, on threads that cannot be interrupted.

One thread waits for the nearest deadline of all running calls. A call that is not back by then is *given up*: its item
has failed, its slot is free, and what it returns later, if ever, is discarded. Who wins when a call ends as its time
runs out is decided in one place: whoever takes the ticket out of ``_running`` first, the thread that ran the call
(``forget``) or this one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from spdl.pipeline._errors import StageTimeoutError

from ._base import EngineThread

if TYPE_CHECKING:
    from spdl.pipeline._engine._scheduler import Engine
    from spdl.pipeline._engine._ticket import Ticket

__all__ = ["Deadlines", "close_given_up"]


class _Running(NamedTuple):
    deadline: float
    seconds: float
    thread_id: int | None
    give_up: Callable[[Ticket, StageTimeoutError], None]


class Deadlines:
    """Has a lock of its own, which is never held while another is taken."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.thread: EngineThread | None = None
        self.is_needed = False  # set by the graph
        self._running: dict[Ticket, _Running] = {}
        self._changed = threading.Condition()
        self._next = float("inf")  # when the thread wakes by itself
        self._stopping = False

    def start(self) -> None:
        if self.is_needed:
            self.thread = EngineThread(f"spdl-{self.engine.pipeline_id}-deadlines", self._watch)
            self.thread.start()

    def stop(self) -> None:
        """Does not block. Calls that run are not watched any more."""
        with self._changed:
            self._stopping = True
            self._running.clear()
            self._changed.notify()

    def watch(
        self,
        ticket: Ticket,
        seconds: float,
        give_up: Callable[[Ticket, StageTimeoutError], None],
        thread_id: int | None = None,
    ) -> None:
        """From now on, ``give_up`` is called for ``ticket``, on a thread of its own, unless it is forgotten in time."""
        deadline = perf_counter() + seconds
        with self._changed:
            if self._stopping:
                return
            self._running[ticket] = _Running(deadline, seconds, thread_id, give_up)
            if deadline < self._next:
                self._changed.notify()

    def forget(self, ticket: Ticket) -> bool:
        """The call is back. False: it had been given up, and its outcome is not wanted."""
        with self._changed:
            self._running.pop(ticket, None)
            return not ticket.given_up

    def _watch(self, thread: EngineThread) -> None:
        while True:
            late: list[tuple[Ticket, _Running]] = []
            with self._changed:
                if self._stopping:
                    return
                now = perf_counter()
                for ticket, running in list(self._running.items()):
                    if running.deadline <= now:
                        ticket.given_up = ticket.cancelled = True
                        del self._running[ticket]
                        late.append((ticket, running))
                if not late:
                    self._next = min((each.deadline for each in self._running.values()), default=float("inf"))
                    remaining = self._next - now
                    self._changed.wait(None if remaining == float("inf") else min(remaining, threading.TIMEOUT_MAX))
                    self._next = 0.0  # awake: nobody needs to wake it
            for ticket, running in late:
                running.give_up(ticket, self._error(ticket, running))

    def _error(self, ticket: Ticket, running: _Running) -> StageTimeoutError:
        from spdl.pipeline._engine._ending import stack_of

        stage = str(ticket.stage.info)
        error = StageTimeoutError(
            f"a call of stage {stage} has not returned within {running.seconds:g} s; its item is given up",
            stage=stage,
            seconds=running.seconds,
        )
        if running.thread_id is not None:
            error.add_note(f"it is at\n{stack_of(running.thread_id)}")
        return error


def close_given_up(ticket: Ticket, engine: Engine) -> None:
    """A given-up step of a generator has returned: nobody else will close the generator."""
    with engine.lock:
        generator, ticket.generator = ticket.generator, None
        engine.close_later(generator)
