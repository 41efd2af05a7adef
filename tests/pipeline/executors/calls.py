"""What the tests of priority executors call, here and in other processes."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, wait
from contextlib import contextmanager


@contextmanager
def busy(entry: Executor, num_workers: int = 1) -> Iterator[None]:
    """Keep all workers of a thread pool busy, so that what is submitted in the body has to queue."""
    gate = threading.Event()
    reached = threading.Barrier(num_workers + 1)

    def hold() -> None:
        reached.wait()
        gate.wait()

    held = [entry.submit(hold) for _ in range(num_workers)]
    reached.wait()
    try:
        yield
    finally:
        gate.set()
        wait(held)


def double(x: int) -> int:
    return 2 * x


def fail(message: str) -> None:
    raise LookupError(message)


def die() -> None:
    os._exit(3)
