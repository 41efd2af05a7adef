"""The interface of a peer, and the no-op work for it. Workers import it, so it imports nothing heavy."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ._shapes import Shape

__all__ = ["Adapter", "Reader", "Run", "Settings", "noop", "noop_async"]

#: Reads the whole output of a peer and returns what it read. It is the consumer, so it is part of the measured time.
Reader = Callable[[Iterable[Any]], Any]

#: Builds the pipeline of the shape over ``range(n)``, lets the reader read it to the end, tears everything down.
Run = Callable[[int, Reader], Any]

#: The settings of a peer: see ``Peer``.
Settings = Mapping[str, Any]


class Adapter(Protocol):
    """A module that uses a peer, which it imports at the top. These two functions are all that most have.

    Two more are for peers that take part in the cases ``first_item`` and ``zlib``:

    - ``first_item() -> object``: builds a small pipeline (one stage, four threads), takes the first item, stops;
    - ``each(op, items, num_threads) -> int``: calls ``op``, which releases the GIL, with every item on several threads,
      and returns the sum of the results.
    """

    def versions(self) -> dict[str, str]:
        """Versions of the packages that do the work."""

    def make(self, shape: Shape, settings: Settings) -> Run | None:
        """The shape as an experienced user of the peer would write it; ``None`` if the peer has no natural way."""


def noop(item: Any) -> Any:
    """The work of a sync stage."""
    return item


async def noop_async(item: Any) -> Any:
    """The work of an async stage: it never waits, so only the engine is measured."""
    return item
