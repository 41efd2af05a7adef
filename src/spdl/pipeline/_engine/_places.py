"""Places: origins as they are known outside of one run, in all epochs and on all ranks.

An origin has an index of this run. Its place has the epoch and the global position instead, so it is the same in a
resumed run and for any number of ranks. Random numbers, logs and replays use places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from spdl._random import ItemPart

from ._origin import Part, SourcePosition

if TYPE_CHECKING:
    from spdl._random._seeds import ItemPlace

    from ._origin import Origin

__all__ = ["Placed", "Places", "SourcePlaces"]


class Placed:
    """An item with its place: the input of an op that takes random numbers. It shows itself as the item."""

    __slots__ = ("item", "place")

    def __init__(self, item: Any, place: ItemPlace) -> None:
        self.item = item
        self.place = place

    def __repr__(self) -> str:
        return repr(self.item)


class SourcePlaces(Protocol):
    """One source."""

    def place(self, index: int) -> ItemPlace:
        """Return the place of a pending index. Under the lock."""


class Places:
    """Finds the places of origins. The engine's lock guards everything here."""

    __slots__ = ("are_needed", "sources")

    def __init__(self) -> None:
        self.sources: list[SourcePlaces] = []
        self.are_needed = False  # set while the graph is built: a stage asks for places

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


class _Join:
    """The last places belong in one tuple."""

    __slots__ = ("num",)

    def __init__(self, num: int) -> None:
        self.num = num


class _Number:
    """The last place is what an output with this number belongs to."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number
