"""Hand-written ``multiprocessing.Queue``: a process that puts, a queue of the buffer size, a process that gets.

A pipe requests each iteration. There is no end mark and no error handling, and a dead producer is not noticed.
"""

import multiprocessing
import platform
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from benchmarks.transport._work import Producer, Work


def versions() -> dict[str, str]:
    return {"python": platform.python_version()}


def _produce(producer: Producer, queue: Any, asked: Any) -> None:
    while asked.recv():
        for item in producer:
            queue.put(item)


class _Passes:
    def __init__(self, num_items: int, queue: Any, asking: Any) -> None:
        self._num_items, self._queue, self._asking = num_items, queue, asking

    def __iter__(self) -> Iterator[Any]:
        self._asking.send(True)
        for _ in range(self._num_items):
            yield self._queue.get()


def open_way(stack: ExitStack, way: str, work: Work, num_items: int) -> Iterable[Any] | None:
    queue: Any = multiprocessing.Queue(work.buffer_size)
    asked, asking = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_produce, args=(Producer(work, num_items), queue, asked))
    process.start()
    stack.callback(process.join)
    stack.callback(asking.send, False)
    return _Passes(num_items, queue, asking)
