"""``iterate_in_subprocess`` of this checkout, with batches made in the memory where they are read."""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from benchmarks.transport._work import Producer, Work
from spdl.pipeline import arena_slot, iterate_in_subprocess

from .spdl_subprocess import versions as versions


def memory_in_arena(work: Work) -> Any:
    """The memory to which the transport would copy the batch."""
    return np.frombuffer(arena_slot(work.num_bytes), work.dtype).reshape(work.shape)


def open_way(stack: ExitStack, way: str, work: Work, num_items: int) -> Iterable[Any] | None:
    if work.dtype == "bytes":
        return None
    producer = partial(Producer, work, num_items, memory_in_arena)
    return iterate_in_subprocess(producer, buffer_size=work.buffer_size)
