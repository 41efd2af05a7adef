"""``BatchOrigin``: what an output was made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spdl._random import ItemPart, ItemPosition
from spdl.pipeline._observe._stats import ItemFailure

if TYPE_CHECKING:
    from spdl._random import ItemPlace
    from spdl.pipeline._engine._engine import Engine


@dataclass(frozen=True)
class BatchOrigin:
    """What an output of a pipeline was made of.

    Attributes:
        items: The source items, in order, each once: ``epoch``, ``position`` in the order of all ranks, number of the
            ``source``, and the ``item`` that the source gave if it is a number or a text.
        failures: Failures of calls on these items: on parts of them, such as the rest of a generator's outputs, and
            those whose output was substituted (``outcome == "substituted"``).
        place: The same as a tree. An aggregate is a tuple; ``ItemPart(of, number)`` is one of several outputs of a
            call.
    """

    items: tuple[ItemPosition, ...]
    failures: tuple[ItemFailure, ...]
    place: ItemPlace = field(repr=False)

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions alone. If there are several sources or epochs, use ``items``."""
        return tuple(item.position for item in self.items)

    @property
    def keys(self) -> tuple[int | str | None, ...]:
        """What the source gave for each position; ``None`` if it is neither a number, a text nor a path."""
        return tuple(item.item for item in self.items)


def origin_of(engine: Engine, origin: Any) -> BatchOrigin:
    """Describe the origin of an output that was taken and not committed. Under the lock."""
    place = engine.places.of(origin)
    items = tuple(dict.fromkeys(leaves_of(place)))
    failures = tuple(ItemFailure(*failed[:7]) for failed in engine.places.failures_of(origin))
    return BatchOrigin(items, failures, place)


def leaves_of(place: ItemPlace) -> list[ItemPosition]:
    """Return the positions of a place, in its order."""
    found: list[ItemPosition] = []
    todo: list[Any] = [place]
    while todo:
        each = todo.pop()
        if isinstance(each, ItemPosition):
            found.append(each)
        elif isinstance(each, ItemPart):
            todo.append(each.of)
        else:
            todo.extend(reversed(each))
    return found
