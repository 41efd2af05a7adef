"""The state of a source that is iterated, and the saved states which a state of the pipeline may still need.

The state is that of the source, of the iterator of a pass, or of both.

A state of the source alone is that between two passes, or of a source whose iterators have none. If both have one, the
source's is loaded first, then its iterator is made, and then that of the iterator is loaded, as torchdata's
``StatefulDataLoader`` does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spdl._reports import name_of
from spdl.resume._values import Residue, ResumeError, pack, unpack

if TYPE_CHECKING:
    from ._origin import Positions

_EXHAUSTED: Final = object()
#: The part of a state that is that of the iterator, if the source has one too.
_BESIDE: Final = "iterator"


class SourceState:
    """Opens the passes over a source, with or without a state to load, and packs its state."""

    __slots__ = ("_beside", "_residue", "is_of_source", "owner", "source")

    def __init__(self, source: Any) -> None:
        self.source = source
        self.owner: Any = None  # the source, or the iterator of the newest pass; ``None``: neither has a state
        self._beside: Any = None  # the iterator, if both have
        self.is_of_source = False
        self._residue: Residue | None = None  # what loading a state has left in the source, until the pass ends

    def open(self, state: dict[str, Any] | None, *, is_start: bool, is_iterator: bool) -> Iterator[Any]:
        """Iterate the source, which may be its own iterator, from its saved state if there is one.

        ``is_start``: it is from before the first item, as the pass before has left it. Raises ``ResumeError`` if it has
        a part that the source or its iterators cannot load, or lacks one.
        """
        source = self.source
        self.is_of_source = has_state(source)
        if not self.is_of_source:
            return self._open_stateless(state)
        self.owner = source
        if state is None:
            return self._begun(iter(source))
        # An iterator may begin anew with each iter(), also that of a ``for`` statement.
        own = map(next, repeat(iter(source))) if is_iterator else None
        beside = state.get(_BESIDE)
        if is_start and beside is None and pack(source.state_dict()) == state:  # a new source has it already
            return self._begun(iter(source)) if own is None else own
        self._residue = residue = Residue(source)
        source.load_state_dict(unpack(state, name_of(source)))
        residue.note_loaded()
        opened: Iterator[Any] = self._begun(iter(source)) if own is None else own
        if beside is not None:
            if self._beside is None:
                raise self._no_state_of_iterators()
            opened.load_state_dict(unpack(beside, name_of(opened)))  # type: ignore[attr-defined] # as has_state says
            return opened
        if self._beside is not None and not is_start:
            raise ResumeError(
                f"cannot resume: the iterators of source {name_of(source)} have a state of their own, and the saved "
                "state has none of an iterator"
            )
        return self._after_last(opened) if is_start else opened

    def _open_stateless(self, state: dict[str, Any] | None) -> Iterator[Any]:
        iterator: Iterator[Any] = iter(self.source)
        self.owner = iterator if has_state(iterator) else None
        if state is not None:
            if self.owner is None:
                raise self._no_state_of_iterators()
            self.owner.load_state_dict(unpack(state, name_of(iterator)))
        return iterator

    def _no_state_of_iterators(self) -> ResumeError:
        return ResumeError(
            f"cannot resume: the saved state has that of an iterator of source {name_of(self.source)}, and here its "
            "iterators have no load_state_dict()"
        )

    def _begun(self, iterator: Iterator[Any]) -> Iterator[Any]:
        self._beside = iterator if iterator is not self.source and has_state(iterator) else None
        return iterator

    def _after_last(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """Yield the items of a pass. If the loaded state was at the end of a pass, this is the one after it."""
        value = next(iterator, _EXHAUSTED)
        if value is not _EXHAUSTED:
            yield value
            value = None
            yield from iterator
            return
        if self._residue is not None:
            self._residue.clear()
        yield from self._begun(iter(self.source))

    def pack(self, *, is_end: bool) -> dict[str, Any]:
        """Return a copy of the state. ``is_end``: between two passes, when there is no iterator."""
        packed = pack(self.owner.state_dict())
        if self._beside is not None and not is_end:
            packed[_BESIDE] = pack(self._beside.state_dict())
        return packed

    def leave(self) -> None:
        """Remove what loading has left in the source, at the end of the pass. Idempotent."""
        residue, self._residue = self._residue, None
        if residue is not None:
            residue.clear()

    def forget(self) -> None:
        self.source = self.owner = self._beside = None


def has_state(what: object) -> bool:
    """Return whether an object can save and load its state."""
    return all(callable(getattr(type(what), name, None)) for name in ("state_dict", "load_state_dict"))


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
