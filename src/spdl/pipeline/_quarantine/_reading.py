"""Reads quarantine files."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from typing import Any, TypeAlias

from spdl._reports import log

_LOG = logging.getLogger("spdl.pipeline")

Key: TypeAlias = "int | str | None"


@dataclass(frozen=True, slots=True)
class QuarantinedItem:
    """A line of a quarantine file.

    Attributes:
        keys: Items that the source gave: one, or all items of a batch that failed as a whole. ``None`` for an item that
            is neither a number, a text nor a path.
        stage: Name of the stage.
        error: Name of the class of the exception.
        message: Its text.
        line: The line as it is in the file.
        size: If the keys are indices, the number of items that the source had; ``None``: not known.
    """

    keys: tuple[Key, ...]
    stage: str
    error: str
    message: str
    line: str
    size: int | None = None

    @property
    def key(self) -> Key:
        """The key of a single item. ``None``: the item has no key, or a whole batch failed."""
        return self.keys[0] if len(self.keys) == 1 else None


def read_quarantine(path: str | os.PathLike[str]) -> list[QuarantinedItem]:
    """Return the lines of a file. Damaged lines are skipped, with one warning.

    Raises:
        OSError: The file cannot be read.
    """
    found: list[QuarantinedItem] = []
    num_damaged = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                continue
            item = _item_of(line)
            if item is None:
                num_damaged += 1
            else:
                found.append(item)
    if num_damaged:
        text = "skipped %d lines of %s that are damaged or not from a quarantine file"
        log(_LOG, logging.WARNING, text, num_damaged, os.fspath(path))
    return found


def _item_of(line: str) -> QuarantinedItem | None:
    try:
        values: Any = json.loads(line)
        if values["v"] != 1:
            return None
        keys = values["key"]
        keys = tuple(keys) if isinstance(keys, list) else (keys,)
        if not all(key is None or type(key) in (int, str) for key in keys):
            return None
        stage, error, message = values["stage"], values["error"], values["message"]
        size = values.get("size")
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not all(isinstance(each, str) for each in (stage, error, message)):
        return None
    return QuarantinedItem(keys, stage, error, message, line.rstrip("\n"), size if type(size) is int else None)
