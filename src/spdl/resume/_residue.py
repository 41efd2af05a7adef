"""``Residue``: what ``load_state_dict()`` leaves in an object after the pass that resumes from the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ._values import pack

_MISSING: Final = object()
#: Containers with more elements are compared as one value.
_MOST: Final = 1000


class Residue:
    """What a loaded state says about where *every* pass begins, so that it can be removed after the first one.

    Some objects note the state and start each pass from it, such as ``datasets.IterableDataset``: all later passes
    would be as short as the first. Others forget it, or continue from it, and must be left alone. The difference shows
    in the attributes that the loading has changed, here and in parts with a state of their own: one that the pass has
    not used up, and that ``state_dict()`` does not depend on, only says where passes begin.

    Args:
        source: The object, before it loads a state.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._before = [(part, _attributes(part)) for part in _parts(source, set())]
        self._changed: list[tuple[Any, str, Any, Any]] = []

    def note_loaded(self) -> None:
        """Note what the loading has changed."""
        for part, before in self._before:
            after = _attributes(part)
            for name in before.keys() | after.keys():
                old, new = before.get(name, _MISSING), after.get(name, _MISSING)
                if not _is_same(old, new):
                    self._changed.append((part, name, old, new))
        self._before = []

    def clear(self) -> None:
        """Remove it. Called after the pass, or when it is given up. Idempotent."""
        changed, self._changed = self._changed, []
        for part, name, old, new in changed:
            current = vars(part).get(name, _MISSING)
            if not _is_same(new, current):
                continue
            try:
                state = pack(self._source.state_dict())
                _put(part, name, old)
                if pack(self._source.state_dict()) != state:
                    _put(part, name, current)
            except Exception:  # noqa: BLE001 - of user code, which needs the attribute
                _put(part, name, current)


def _parts(what: Any, seen: set[int]) -> Iterator[Any]:
    """The object, and all those in it that have a state of their own."""
    if id(what) in seen:
        return
    seen.add(id(what))
    if isinstance(what, list | tuple | dict):
        if len(what) <= _MOST:
            for each in what.values() if isinstance(what, dict) else what:
                yield from _parts(each, seen)
    elif callable(getattr(type(what), "load_state_dict", None)) and hasattr(what, "__dict__"):
        yield what
        for each in [*vars(what).values()]:
            yield from _parts(each, seen)


def _attributes(what: Any) -> dict[str, Any]:
    return {name: _kept(value) for name, value in vars(what).items()}


def _kept(value: Any) -> Any:
    return value.copy() if type(value) in (dict, list, set) and len(value) <= _MOST else value


def _is_same(one: Any, other: Any) -> bool:
    """Whether it is the same object or an equal plain value."""
    kind = type(one)
    if one is other or kind is not type(other):
        return one is other
    if kind in (list, tuple) and len(one) == len(other) <= _MOST:
        return all(map(_is_same, one, other))
    if kind is dict and one.keys() == other.keys():
        return all(_is_same(one[key], other[key]) for key in one)
    return kind in (int, float, str, bytes, bool) and bool(one == other)


def _put(what: Any, name: str, value: Any) -> None:
    if value is _MISSING:
        delattr(what, name)
    else:
        setattr(what, name, value)
