"""Places: origins in a form that is valid outside of one run, in all epochs and on all ranks.

An origin has an index of this run. Its place has the epoch and the global position instead, so it is the same in a
resumed run and for any number of ranks. Random numbers, logs and replays use places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from spdl._random import ItemPart, ItemPlace

from ._origin import Ledger, Origin, Part, Root, SourcePosition, roots_of

if TYPE_CHECKING:
    from ._failures import FailureRecord

#: Number of positions with failures that are kept before those that are no longer pending are dropped.
_MIN_FAILURES: Final = 1000


class Placed:
    """An item with its place: the input of an op that takes random numbers. Its ``repr`` is that of the item."""

    __slots__ = ("item", "place")

    def __init__(self, item: Any, place: ItemPlace) -> None:
        self.item = item
        self.place = place

    def __repr__(self) -> str:
        return repr(self.item)


def bare(value: Any) -> Any:
    """Return the item of an input, without its place."""
    return value.item if type(value) is Placed else value


class SourcePlaces(Protocol):
    """The places of one source."""

    def place(self, index: int) -> ItemPlace:
        """Return the place of a pending index. Under the lock."""


class Places:
    """Finds the places of origins. The engine's lock guards everything here."""

    __slots__ = ("_failures_limit", "are_needed", "failures", "sources")

    def __init__(self) -> None:
        self.sources: list[SourcePlaces] = []
        self.are_needed = False  # set while the graph is built: a stage asks for places
        #: Failures by the source indices of their items; ``None``: not kept.
        self.failures: dict[Root, list[FailureRecord]] | None = None
        self._failures_limit = _MIN_FAILURES

    def of(self, origin: Origin) -> ItemPlace:
        """Return the place of an item that is in flight. Iterative: origins may be nested deeply."""
        if type(origin) is int:
            return self.sources[0].place(origin)
        todo: list[Any] = [origin]
        done: list[ItemPlace] = []
        while todo:
            each = todo.pop()
            if isinstance(each, _Join):
                start = len(done) - each.num
                done[start:] = [tuple(done[start:])]
            elif isinstance(each, _Number):
                done[-1] = ItemPart(done[-1], each.number)
            elif isinstance(each, Part):
                todo += (_Number(each.index), each.branch.parent)
            elif isinstance(each, SourcePosition):
                done.append(self.sources[each.source].place(each.position))
            elif isinstance(each, tuple):
                todo.append(_Join(len(each)))
                todo.extend(reversed(each))
            else:
                done.append(self.sources[0].place(each))
        return done[0]

    # -- failures

    def note_failure(self, record: FailureRecord, ledger: Ledger) -> None:
        """Keep a failure as long as the same positions may have other outputs."""
        failures = self.failures
        assert failures is not None
        if len(failures) >= self._failures_limit:
            failures = {root: kept for root, kept in failures.items() if _is_pending(root, ledger)}
            self.failures = failures
            self._failures_limit = max(_MIN_FAILURES, 2 * len(failures))
        for root in record.roots:
            failures.setdefault(root, []).append(record)

    def failures_of(self, origin: Origin) -> list[FailureRecord]:
        """Return the failures of calls on the positions that an output comes from."""
        failures = self.failures
        if not failures:
            return []
        return [record for root in roots_of(origin) for record in failures.get(root, ())]


def _is_pending(root: Root, ledger: Ledger) -> bool:
    if isinstance(root, SourcePosition):
        return root.position in ledger.sources[root.source].pending
    return root in ledger.pending


class _Join:
    """Marks that the last places belong in one tuple."""

    __slots__ = ("num",)

    def __init__(self, num: int) -> None:
        self.num = num


class _Number:
    """Marks that the last place is the parent of an output with this number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number
