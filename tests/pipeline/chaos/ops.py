"""What the children of these tests run. Functions of a module, for they are sent by name."""

import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["endless", "holding_the_gil", "numbers", "pid_of", "stuck", "with_array"]


def numbers(num_items: int = 1000) -> Iterator[int]:
    yield from range(num_items)


def endless() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def pid_of(item: Any) -> tuple[int, Any]:
    """The item, and which process it was in."""
    return os.getpid(), item


def with_array(item: int) -> tuple[int, int, np.ndarray[Any, Any]]:
    """The same with something large."""
    return os.getpid(), item, np.full(100_000, item, dtype=np.int32)


def stuck() -> Iterator[int]:
    """Says its process, and never more."""
    yield os.getpid()
    threading.Event().wait()


def holding_the_gil() -> Iterator[int]:
    """The same without ever letting go of the interpreter."""
    yield os.getpid()
    re.match(r"(a|a)*b", "a" * 60)
