"""The end of the graph: the channel that the consumer reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ._node import Node

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

    from ._channel import Channel
    from ._core import Core


class Wait:
    """A waiting reader and how to wake it."""

    __slots__ = ("began", "has_begun", "is_over", "wake")

    def __init__(self, wake: Callable[[], None], began: float) -> None:
        self.wake = wake
        self.began = began
        self.has_begun = False
        self.is_over = False


class Sink(Node):
    """Wakes readers: the longest-waiting one for each item or mark; all of them at the end."""

    __slots__ = ("inbox", "num_waits", "tell_waiting", "waiting")

    runs_on = "sink"

    def __init__(self, engine: Core, info: StageInfo) -> None:
        super().__init__(engine, info)
        self.waiting: deque[Wait] = deque()  # readers not woken yet
        self.num_waits = 0  # including woken ones
        self.tell_waiting: Callable[[bool], None] | None = None  # is told whether anybody waits

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        super().connect(inboxes, outs)
        self.inbox = inboxes[0]

    def on_input(self, now: float) -> None:
        if self.waiting:
            self.waiting.popleft().wake()
        if self.inbox.closed:
            self.wake_all()
            if not self.ended:
                self.end(now)

    def wake_all(self) -> None:
        while self.waiting:
            self.waiting.popleft().wake()

    def begin_wait(self, wait: Wait) -> None:
        """Register a reader that found nothing. Called again if another reader took the item."""
        if not wait.has_begun:
            wait.has_begun = True
            self.num_waits += 1
            self.counters.begin_starved(wait.began)
            if self.tell_waiting is not None:
                self.tell_waiting(True)
        self.waiting.append(wait)

    def end_wait(self, wait: Wait, now: float) -> None:
        """Remove a reader that found something or gave up."""
        wait.is_over = True
        if not wait.has_begun:
            return
        self.num_waits -= 1
        self.counters.end_starved(now)
        if self.num_waits and not self.ended:
            self.counters.begin_starved(now)
        if not self.num_waits and self.tell_waiting is not None:
            self.tell_waiting(False)
        if wait in self.waiting:
            self.waiting.remove(wait)
        elif self.waiting and (self.inbox.items or self.inbox.closed):
            self.waiting.popleft().wake()  # pass the wake-up to the next reader

    def cancel(self, now: float) -> None:
        """Stop: items in the sink can still be read; finished results that wait for room are discarded."""
        self.inbox.discard(keep=self.inbox.capacity)
        self.inbox.close(now)
        self.end(now)

    def break_off(self) -> None:
        self.inbox.closed = True
        self.wake_all()
