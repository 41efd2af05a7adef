"""What a peer brings to be measured, and the no-op work that it is given."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from benchmarks.engine._cases import Case

__all__ = ["Adapter", "CompressesInThreads", "GivesFirstItem", "Reader", "Run", "noop", "noop_async"]

#: Reads everything a peer emits and says what it read. It is the consumer, so it runs inside the measured time.
Reader = Callable[[Iterable[Any]], Any]

#: Builds what the case asks for over ``range(n)``, lets the reader read it to the end, tears everything down.
Run = Callable[[int, Reader], Any]


class Adapter(Protocol):
    """One peer. Importing its module must not import the peer: that is what ``available`` finds out."""

    name: str

    def available(self) -> bool:
        """Whether the peer is installed in this interpreter."""

    def versions(self) -> dict[str, str]:
        """Versions of the packages that do the work."""

    def supports(self, case: Case) -> bool:
        """Whether the peer has a natural way to do this case. What it cannot do is shown as a dash."""

    def make(self, case: Case) -> Run:
        """The way a person who knows the peer would write this case."""


@runtime_checkable
class GivesFirstItem(Protocol):
    """A peer whose start and end are of interest by themselves."""

    def first_item(self) -> object:
        """Build a small pipeline (one stage, four threads), take the first item, stop."""


@runtime_checkable
class CompressesInThreads(Protocol):
    """A peer that can spread a call that releases the GIL over threads."""

    def each(self, op: Callable[[bytes], int], items: list[bytes], num_threads: int) -> int:
        """Call ``op`` with every item on that many threads; the sum of what it returned."""


def noop(item: Any) -> Any:
    """The work of a sync stage."""
    return item


async def noop_async(item: Any) -> Any:
    """The work of an async stage: it never waits, so all that is measured is the engine."""
    return item
