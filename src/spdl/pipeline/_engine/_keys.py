"""The keys of pending items: the values from the source, if they are numbers or texts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

from spdl._random import key_of

if TYPE_CHECKING:
    from ._core import Core

_EXHAUSTED: Final = object()
#: Keys are kept for at least this many items before those that are not pending are dropped.
_LEAST: Final = 1000


class Keys:
    """Keeps the keys of one source. Written on its thread or task; ``of`` is read under the lock.

    Attributes:
        of: Key by index. Does not contain items without a key.
    """

    __slots__ = ("engine", "limit", "number", "of")

    def __init__(self, engine: Core, number: int) -> None:
        self.engine = engine
        self.number = number
        self.of: dict[int, int | str | None] = {}
        self.limit = _LEAST

    def kept(self, iterator: Iterator[Any]) -> Generator[Any, None, None]:
        """Yield the items of ``iterator``, and keep their keys."""
        try:
            while True:
                value = next(iterator, _EXHAUSTED)
                if value is _EXHAUSTED:
                    return
                self.keep(value)
                yield value
                value = None  # this frame must not keep an item alive
        finally:
            if (close := getattr(iterator, "close", None)) is not None:
                close()

    async def kept_async(self, iterator: AsyncIterator[Any]) -> AsyncIterator[Any]:
        try:
            async for value in iterator:
                self.keep(value)
                yield value
        finally:
            if (aclose := getattr(iterator, "aclose", None)) is not None:
                await aclose()

    def keep(self, value: Any) -> None:
        """Keep the key of the item that is emitted next."""
        key = key_of(value)
        if key is None:
            return
        positions, keys = self.engine.ledger.sources[self.number], self.of
        if len(keys) >= self.limit:
            with self.engine.lock:
                keys = self.of = {index: keys[index] for index in positions.pending if index in keys}
                self.limit = max(_LEAST, 2 * len(keys))
        keys[positions.next_index] = key
