"""What tests run in other processes. Imports little, because every child imports it anew."""

import multiprocessing
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_noted: list[Any] = []


def where(item: Any) -> tuple[Any, int, int]:
    """The item, the process, and the process that owns it."""
    parent = multiprocessing.parent_process()
    return item, os.getpid(), 0 if parent is None or parent.pid is None else parent.pid


def then_where(item: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*item, os.getpid())


def thread_name(item: Any) -> str:
    return threading.current_thread().name


def note(*words: Any) -> None:
    """An initializer."""
    _noted.extend(words)


def note_thread() -> None:
    _noted.append(threading.current_thread().name)


def noted(item: Any) -> list[Any]:
    return list(_noted)


def fail(*words: Any) -> None:
    raise OSError(5, "no disk")


def leave(*words: Any) -> None:
    os._exit(3)


def twice(item: Any) -> Iterator[Any]:
    yield item
    yield item


def pick(item: int) -> Any:
    """Every way in which a call can go wrong, and numbers that pass."""
    if item == 1:
        raise ValueError("one")
    if item == 2:
        return lambda: None  # cannot be sent back
    if item == 3:
        sys.exit("three")
    return item


def unpicklable(item: int) -> Any:
    return (lambda: None) if item == 1 else item


def die(item: int, *, at: int = 3) -> int:
    if item == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def filled(item: int) -> Any:
    import numpy as np

    return np.full((4, 300_000), item, np.int32)


def total(item: Any) -> int:
    """Of an array, which must be writable: ops work in place."""
    item[0, 0] += 1
    return int(item.sum())


def touch(folder: Path) -> None:
    """An initializer that leaves a file for each process."""
    (folder / str(os.getpid())).touch()


class Epochs:
    """The k-th time ``(k, 0) … (k, size - 1)``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_epochs = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.num_epochs
        self.num_epochs += 1
        return iter([(epoch, k) for k in range(self.size)])


def double(item: int) -> int:
    return 2 * item


def refuse(item: int) -> int:
    raise ValueError(f"refused {item}")


def double_first(item: tuple[int, int]) -> tuple[int, int]:
    return 2 * item[0], item[1]


def seed() -> None:
    random.seed(5)


def draw(item: Any) -> float:
    return random.random()
