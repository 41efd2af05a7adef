"""Rebuild nested containers with other leaves. Imports no other module of the package."""

import copy
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")
_UNSET = object()


def map_leaves(change: Callable[[Any], Any], obj: T, *, whole: tuple[type, ...] = ()) -> T:
    """Rebuild nested containers with every leaf changed.

    Descends into lists, tuples, named tuples, mappings (dict, defaultdict, ``UserDict`` and so on) and dataclasses,
    and subclasses of all these; everything else is a leaf: strings, sets, arrays. Keys are not changed.

    Args:
        change: Function of a leaf, called in order; its result replaces the leaf.
        obj: The nested containers. They are not modified.
        whole: Types that are leaves even if they are containers.

    Returns:
        ``obj`` itself if every leaf stayed the same object; this also holds for each nested container. Otherwise
        copies of the containers, of the same types, with their attributes, default factories and so on. A copied
        dataclass is not initialised again: ``__post_init__`` does not run.

    Raises:
        TypeError: A container with changed leaves can be neither modified nor rebuilt from its items.
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
        # A slot may be unset.
        values = [(field.name, getattr(obj, field.name, _UNSET)) for field in fields(obj)]
        changed = _changed(change, [(name, value) for name, value in values if value is not _UNSET], whole)
        if not changed:
            return obj
        copied = copy.copy(obj)
        for name, value in changed.items():
            object.__setattr__(copied, name, value)  # works if frozen too; nothing else refers to the copy yet
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
    return _rebuilt(obj, values)


def _mapping_like(obj: Any, changed: dict[Any, Any]) -> Any:
    if type(obj) is dict:
        return {**obj, **changed}
    if not isinstance(obj, MutableMapping):
        return _rebuilt(obj, {**obj, **changed})
    copied = copy.copy(obj)
    if copied is obj:
        raise TypeError(f"cannot change the values of {type(obj).__qualname__}: copy.copy returns the object itself")
    for key, value in changed.items():
        copied[key] = value
    return copied


def _rebuilt(obj: Any, content: Any) -> Any:
    """Rebuild an immutable container from its items, and check that the constructor took them as items."""
    reason = "its constructor does not take them as items"
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
        f"cannot make another {type(obj).__qualname__} with other values: it cannot be rebuilt from its items"
        f" ({reason}). Use a named tuple, a dataclass or a dict."
    )
