"""``multiprocessing.Queue`` by hand: a process that puts, a queue as long as what may wait, a process that gets.

Each iteration is asked for through a pipe. There is no end mark, no error handling, and nobody notices a dead producer.
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
