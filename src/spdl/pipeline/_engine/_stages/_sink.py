"""The end of the graph: the channel that the consumer reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ._base import Node

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._scheduler import Engine
    from spdl.pipeline._info import StageInfo

__all__ = ["Sink"]


class Sink(Node):
    """Wakes the consumer. ``waiting`` is what to call when there is something to read; one reader at a time."""

    __slots__ = ("inbox", "waiting")

    def __init__(self, engine: Engine, info: StageInfo) -> None:
        super().__init__(engine, info)
        self.waiting: Callable[[], None] | None = None

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        super().connect(inboxes, outs)
        self.inbox = inboxes[0]

    def on_input(self, now: float) -> None:
        waiting = self.waiting
        if waiting is not None:
            self.waiting = None
            waiting()
        if self.inbox.closed and not self.ended:
            self.end(now)

    def cancel(self, now: float) -> None:
        """A stop: what is in the sink stays readable; finished results that waited for room do not."""
        self.inbox.discard(keep=self.inbox.capacity)
        self.inbox.close(now)
        self.end(now)
