"""The producer's work alone, in the consuming process: the lower bound for every transport.

``reused``: into the same memory every time, as a transport without a copy does once its memory is warm.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.transport._work import Producer, Work, make_memory


def versions() -> dict[str, str]:
    return {"numpy": np.__version__}


def open_way(stack: ExitStack, way: str, work: Work, num_items: int) -> Iterable[Any] | None:
    if way == "fresh":
        return Producer(work, num_items)
    return None if work.dtype == "bytes" else Producer(work, num_items, lru_cache(make_memory))
