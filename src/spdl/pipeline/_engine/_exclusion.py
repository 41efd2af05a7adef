"""What is done with each item of a source before it is emitted: excluding it, keeping its key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

from spdl._random import key_of

if TYPE_CHECKING:
    from ._core import Core
    from ._counters import Counters

_EXHAUSTED: Final = object()
#: Keys are kept for at least this many items before those that are not pending are dropped.
_LEAST: Final = 1000


class _EachItem:
    """Sees each item of the passes over one source, before it is emitted. Used on the source's thread or task."""

    __slots__ = ("engine", "number")

    def __init__(self, engine: Core, number: int) -> None:
        self.engine = engine
        self.number = number  # of the source

    def lets_pass(self, value: Any) -> bool:
        """Return whether the item is emitted."""
        raise NotImplementedError

    def end_pass(self) -> None:
        """Called after the last item."""

    def seen(self, iterator: Iterator[Any]) -> Generator[Any, None, None]:
        """Yield the items of ``iterator`` that pass."""
        try:
            while True:
                value = next(iterator, _EXHAUSTED)
                if value is _EXHAUSTED:
                    self.end_pass()
                    return
                if self.lets_pass(value):
                    yield value
                value = None  # this frame must not keep an item alive
        finally:
            if (close := getattr(iterator, "close", None)) is not None:
                close()

    async def seen_async(self, iterator: AsyncIterator[Any]) -> AsyncIterator[Any]:
        try:
            async for value in iterator:
                if self.lets_pass(value):
                    yield value
            self.end_pass()
        finally:
            if (aclose := getattr(iterator, "aclose", None)) is not None:
                await aclose()


class Exclusion(_EachItem):
    """Leaves out the items for which ``excludes`` is true: they are consumed, not emitted (``defs.Exclude``)."""

    __slots__ = ("counters", "excludes")

    def __init__(self, engine: Core, number: int, excludes: Callable[[Any], bool], counters: Counters) -> None:
        super().__init__(engine, number)
        self.excludes = excludes
        self.counters = counters

    def lets_pass(self, value: Any) -> bool:
        if not self.excludes(value):
            return True
        with self.engine.lock:  # issue the next position and consume it at once
            positions = self.engine.ledger.sources[self.number]
            positions.pending.add(positions.next_index)  # so that a source that refills replaces it
            positions.consume(positions.next_index)
            positions.next_index += 1
            self.counters.num_dropped += 1
        return False

    def end_pass(self) -> None:
        """Tell the function that it has seen all items of the source, if it wants to know."""
        if not self.engine.is_resumed and (end_pass := getattr(self.excludes, "end_pass", None)) is not None:
            end_pass()


class Keys(_EachItem):
    """Keeps the keys of pending items: the values from the source, if they are numbers or texts.

    ``of``: key by index, without items that have none. Read under the lock.
    """

    __slots__ = ("limit", "of")

    def __init__(self, engine: Core, number: int) -> None:
        super().__init__(engine, number)
        self.of: dict[int, int | str | None] = {}
        self.limit = _LEAST

    def lets_pass(self, value: Any) -> bool:
        """Keep the key of the item, which is emitted next."""
        key = key_of(value)
        if key is None:
            return True
        positions, keys = self.engine.ledger.sources[self.number], self.of
        if len(keys) >= self.limit:
            with self.engine.lock:
                keys = self.of = {index: keys[index] for index in positions.pending if index in keys}
                self.limit = max(_LEAST, 2 * len(keys))
        keys[positions.next_index] = key
        return True
