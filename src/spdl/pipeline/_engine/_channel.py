"""The bounded buffer between two stages.

A channel has one producer and one consumer. Its deque may hold more than ``capacity`` entries: the excess are results
of finished calls that wait for room. Such a result keeps the concurrency slot of its call (see
``CallStage.ready``), so at most ``capacity`` items are buffered, plus one per call in flight. ``closed`` is state,
not an item. An epoch mark occupies a place like an item, so that a source of empty epochs is bounded too. The engine's
lock guards everything here.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from spdl.pipeline._records import ChannelCounts

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

    from ._counters import Counters
    from ._origin import Origin

Entry: TypeAlias = "tuple[Any, Origin]"

#: The end of an epoch. Compared by identity.
MARK: Final[Entry] = ("end of epoch", ())


class ChannelEnd(Protocol):
    """A producer or a consumer: a ``Node``."""

    info: StageInfo
    counters: Counters
    inboxes: list[Channel]
    outs: list[Channel]

    def on_input(self, now: float) -> None:
        """An item or a mark was put, or the channel was closed."""

    def on_room(self) -> None:
        """An entry was taken."""

    def num_free(self) -> int:
        """Number of inputs that could start at once. A source may run ahead by that many."""


class Channel:
    """FIFO of ``(value, origin)`` entries, with timing counters for observers."""

    __slots__ = (
        "capacity",
        "closed",
        "consumer",
        "items",
        "num_get",
        "num_marks",
        "occupied",
        "occupied_seen",
        "occupied_since",
        "producer",
    )

    producer: ChannelEnd
    consumer: ChannelEnd

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.items: deque[Entry] = deque()
        self.closed = False  # no more entries will be put
        self.num_marks = 0  # number of marks among the items
        self.num_get = 0
        self.occupied = 0.0
        self.occupied_since = 0.0
        self.occupied_seen = 0.0

    def put(self, entry: Entry, now: float) -> None:
        """Append an entry; never blocks. The producer checked for a slot when it took its input."""
        items = self.items
        if not items:
            self.occupied_since = now
        items.append(entry)
        if len(items) > self.capacity:
            self.producer.counters.begin_blocked(now)
        self.consumer.on_input(now)

    def put_mark(self, now: float) -> None:
        self.num_marks += 1
        if not self.items:
            self.occupied_since = now
        self.items.append(MARK)
        self.consumer.on_input(now)

    def take(self, now: float | None = None) -> Entry:
        """Remove the oldest entry and notify the producer of the room. Without ``now``, the clock is read if needed."""
        items = self.items
        entry = items.popleft()
        if entry is MARK:
            self.num_marks -= 1
        else:
            self.num_get += 1
        if not items:
            self.occupied += (perf_counter() if now is None else now) - self.occupied_since
        if len(items) + 1 >= self.capacity:
            self.made_room(now)
        return entry

    def made_room(self, now: float | None) -> None:
        """Notify the producer that an entry was taken.

        Only needed at lengths of ``capacity - 1`` and more: calls wait for room above ``capacity``, generators at it.
        """
        producer = self.producer
        if producer.counters.blocked_since is not None and len(self.items) == self.capacity:
            producer.counters.end_blocked(perf_counter() if now is None else now)
        producer.on_room()

    def close(self, now: float) -> None:
        """Close the channel: no more entries will be put. Idempotent, never blocks."""
        if not self.closed:
            self.closed = True
            self.consumer.on_input(now)

    def discard(self, keep: int = 0) -> None:
        """Discard all entries but the oldest ``keep``. Their positions stay pending."""
        items = self.items
        while len(items) > keep:
            if items.pop() is MARK:
                self.num_marks -= 1
            if not items:
                self.occupied += perf_counter() - self.occupied_since

    @property
    def overflow(self) -> int:
        """Number of finished results that wait for room."""
        n = len(self.items) - self.capacity
        return n if n > 0 else 0

    def occupied_until(self, now: float) -> float:
        total = self.occupied + (now - self.occupied_since if self.items else 0.0)
        self.occupied_seen = max(total, self.occupied_seen)  # see Counters.starved_until
        return self.occupied_seen

    def counts(self, started: float, now: float) -> ChannelCounts:
        put, get = self.producer.counters, self.consumer.counters
        return ChannelCounts(
            elapsed=now - started,
            num_items=self.num_get,
            num_put=self.num_get + len(self.items) - self.num_marks,
            put_wait=put.blocked_until(now),
            get_wait=get.starved_until(now),
            recent_put_waits=tuple(put.recent_blocked),
            recent_get_waits=tuple(get.recent_starved),
            num_put_waits=put.num_blocked,
            num_get_waits=get.num_starved,
            occupied=self.occupied_until(now),
        )
