"""Excluded items of a source: they are consumed instead of emitted (``spdl.pipeline.defs.Exclude``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ._core import Core
    from ._counters import Counters

_EXHAUSTED: Final = object()


class Exclusion:
    """Leaves items out of the passes over one source. Used on its thread or task.

    Args:
        engine: The engine.
        number: Number of the source.
        excludes: Returns whether an item is left out.
        counters: Counters of the source's node.
    """

    __slots__ = ("counters", "engine", "excludes", "number")

    def __init__(self, engine: Core, number: int, excludes: Callable[[Any], bool], counters: Counters) -> None:
        self.engine = engine
        self.number = number
        self.excludes = excludes
        self.counters = counters

    def without(self, iterator: Iterator[Any]) -> Generator[Any, None, None]:
        """Yield the items that are not excluded."""
        try:
            while True:
                value = next(iterator, _EXHAUSTED)
                if value is _EXHAUSTED:
                    self.end_pass()
                    return
                if self.excludes(value):
                    self.consume_next()
                else:
                    yield value
                value = None  # this frame must not keep an item alive
        finally:
            if (close := getattr(iterator, "close", None)) is not None:
                close()

    async def without_async(self, iterator: AsyncIterator[Any]) -> AsyncIterator[Any]:
        try:
            async for value in iterator:
                if self.excludes(value):
                    self.consume_next()
                else:
                    yield value
            self.end_pass()
        finally:
            if (aclose := getattr(iterator, "aclose", None)) is not None:
                await aclose()

    def end_pass(self) -> None:
        """Tell the function that it has seen all items of the source, if it wants to know."""
        if not self.engine.is_resumed and (end_pass := getattr(self.excludes, "end_pass", None)) is not None:
            end_pass()

    def consume_next(self) -> None:
        """Issue the next position and consume it at once."""
        with self.engine.lock:
            positions = self.engine.ledger.sources[self.number]
            positions.pending.add(positions.next_index)  # so that a source that refills replaces it
            positions.consume(positions.next_index)
            positions.next_index += 1
            self.counters.num_dropped += 1
