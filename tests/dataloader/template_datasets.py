"""Datasets for what worker processes that are forked from a template have in common, and what not."""

import multiprocessing
import os
from typing import Any

#: Where this module was imported, and what is done to it there.
IMPORTED_IN = os.getpid()
SEEN: list[int] = []


class Telling:
    """Its samples say where they were loaded."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, Any]:
        SEEN.append(index)
        parent = multiprocessing.parent_process()
        return {
            "index": index,
            "pid": os.getpid(),
            "imported in": IMPORTED_IN,
            "seen": list(SEEN),
            "parent": parent.pid if parent is not None else None,
            "method": multiprocessing.get_start_method(allow_none=True),
            "name": multiprocessing.current_process().name,
            "daemon": multiprocessing.current_process().daemon,
            "descriptors": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in _descriptors()),
        }


def _descriptors() -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            os.readlink(f"/proc/self/fd/{fd}")
        except OSError:  # the one that listed the folder
            continue
        found.append(fd)
    return found


def as_is(value: Any) -> Any:
    return value
