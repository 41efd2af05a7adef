"""``add_source(exclude=...)``: the items that a source leaves out."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from spdl._random import key_of
from spdl._reports import log

from ._reading import read_quarantine

__all__ = ["exclusion"]

_LOG = logging.getLogger("spdl.pipeline")


def exclusion(given: Any) -> Callable[[Any], bool]:
    """Return a function that returns whether an item is excluded.

    Args:
        given: A predicate, the path of a quarantine file, or keys. A file that does not exist excludes nothing: nothing
            has failed yet.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a quarantine file.
        TypeError: A key is neither a number, a text nor a path.
    """
    if callable(given):
        return given  # type: ignore[no-any-return]
    keys = _keys_in(given) if isinstance(given, str | os.PathLike) else frozenset(map(_checked_key, given))
    return lambda item: key_of(item) in keys


def _checked_key(item: Any) -> Any:
    key = key_of(item)
    if key is None:
        raise TypeError(
            f"exclude must hold numbers, texts or paths, got {item!r} of type {type(item).__qualname__}; to exclude "
            "others, give a function of an item"
        )
    return key


def _keys_in(path: str | os.PathLike[str]) -> frozenset[Any]:
    try:
        lines = read_quarantine(path)
    except FileNotFoundError:
        return frozenset()
    if not lines and os.path.getsize(path):
        raise ValueError(
            f"{os.fspath(path)} is not a quarantine file: it has no line of one. Give keys of a file of your own as an "
            "iterable, such as Path(file).read_text().splitlines()"
        )
    keys = frozenset(line.key for line in lines if line.key is not None)
    if num_others := sum(line.key is None for line in lines):
        text = "%d of %d lines of %s exclude nothing: whole batches, and items that are neither number, text nor path"
        log(_LOG, logging.WARNING, text, num_others, len(lines), os.fspath(path))
    return keys
