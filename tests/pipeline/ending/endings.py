"""Sources without an end, and the threads that a pipeline has left, for the tests of starting and stopping."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Iterator

from spdl.pipeline import Pipeline
from tests.support.running import build_of

__all__ = ["Endless", "Silent", "new_threads", "of_numbers", "threads"]


def of_numbers(num_items: int = 3, *, sink: int = 3) -> Pipeline[int]:
    pipeline: Pipeline[int] = build_of(range(num_items), sink=sink).build(num_threads=2)
    return pipeline


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def new_threads(before: set[threading.Thread]) -> list[str]:
    return [thread.name for thread in threads() - before]


class Endless:
    """Counts for ever; ``asked(k)`` is set when item ``k`` is wanted, so when item ``k - 1`` has been handed over."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.events: dict[int, threading.Event] = {}
        self.lock = threading.Lock()

    def asked(self, index: int) -> threading.Event:
        with self.lock:
            return self.events.setdefault(index, threading.Event())

    def __iter__(self) -> Iterator[int]:
        try:
            for index in itertools.count():
                self.asked(index).set()
                yield index
        finally:
            self.closed.set()


class Silent:
    """A source that never gives anything and can be cancelled at once."""

    async def __aiter__(self) -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 0
