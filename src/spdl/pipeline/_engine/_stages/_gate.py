"""The gate of a pipeline that refills: reports which positions have passed the stages that may lose them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._engine._channel import MARK
from spdl.pipeline._engine._node import Node
from spdl.pipeline._engine._origin import roots_of

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._refill import Refill
    from spdl.pipeline._info import StageInfo


class GateStage(Node):
    """Passes items and marks on, and reports the positions of the items."""

    __slots__ = ("out", "refill")

    def __init__(self, engine: Core, info: StageInfo, refill: Refill) -> None:
        super().__init__(engine, info)
        self.refill = refill

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        super().connect(inboxes, outs)
        self.out = outs[0]

    def on_input(self, now: float) -> None:
        self.engine.advance(self, now)

    def on_room(self) -> None:
        self.engine.advance(self, self.engine.clock())

    def advance(self, now: float) -> None:
        if self.ended:
            return
        self.counters.end_starved(now)
        (inbox,), out = self.inboxes, self.out
        while inbox.items and len(out.items) <= out.capacity:
            entry = inbox.take()
            if entry is MARK:
                out.put_mark(now)
                continue
            self.counters.num_calls += 1
            self.counters.num_emitted += 1
            for root in roots_of(entry[1]):
                if isinstance(root, int):
                    self.refill.pass_gate(root)
            out.put(entry, now)
        if inbox.items:
            return
        if inbox.closed:
            self.end(now)
        else:
            self.counters.begin_starved(now)
