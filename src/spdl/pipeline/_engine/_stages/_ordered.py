"""Calls of a function whose results are emitted in input order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine._channel import MARK
from spdl.pipeline._engine._ticket import Ticket

from ._call import CallStage

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine._origin import Origin


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

    def has_slot(self) -> bool:
        return len(self.queue) + self.out.overflow < self.limit

    def take(self, now: float) -> Ticket:
        ticket = super().take(now)
        self.queue.append(ticket)
        return ticket

    def accept(self, value: Any, next_origin: Callable[[], Origin], now: float) -> Ticket | None:
        if not self.has_slot():
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
