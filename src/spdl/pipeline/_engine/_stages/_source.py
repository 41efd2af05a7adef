"""The source node, which counts items and applies back-pressure; and lists of n items, which it may fill directly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from spdl._numbers import int_or_none
from spdl._reports import log
from spdl.pipeline._engine._channel import MARK
from spdl.pipeline._engine._core import Core, Node
from spdl.pipeline._engine._counters import SHORT_WAIT
from spdl.pipeline._engine._origin import Origin, SourcePosition
from spdl.pipeline._engine._passes import Passes
from spdl.pipeline._engine._refill import Refill

from ._call import CallStage, OrderedCallStage

if TYPE_CHECKING:
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

    def finish(self, error: BaseException | None) -> None:
        """Not under the lock: all passes have ended, or one has raised ``error``."""
        engine = self.engine
        with engine.lock:
            was_ended = self.ended
            if not was_ended and error is not None:
                engine.fail(self, error, perf_counter())
            elif not was_ended:
                self.end(perf_counter())
        if was_ended and error is not None:
            text = "the source of pipeline %d raised after it was cancelled"
            log(engine.log, logging.ERROR, text, engine.pipeline_id, exc_info=error)

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


#: Maximum number of items that are taken from an iterator under the lock: they take about 10 us.
_MOST_AT_ONCE: Final = 256


class CollateStage(Node):
    """Makes lists of ``num_items`` items, on the thread that completes the call upstream."""

    __slots__ = ("drop_last", "num_items", "origins", "turns", "values")

    def __init__(self, engine: Core, info: StageInfo, num_items: int, *, drop_last: bool) -> None:
        super().__init__(engine, info)
        self.turns = engine.turns
        self.num_items = num_items
        self.drop_last = drop_last
        self.values: list[Any] = []
        self.origins: list[Origin] = []

    def on_input(self, now: float) -> None:
        """``Core.advance`` is inlined here: this is the hot path."""
        turns = self.turns
        if turns.is_taken:
            turns.waiting.append(self)
            return
        turns.is_taken = True
        self.advance(now)
        turns.is_taken = False
        if turns.waiting:
            self.engine.advance_rest(now)

    def accept(self, value: Any, source: SourceNode, now: float) -> bool:
        """Take an item directly from its source, if nothing else has to be done. False: the item was not taken.

        The same as ``source.emit`` for an item that does not complete a batch, without the channel.
        """
        values, inbox, out = self.values, self.inbox, self.out
        if (
            len(values) + 1 >= self.num_items
            or inbox.items
            or len(out.items) > out.capacity
            or self.ended
            or self.turns.is_taken
        ):
            return False
        counters = self.counters
        if (since := counters.starved_since) is not None:  # ``end_starved`` is inlined: this is the hot path
            waited = now - since
            counters.starved += waited
            if waited > SHORT_WAIT:
                counters.note_starved(waited)
        counters.starved_since = now
        counters.num_calls += 1
        inbox.num_get += 1
        values.append(value)
        self.origins.append(source.next_origin())
        return True

    def fill(self, iterator: Iterator[Any], source: SourceNode) -> None:
        """Take the next items as well, all but the one that completes the batch. Directly after ``accept``.

        For iterators that run no user code, because the lock is held.
        """
        more = list(islice(iterator, min(self.num_items - 1 - len(self.values), _MOST_AT_ONCE)))
        self.counters.num_calls += len(more)
        self.inbox.num_get += len(more)
        self.values += more
        self.origins += source.next_origins(len(more))

    def on_room(self) -> None:
        if self.inbox.items or self.inbox.closed:
            self.engine.advance(self, self.engine.clock())

    def advance(self, now: float) -> None:
        if self.ended:
            return
        inbox, out, counters = self.inbox, self.out, self.counters
        items, out_items = inbox.items, out.items
        if counters.starved_since is not None:
            counters.end_starved(now)
        while len(out_items) <= out.capacity:
            if items:
                entry = inbox.take()
                if entry is MARK:
                    self.flush(now)
                    out.put_mark(now)
                    continue
                counters.num_calls += 1
                self.values.append(entry[0])
                self.origins.append(entry[1])
                if len(self.values) == self.num_items:
                    self.emit(now)
            elif inbox.closed:
                self.flush(now)
                self.end(now)
                break
            else:
                break
        if not items and counters.starved_since is None and not self.ended:
            counters.starved_since = now

    def emit(self, now: float) -> None:
        values, origins = self.values, tuple(self.origins)
        self.values, self.origins = [], []
        self.counters.num_emitted += 1
        self.out.put((values, origins), now)

    def flush(self, now: float) -> None:
        """Emit the remainder at the end of the stream or an epoch. Counts as a call, like an aggregator's flush."""
        if not self.drop_last:
            self.counters.num_calls += 1
            if self.values:
                self.emit(now)
            return
        self.counters.num_dropped += len(self.values)
        for origin in self.origins:
            self.engine.ledger.release(origin)
        self.values, self.origins = [], []

    @property
    def num_in_flight(self) -> int:
        return len(self.values)

    def drop_work(self) -> None:
        self.values, self.origins = [], []
