"""Plain lists of n items. They run no user code and need no lane: the thread that brings an item adds it.

The origin of a list is the tuple of the origins of its items.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from spdl.pipeline._engine._channel import MARK
from spdl.pipeline._engine._counters import SHORT_WAIT
from spdl.pipeline._engine._node import Node

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._origin import Origin
    from spdl.pipeline._info import StageInfo

    from ._source import SourceNode

#: Maximum number of items that are taken from an iterator under the lock: they take about 10 us.
_MOST_AT_ONCE: Final = 256


class CollateStage(Node):
    """Makes lists of ``num_items`` items, on the thread that completes the call upstream."""

    __slots__ = ("drop_last", "inbox", "num_items", "origins", "out", "turns", "values")

    def __init__(self, engine: Core, info: StageInfo, num_items: int, *, drop_last: bool) -> None:
        super().__init__(engine, info)
        self.turns = engine.turns
        self.num_items = num_items
        self.drop_last = drop_last
        self.values: list[Any] = []
        self.origins: list[Origin] = []

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        super().connect(inboxes, outs)
        self.inbox, self.out = inboxes[0], outs[0]

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
