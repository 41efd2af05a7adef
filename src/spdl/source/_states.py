"""States of sources: plain dictionaries, checked when they are loaded; and resuming an iterable at a position."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice
from operator import length_hint
from typing import Any, Final, Generic, TypeVar

from spdl.resume._values import Residue, ResumeError, is_stateful

T = TypeVar("T")

_VERSION: Final = 1
_MOST: Final = sys.maxsize - 1


def make_state(kind: str, **values: Any) -> dict[str, Any]:
    """Make the state of a source of this kind."""
    return {"kind": kind, "version": _VERSION, **values}


def read_state(state: object, kind: str, **made_with: Any) -> Mapping[str, Any]:
    """Check a state, and return it.

    Args:
        made_with: Arguments of the source that must equal those of the saved source.

    Raises:
        ResumeError: It is not a state, or it belongs to another kind or version, or to a source with other arguments.
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
    """Return an integer >= 0 from a state.

    Raises:
        ResumeError: It is missing, not an integer, or out of range.
    """
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or (most is not None and value > most):
        limits = "an integer >= 0" if most is None else f"an integer in [0, {most}]"
        raise ResumeError(f"cannot load a state into {state['kind']}: its {name!r} must be {limits}, got {value!r}")
    return value


def read_integers(state: Mapping[str, Any], *names: str) -> list[int]:
    """Return integers from a state.

    Raises:
        ResumeError: One is missing or not an integer.
    """
    for name in names:
        value = state.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ResumeError(
                f"cannot load a state into {state['kind']}: its {name!r} must be an integer, got {value!r}"
            )
    return [state[name] for name in names]


class Counted(Generic[T]):
    """An iterator that counts its items, from ``before`` on, at a tenth of the cost of a Python loop."""

    __slots__ = ("_before", "_counter", "items")

    def __init__(self, iterator: Iterator[T], before: int = 0) -> None:
        self._before = before
        # compress() takes an item, then a number, which is never 0, so it yields the item.
        self._counter = iter(range(1, sys.maxsize))
        #: The counted iterator. Exhausted when the original iterator is.
        self.items: Iterator[T] = compress(iterator, self._counter)

    @property
    def count(self) -> int:
        """The number of items yielded, including those before."""
        return self._before + _MOST - length_hint(self._counter)


def go_on(source: Iterable[T], count: int, state: Mapping[str, Any] | None) -> Iterator[T]:
    """Iterate over a source from item number ``count`` on.

    Args:
        source: A sequence is indexed from ``count`` on; another iterable is read from its start, and items are dropped.
        count: Number of items already yielded.
        state: State of the source, if it has ``load_state_dict``. Then no items are read and dropped.

    Raises:
        ResumeError: The source has fewer items, or cannot load the state.
    """
    if state is not None:
        if not is_stateful(source):
            raise ResumeError(
                f"cannot resume a source of type {type(source).__qualname__}: the state belongs to a source that has "
                "state_dict() and load_state_dict()"
            )
        residue = Residue(source)
        source.load_state_dict(state)  # type: ignore[attr-defined]  # just checked
        residue.note_loaded()
        return _one_pass(iter(source), residue)
    if count == 0:
        return iter(source)
    if isinstance(source, Sequence):
        _check_length(source, len(source), count)
        return map(source.__getitem__, range(count, len(source)))
    counted = Counted(iter(source))
    next(islice(counted.items, count, count), None)
    _check_length(source, counted.count, count)
    return counted.items


def _one_pass(iterator: Iterator[T], residue: Residue) -> Iterator[T]:
    """A pass from a loaded state, which the next one must not begin from again."""
    try:
        yield from iterator
    finally:
        residue.clear()


def _check_length(source: object, length: int, count: int) -> None:
    if length < count:
        raise ResumeError(
            f"cannot resume at item {count} of a source of type {type(source).__qualname__}: it has only {length} "
            "items. It has changed since the state was taken"
        )
