"""States of sources: plain dictionaries, checked when they are loaded; and iterables that go on where they were."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from operator import length_hint
from typing import Any, Final, Generic, TypeVar

from spdl.resume._errors import ResumeError

__all__ = ["Counted", "go_on", "is_stateful", "make_state", "read_count", "read_integers", "read_state"]

T = TypeVar("T")

_VERSION: Final = 1
_MOST: Final = sys.maxsize - 1


def make_state(kind: str, **values: Any) -> dict[str, Any]:
    """The state of a source of this kind."""
    return {"kind": kind, "version": _VERSION, **values}


def read_state(state: object, kind: str, **made_with: Any) -> Mapping[str, Any]:
    """Check a state, and return it.

    Args:
        state: What the user gave.
        kind: The source that is to go on from it.
        made_with: Arguments of the source that must be the same as those of the source that has been saved.

    Raises:
        ResumeError: It is no state, of another source or version, or of one made with other arguments.
    """
    if not isinstance(state, Mapping):
        raise ResumeError(
            f"cannot load a state into {kind}: a state is a dictionary as state_dict() returns it, got an object of "
            f"type {type(state).__qualname__}"
        )
    if state.get("kind") != kind:
        raise ResumeError(f"cannot load a state into {kind}: it is the state of {state.get('kind', 'something else')}")
    if state.get("version") != _VERSION:
        raise ResumeError(
            f"cannot load a state into {kind}: it has version {state.get('version')!r}, and this release of SPDL reads "
            f"version {_VERSION}. Load it with the release that saved it"
        )
    for name, own in made_with.items():
        if state.get(name) != own:
            raise ResumeError(
                f"cannot load a state into {kind}: {name} was {state.get(name)!r} and is {own!r}. Make it with the "
                "same arguments"
            )
    return state


def read_count(state: Mapping[str, Any], name: str, most: int | None = None) -> int:
    """Return a number >= 0 of a state.

    Raises:
        ResumeError: It is missing, no number, or out of range.
    """
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or (most is not None and value > most):
        limits = "an integer >= 0" if most is None else f"an integer in [0, {most}]"
        raise ResumeError(f"cannot load a state into {state['kind']}: its {name!r} must be {limits}, got {value!r}")
    return value


def read_integers(state: Mapping[str, Any], *names: str) -> list[int]:
    """Return numbers of a state.

    Raises:
        ResumeError: One is missing or no integer.
    """
    for name in names:
        value = state.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ResumeError(
                f"cannot load a state into {state['kind']}: its {name!r} must be an integer, got {value!r}"
            )
    return [state[name] for name in names]


def is_stateful(source: object) -> bool:
    """Whether it can say where it is, and go on from there."""
    return callable(getattr(source, "state_dict", None)) and callable(getattr(source, "load_state_dict", None))


class Counted(Generic[T]):
    """An iterator, and how many items it has given. Counting costs a tenth of what a loop in Python would.

    Args:
        iterator: Whose items these are.
        before: How many were given before, by others.
    """

    __slots__ = ("_before", "_counter", "items")

    def __init__(self, iterator: Iterator[T], before: int = 0) -> None:
        self._before = before
        # compress() takes an item, then a number, which is not 0, so the item is given.
        self._counter = iter(range(1, sys.maxsize))
        #: What is counted. Exhausted when the iterator is.
        self.items: Iterator[T] = compress(iterator, self._counter)

    @property
    def count(self) -> int:
        """How many items have been given, with those before."""
        return self._before + _MOST - length_hint(self._counter)


def go_on(source: Iterable[T], count: int, state: Mapping[str, Any] | None) -> Iterator[T]:
    """Iterate over a source from the item of this number on.

    Args:
        source: If it is a sequence, nothing before is read; else it is read from its start and the items are dropped.
        count: How many items have been given.
        state: That of the source, if it has ``load_state_dict``. Then nothing is read.

    Raises:
        ResumeError: It has fewer items, or cannot load the state.
    """
    if state is not None:
        if not is_stateful(source):
            raise ResumeError(
                f"cannot go on with a source of type {type(source).__qualname__}: the state is of one that has "
                "state_dict() and load_state_dict()"
            )
        source.load_state_dict(state)  # type: ignore[attr-defined]  # just checked
        return iter(source)
    if count == 0:
        return iter(source)
    if isinstance(source, Sequence):
        _check_length(source, len(source), count)
        return map(source.__getitem__, range(count, len(source)))
    counted = Counted(iter(source))
    next(islice(counted.items, count, count), None)
    _check_length(source, counted.count, count)
    return counted.items


def _check_length(source: object, length: int, count: int) -> None:
    if length < count:
        raise ResumeError(
            f"cannot go on at item {count} of a source of type {type(source).__qualname__}: it has only {length} "
            "items. It has changed since the state was taken"
        )
