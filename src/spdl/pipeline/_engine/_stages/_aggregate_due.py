"""Aggregates with a deadline: flushed when it has passed, even if no further item arrives.

After each ``accumulate`` the aggregator returns a deadline on its own clock. When it has passed, the thread of
``_deadlines`` makes the flush *due*: an ordinary call that takes the stage's only slot before the next item. A
deadline that has already passed makes it due at once. If an item arrives at the same time, the engine's lock decides: a
call that already has the slot goes first, and the aggregator returns a new deadline after it.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl._reports import shown
from spdl.pipeline._engine._failures import as_stage_failure
from spdl.pipeline._engine._ticket import Ticket

from ._aggregate import AggregateStage, Flush

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._deadlines import Deadlines, FlushTime


class DueAggregateStage(AggregateStage):
    """``AggregateStage`` for an aggregator that has a ``deadline``."""

    __slots__ = ("asked", "deadline", "flush_times", "is_due")

    flush_times: Deadlines

    def set_deadlines(self, deadlines: Deadlines) -> None:
        """Called once by the graph: ``deadlines`` calls ``on_deadline``."""
        self.flush_times = deadlines
        call_when_moved = getattr(self.aggregator.clock, "call_when_moved", None)
        if call_when_moved is not None:
            call_when_moved(deadlines.look_again)

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        super().connect(inboxes, outs)
        self.asked: FlushTime | None = (
            None  # the newest return value; written by the thread that runs the call, before it is done
        )
        self.deadline: float | None = None  # the deadline in effect, on the aggregator's clock
        self.is_due = False

    # -- not under the lock

    def call(self, value: Any) -> Any:
        result = super().call(value)
        if type(value) is not Flush:  # after a flush there is nothing to wait for
            self.asked = self.ask()
        return result

    def ask(self) -> FlushTime | None:
        """Return the aggregator's deadline, and the same moment on the engine's clock."""
        deadline = self.aggregator.deadline()
        if deadline is None:
            return None
        try:
            is_nan = math.isnan(deadline)
        except TypeError:
            is_nan = True
        if is_nan:
            raise TypeError(f"deadline() must return a number or None, got {shown(deadline)}")
        if deadline == math.inf:
            return None
        if self.asked is not None and self.asked.deadline == deadline:
            return self.asked  # most items of a list do not change it: the clock need not be read
        return self.flush_times.flush_time(deadline, self.aggregator.clock)

    def on_deadline(self, deadline: float) -> None:
        """Called on the deadlines thread when the deadline should have passed. The aggregator's clock decides."""
        try:
            again = self.flush_times.flush_time(deadline, self.aggregator.clock)
        except BaseException as exc:  # noqa: BLE001 - a user's clock
            error = as_stage_failure(exc, f"the clock of aggregate stage {self.info}")
            with self.engine.lock:
                if not self.ended:
                    self.engine.fail(self, error, perf_counter())
            return
        with self.engine.lock:
            if self.ended or self.deadline != deadline:
                return
            if again.remaining > 0:
                self.flush_times.flush_at(self, again)
            else:
                self.is_due = True
                self.lane.offer(self)

    # -- under the lock

    def flush_due(self) -> bool:
        return (self.is_due and not self.ended) or super().flush_due()

    def take(self, now: float) -> Ticket:
        if self.is_due:
            self.running += 1
            return self.new_ticket(Flush.DUE, (), now)
        return super().take(now)

    def finish(self, ticket: Ticket, now: float) -> None:
        if type(ticket.value) is Flush:
            self.asked = None
        if not self.ended:
            self.take_over()
        super().finish(ticket, now)

    def take_over(self) -> None:
        """Put the newest deadline into effect."""
        asked = self.asked
        deadline = None if asked is None else asked.deadline
        if deadline == self.deadline:
            return  # it may have become due since
        self.deadline = deadline
        self.is_due = asked is not None and asked.remaining <= 0  # at once: before the next item
        if asked is None or self.is_due:
            self.flush_times.forget_flush(self)
        else:
            self.flush_times.flush_at(self, asked)

    def end(self, now: float) -> None:
        self.flush_times.forget_flush(self)
        self.deadline = None
        super().end(now)
