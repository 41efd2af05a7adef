"""``add_source(exclude=..., exclude_keys=...)``: the items that a source leaves out."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any, Final

from spdl._random import key_of
from spdl._reports import log, name_of
from spdl.pipeline._engine._passes import rank_and_world

from ._failed_items import read_quarantine

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOG = logging.getLogger("spdl.pipeline")
#: Sources whose items can be looked at before the pipeline runs.
_KNOWN: Final = (list, tuple, range, str, dict, set, frozenset)
#: Set by launchers of several processes, each of which may have a share of the items.
_WORLDS: Final = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")


def exclusion(
    given: Any, own_keys: Iterable[Any] | None, source: Any, quarantine: str | os.PathLike[str] | None
) -> Callable[[Any], bool]:
    """Return a function that returns whether an item is excluded by ``exclude=given`` and ``exclude_keys=own_keys``.

    The quarantine file of the pipeline may be missing: nothing has failed yet.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is not a quarantine file or has indices of another number of items, or nothing is excluded.
        TypeError: A key is neither a number, a text nor a path.
    """
    keys = None if own_keys is None else frozenset(_checked_key(key, "exclude_keys") for key in own_keys)
    if callable(given):
        if keys is None:
            return given  # type: ignore[no-any-return]
        excluded: Callable[[Any], bool] = _Excluded(keys, "exclude_keys")
        return lambda item: given(item) or excluded(item)
    files, others = _split(given)
    if given is not None and not files and not others:
        raise ValueError("exclude is an empty list, which excludes nothing; pass None to exclude nothing")
    keys = (keys or frozenset()) | frozenset(others)
    if keys and not files:
        _check_matches(keys, source)
    what = "exclude_keys" if given is None else f"exclude={given!r}"
    for file in files:
        for path in _found(file, quarantine):
            keys |= _keys_in(path, source)
    return _Excluded(keys, what)


def size_of(source: Any) -> int | None:
    """Return the number of items that the indices of a source refer to; ``None``: unknown."""
    with suppress(Exception):  # of the user's class: some raise in __len__
        for name in ("num_global", "data_source", "dataset"):  # of our samplers, and of those of torch
            found: Any = getattr(source, name, None)
            if type(found) is int:
                return found
            if hasattr(type(found), "__len__"):
                return len(found)
        if hasattr(type(source), "__len__") and rank_and_world(source) == (0, 1):
            return len(source)
    return None


class _Excluded:
    """Whether an item is one of the keys. Warns at the end of a pass if no item was."""

    __slots__ = ("example", "has_matched", "keys", "what")

    def __init__(self, keys: frozenset[Any], what: str) -> None:
        self.keys = keys
        self.what = what
        self.example: Any = None  # a key that is not excluded
        self.has_matched = False

    def __call__(self, item: Any) -> bool:
        key = key_of(item)
        if key in self.keys and key is not None:
            self.has_matched = True
            return True
        self.example = key
        return False

    def end_pass(self) -> None:
        """Called when the source has given all its items."""
        if not self.has_matched and self.keys and self.example is not None:
            self.has_matched = True  # warns once
            text = "%s excludes nothing: the source gave no item with one of its %d keys, such as %r; others, like %r"
            log(_LOG, logging.WARNING, text, self.what, len(self.keys), next(iter(self.keys)), self.example)


def _split(given: Any) -> tuple[list[str], list[Any]]:
    """Return the quarantine files and patterns of files in ``exclude``, and the keys in it."""
    if given is None:
        return [], []
    if isinstance(given, str | os.PathLike):
        return [os.fspath(given)], []
    files: list[str] = []
    keys: list[Any] = []
    for item in given:
        key = _checked_key(item, "exclude")
        if isinstance(key, str) and (key.endswith(".jsonl") or _is_pattern(key)):
            files.append(key)
        else:
            keys.append(key)
    return files, keys


def _checked_key(item: Any, name: str) -> Any:
    key = key_of(item)
    if key is None:
        raise TypeError(
            f"{name} must hold numbers, texts or paths, got {item!r} of type {type(item).__qualname__}; to exclude "
            "others, give a function of an item"
        )
    return key


def _is_pattern(text: str) -> bool:
    return any(character in text for character in "*?[")


def _found(file: str, quarantine: str | os.PathLike[str] | None) -> list[str]:
    """Return the files that a path or a pattern names."""
    if os.path.exists(file):
        return [file]
    if found := sorted(glob.glob(file, recursive=True)):
        return found
    if quarantine is not None:
        wanted, own = os.path.abspath(file), os.path.abspath(quarantine)
        if own == wanted or (_is_pattern(file) and fnmatch(own, wanted)):
            return []  # this run creates it
    raise FileNotFoundError(
        f"exclude={file!r} excludes nothing: {'no file matches it' if _is_pattern(file) else 'there is no such file'}. "
        "Correct the path; pass the same file as build(quarantine=...), which creates it; or, if it is the key of an "
        "item, use exclude_keys"
    )


def _keys_in(path: str, source: Any) -> frozenset[Any]:
    lines = read_quarantine(path)
    if not lines and os.path.getsize(path):
        raise ValueError(
            f"{path} is not a quarantine file: it has no line of one. Give keys of a file of your own as exclude_keys, "
            "such as exclude_keys=Path(file).read_text().splitlines()"
        )
    if (size := size_of(source)) is not None:
        for line in lines:
            if type(line.key) is int and line.size is not None and line.size != size:
                raise ValueError(
                    f"cannot exclude by {path}: its keys are indices of {line.size:,} items, and {name_of(source)} has "
                    f"{size:,} now, so they may mean other items. Delete the file, or let the source give names that "
                    "do not change, such as paths"
                )
    keys = frozenset(line.key for line in lines if line.key is not None)
    if num_others := sum(line.key is None for line in lines):
        text = "%d of %d lines of %s exclude nothing: whole batches, and items that are neither number, text nor path"
        log(_LOG, logging.WARNING, text, num_others, len(lines), path)
    return keys


def _check_matches(keys: frozenset[Any], source: Any) -> None:
    """Refuse keys given by hand, of which none is an item of a source whose items are known.

    Not in one of several processes, whose share may have none of them.
    """
    if not isinstance(source, _KNOWN) or not source or any(_world(name) > 1 for name in _WORLDS):
        return
    if isinstance(source, range):
        has_matched = any(key in source for key in keys if type(key) is int)
    else:
        has_matched = any(key_of(item) in keys for item in source)
    if not has_matched:
        raise ValueError(
            f"the keys to exclude match nothing: none of the {len(keys)} keys, such as {next(iter(keys))!r}, is an "
            f"item of the source, such as {key_of(next(iter(source)))!r}"
        )


def _world(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 1
