"""The interface of a peer, and the no-op work for it."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from benchmarks.engine._cases import Case

__all__ = ["Adapter", "CompressesInThreads", "GivesFirstItem", "Reader", "Run", "noop", "noop_async"]

#: Reads the whole output of a peer and returns what it read. It is the consumer, so it is part of the measured time.
Reader = Callable[[Iterable[Any]], Any]

#: Builds the pipeline of the case over ``range(n)``, lets the reader read it to the end, tears everything down.
Run = Callable[[int, Reader], Any]


class Adapter(Protocol):
    """One peer. Importing its module must not import the peer, so that ``available`` works without it."""

    name: str

    def available(self) -> bool:
        """Whether the peer is installed in this interpreter."""

    def versions(self) -> dict[str, str]:
        """Versions of the packages that do the work."""

    def supports(self, case: Case) -> bool:
        """Whether the peer has a natural way to do this case. Otherwise the table shows a dash."""

    def make(self, case: Case) -> Run:
        """The case as an experienced user of the peer would write it."""


@runtime_checkable
class GivesFirstItem(Protocol):
    """A peer whose start and end are measured separately."""

    def first_item(self) -> object:
        """Build a small pipeline (one stage, four threads), take the first item, stop."""


@runtime_checkable
class CompressesInThreads(Protocol):
    """A peer that can spread a call that releases the GIL over threads."""

    def each(self, op: Callable[[bytes], int], items: list[bytes], num_threads: int) -> int:
        """Call ``op`` with every item on several threads; return the sum of the results."""


def noop(item: Any) -> Any:
    """The work of a sync stage."""
    return item


async def noop_async(item: Any) -> Any:
    """The work of an async stage: it never waits, so only the engine is measured."""
    return item
