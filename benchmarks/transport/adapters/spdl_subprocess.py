"""``iterate_in_subprocess``: this checkout's or the reference's, whichever the interpreter has.

``plain``: the default memory. ``pool`` and ``ring``: an explicit arena, with room for the items that wait, one that is
being written and one that is being read. Bytes smaller than a page never go through an arena.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

from benchmarks._contest.ours import spdl_version
from benchmarks.transport._work import Producer, Work
from spdl.pipeline import SharedMemoryRingBuffer, SharedMemorySegmentPool, iterate_in_subprocess

_PAGE = 4096


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def open_way(stack: ExitStack, way: str, work: Work, num_items: int) -> Iterable[Any] | None:
    if way != "plain" and work.num_bytes < _PAGE:
        return None
    room, size = work.buffer_size + 2, work.num_bytes + _PAGE
    arena = None
    if way == "pool":
        arena = SharedMemorySegmentPool(size, room)
    if way == "ring":
        arena = SharedMemoryRingBuffer(size * room)
    return iterate_in_subprocess(partial(Producer, work, num_items), buffer_size=work.buffer_size, arena=arena)
