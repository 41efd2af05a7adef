"""Batches as people nest them: the same shape again, with other leaves. Imports nothing of ours."""

import copy
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

__all__ = ["map_leaves"]

T = TypeVar("T")
_UNSET = object()


def map_leaves(change: Callable[[Any], Any], obj: T, *, whole: tuple[type, ...] = ()) -> T:
    """Rebuild nested containers with every leaf changed.

    Goes through lists, tuples, named tuples, mappings (dict, defaultdict, ``UserDict`` and its like) and dataclasses,
    and subclasses of all these; everything else is a leaf: strings, sets, arrays. Keys are left alone.

    Args:
        change: Called with each leaf, in order; what it returns takes its place.
        obj: What to go through. It is not modified.
        whole: Types that are leaves even if they are containers.

    Returns:
        ``obj`` itself if every leaf stayed the very same object; so do the parts of it of which this is true. Else
        copies of the containers, of the same types: attributes, default factories and whatever else a container
        carries are kept. A copied dataclass is not initialised again: ``__post_init__`` does not run.

    Raises:
        TypeError: A container whose leaves changed can neither be modified nor be made anew from its items.
    """
    if isinstance(obj, whole):
        return change(obj)  # type: ignore[no-any-return]
    if isinstance(obj, list | tuple):
        old = list(obj)
        new = [map_leaves(change, value, whole=whole) for value in old]
        if all(value is other for value, other in zip(old, new, strict=True)):
            return obj
        return _sequence_like(obj, new)  # type: ignore[no-any-return]
    if isinstance(obj, Mapping):
        changed = _changed(change, list(obj.items()), whole)
        return _mapping_like(obj, changed) if changed else obj
    if is_dataclass(obj) and not isinstance(obj, type):
        # A slot may be empty.
        values = [(field.name, getattr(obj, field.name, _UNSET)) for field in fields(obj)]
        changed = _changed(change, [(name, value) for name, value in values if value is not _UNSET], whole)
        if not changed:
            return obj
        copied = copy.copy(obj)
        for name, value in changed.items():
            object.__setattr__(copied, name, value)  # frozen ones too: nobody has seen the copy yet
        return copied
    return change(obj)  # type: ignore[no-any-return]


def _changed(change: Callable[[Any], Any], items: list[tuple[Any, Any]], whole: tuple[type, ...]) -> dict[Any, Any]:
    results = ((key, value, map_leaves(change, value, whole=whole)) for key, value in items)
    return {key: result for key, value, result in results if result is not value}


def _sequence_like(obj: Any, values: list[Any]) -> Any:
    if type(obj) is list:
        return values
    if type(obj) is tuple:
        return tuple(values)
    if isinstance(obj, list):
        copied = copy.copy(obj)
        copied[:] = values
        return copied
    if hasattr(obj, "_make") and hasattr(obj, "_fields"):
        return obj._make(values)
    return _made_of(obj, values)


def _mapping_like(obj: Any, changed: dict[Any, Any]) -> Any:
    if type(obj) is dict:
        return {**obj, **changed}
    if not isinstance(obj, MutableMapping):
        return _made_of(obj, {**obj, **changed})
    copied = copy.copy(obj)
    if copied is obj:
        raise TypeError(f"cannot put other values into {type(obj).__qualname__}: a copy of it is the object itself")
    for key, value in changed.items():
        copied[key] = value
    return copied


def _made_of(obj: Any, content: Any) -> Any:
    """Another of a type that cannot be modified, from its items. It may take them for something else: look."""
    reason = "it takes them for something else"
    try:
        made = type(obj)(content)
        found = list(made.values()) if isinstance(content, dict) else list(made)
    except TypeError as exc:
        reason = str(exc)
    else:
        wanted = list(content.values()) if isinstance(content, dict) else content
        if len(found) == len(wanted) and all(one is other for one, other in zip(found, wanted, strict=True)):
            return made
    raise TypeError(
        f"cannot make another {type(obj).__qualname__} with other values: it is not to be had from its items alone"
        f" ({reason}). Use a named tuple, a dataclass or a dict."
    )
