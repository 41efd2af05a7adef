"""The source node: counts items and applies back-pressure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from spdl._numbers import int_or_none
from spdl.pipeline._engine._node import Node
from spdl.pipeline._engine._origin import Origin, SourcePosition
from spdl.pipeline._engine._passes import Passes
from spdl.pipeline._engine._refill import Refill

from ._call import CallStage
from ._collate import CollateStage
from ._ordered import OrderedCallStage

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._lane import AsyncLane, CallLane
    from spdl.pipeline._info import StageInfo


class SourceNode(Node):
    """One source. Its lane iterates it and calls ``emit``; ``waiting`` is set while the lane waits for room."""

    __slots__ = (
        "collates",
        "continuous",
        "helped",
        "iterable",
        "loop",
        "next_call",
        "number",
        "out",
        "passes",
        "position_class",
        "positions",
        "shares_ledger",
        "waiting",
    )

    runs_on = "source"

    def __init__(
        self,
        engine: Core,
        info: StageInfo,
        iterable: Any,
        *,
        continuous: bool,
        number: int,
        num_epochs: int | None = None,
    ) -> None:
        super().__init__(engine, info)
        self.iterable = iterable
        self.loop: AsyncLane | None = None  # iterates an async source
        self.helped: CallLane | None = None  # the lane whose calls the source's thread may run
        self.continuous = continuous
        self.number = number
        self.passes = Passes(engine, number, iterable, is_continuous=continuous, limit=num_epochs)
        self.positions = engine.ledger.sources[number]
        self.shares_ledger = len(engine.ledger.sources) > 1
        self.position_class = SourcePosition
        self.waiting: Callable[[], None] | None = None
        self.next_call: CallStage | None = None  # the next stage, if its calls may run on the source's thread
        self.collates: CollateStage | None = None  # the next stage, if it takes items directly

    def refill(self, replace: Callable[[int], Any]) -> Refill:
        """Replace positions that are lost, from now on. Before the start; for the only source."""
        num_global = int_or_none(getattr(self.iterable, "num_global", None))
        refill = Refill(self.engine, len(self.iterable) if num_global is None else num_global)
        ledger = self.engine.ledger
        ledger.tracks_epochs = True
        ledger.pending = self.positions.pending = refill.pending
        self.passes.refill = refill
        self.passes.replace = replace
        return refill

    def link(self) -> None:
        after = self.out.consumer
        is_plain = type(after) is CallStage or type(after) is OrderedCallStage
        if is_plain and isinstance(after, CallStage) and after.lane is self.helped:
            self.next_call = after
        elif type(after) is CollateStage:
            self.collates = after

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        super().connect(inboxes, outs)
        self.out = outs[0]

    def on_input(self, now: float) -> None:
        raise AssertionError("a source has no input")

    def has_room(self) -> bool:
        """Whether the source may emit. One item may exceed the capacity, more if the next stage can start them."""
        out = self.out
        ahead = len(out.items) - out.capacity
        return ahead <= 0 or ahead <= out.consumer.num_free()

    def on_room(self) -> None:
        waiting = self.waiting
        if waiting is not None and len(self.out.items) <= self.out.capacity:
            self.waiting = None
            waiting()

    def next_origin(self) -> Origin:
        positions = self.positions
        index = positions.next_index
        positions.next_index = index + 1
        positions.pending.add(index)
        return self.position_class(self.number, index) if self.shares_ledger else index

    def next_origins(self, number: int) -> Iterable[Origin]:
        positions = self.positions
        indices = range(positions.next_index, positions.next_index + number)
        positions.next_index = indices.stop
        positions.pending.update(indices)
        return [self.position_class(self.number, index) for index in indices] if self.shares_ledger else indices

    @property
    def num_issued(self) -> int:
        return self.positions.num_issued

    def emit(self, value: Any, now: float) -> None:
        """Emit an item; any value is valid, even ``None``. ``Channel.put`` is inlined here: this is the hot path."""
        out = self.out
        items = out.items
        if not items:
            out.occupied_since = now
        items.append((value, self.next_origin()))
        if len(items) > out.capacity and self.counters.blocked_since is None:
            self.counters.blocked_since = now
        out.consumer.on_input(now)

    def end_pass(self, now: float) -> None:
        """A pass of a continuous source has ended, and another one follows."""
        if self.engine.ledger.tracks_epochs:
            self.positions.begin_epoch()
        self.out.put_mark(now)

    def forget(self) -> None:
        self.iterable = None
        self.passes.forget()

    def drop_work(self) -> None:
        if self.passes.refill is not None:
            self.passes.refill.stop()
        waiting = self.waiting
        if waiting is not None:
            self.waiting = None
            waiting()
        if self.loop is not None:
            self.loop.cancel_task(self)

    def break_off(self) -> None:
        self.drop_work()
