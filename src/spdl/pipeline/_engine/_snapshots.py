"""The saved states of one source, and which of them a state of the pipeline may still need.

A pipeline that is resumed needs, for each live epoch, the newest state at or before the first position that is not
consumed. A later position can take its place at any time, so the states after it are kept as well: if they are many,
every other one of these.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ._positions import Positions

#: Maximum number of saved states of a source, besides one for each live epoch.
_MOST: Final = 64


class Snapshot(NamedTuple):
    """The state of a source before an item. At the end of a pass, it is the state of the next epoch."""

    epoch: int
    next_index: int  # of that item
    state: dict[str, Any]


class Snapshots:
    """The saved states of one source, oldest first. The engine's lock guards everything here."""

    __slots__ = ("saved",)

    def __init__(self) -> None:
        self.saved: list[Snapshot] = []

    def add(self, snapshot: Snapshot, positions: Positions) -> None:
        """Add a state, and drop those that are no longer needed."""
        saved = self.saved
        saved.append(snapshot)
        epoch, low = positions.epoch, positions.low
        num_old = 0
        while num_old + 1 < len(saved) and (
            saved[num_old].epoch < epoch or (saved[num_old + 1].epoch == epoch and saved[num_old + 1].next_index <= low)
        ):
            num_old += 1
        del saved[:num_old]
        if len(saved) > _MOST + len(positions.starts):
            self.saved = _thinned(saved, _lows(positions))


def snapshot_before(saved: Sequence[Snapshot], epoch: int, low: int) -> Snapshot | None:
    """Return the newest state of an epoch before its item ``low``."""
    return next((each for each in reversed(saved) if each.epoch == epoch and each.next_index <= low), None)


def _thinned(saved: list[Snapshot], low_of: Callable[[int], int]) -> list[Snapshot]:
    """Keep what each live epoch needs now, and every other state of what it may need later."""
    needed: dict[int, int] = {}  # by epoch: the place in ``saved``
    for place, each in enumerate(saved):
        if each.next_index <= low_of(each.epoch):
            needed[each.epoch] = place
    later = [place for place, each in enumerate(saved) if place > needed.get(each.epoch, -1)]
    return [saved[place] for place in sorted({*needed.values(), *later[1::2]})]


def _lows(positions: Positions) -> Callable[[int], int]:
    """Return a function from the number of an epoch to its first index that is not consumed."""
    pending = sorted(positions.pending)
    bounds = [*positions.starts, positions.next_index]

    def low_of(epoch: int) -> int:
        number = min(epoch - positions.epoch, len(bounds) - 1)  # the epoch after the newest begins at the next index
        if number < 0:
            return -1  # the consumer has read its end
        place = bisect_left(pending, bounds[number])
        stop = bounds[min(number + 1, len(bounds) - 1)]
        return pending[place] if place < len(pending) and pending[place] < stop else stop

    return low_of
