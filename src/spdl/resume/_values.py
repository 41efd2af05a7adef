"""States of user objects inside a document: as JSON if that is exact, else pickled; and the error of all states."""

from __future__ import annotations

import base64
import io
import math
import pickle
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final


class ResumeError(ValueError):
    """A state cannot be loaded, saved or combined. The attempt has changed nothing.

    The message names the state, says what is wrong with it or how it differs from the expected one, and what to do.
    ``__cause__`` is the error of the parser or of the operating system, if any.
    """


def is_stateful(what: object) -> bool:
    """Whether an object can save its position and resume from it: ``state_dict()`` and ``load_state_dict(state)``."""
    return callable(getattr(what, "state_dict", None)) and callable(getattr(what, "load_state_dict", None))


def pack(value: Any) -> dict[str, Any]:
    """A copy: ``{"state": value}``, or ``{"pickled": text}`` if JSON would change the value: tuples, tensors, NaN.

    Args:
        value: Result of a user's ``state_dict()``, which the user's object may change later.

    Raises:
        ResumeError: It cannot be pickled.
    """
    try:
        return {"state": _copied(value)}
    except (_Inexact, RecursionError):
        pass
    try:
        return {"pickled": base64.b64encode(_pickled(value)).decode("ascii")}
    except Exception as exc:
        raise ResumeError(
            f"cannot write the state of a {type(value).__qualname__}: it cannot be pickled ({exc}). A state_dict() "
            "must return numbers, text, lists, dictionaries, or objects that can be pickled"
        ) from exc


def unpack(packed: Any, what: str) -> Any:
    """The value that :func:`pack` was given. ``what`` is the owner of the state, for messages.

    Unpickling runs code: load only states that you trust, as with ``torch.load``.

    Raises:
        ResumeError: It is not a packed value, or it cannot be unpickled.
    """
    if isinstance(packed, dict) and "state" in packed:
        return packed["state"]
    try:
        return pickle.loads(base64.b64decode(packed["pickled"], validate=True))
    except Exception as exc:
        raise ResumeError(f"cannot read the state of {what}: {exc} ({type(exc).__name__})") from exc


class _Pickler(pickle.Pickler):
    """Pickles tensors by their values, so that equal states are equal texts: torch's way has the address of the memory.

    It also has the whole memory of a view. Other tensors than those with plain values in main memory go torch's way.
    """

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind.__module__ != "torch" or kind.__qualname__ != "Tensor" or obj.requires_grad or vars(obj):
            return NotImplemented
        try:
            return _tensor, (obj.numpy(),)
        except (TypeError, RuntimeError):  # sparse, on a device, of a type that NumPy lacks
            return NotImplemented


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def _tensor(values: Any) -> Any:
    """Used by pickled states."""
    return import_module("torch").from_numpy(values)  # only a state that has tensors needs it


class _Inexact(Exception):
    """JSON would change the value."""


def _copied(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [_copied(each) for each in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: _copied(each) for key, each in value.items()}
    raise _Inexact


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
