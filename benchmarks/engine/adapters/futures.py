"""Hand-written ``concurrent.futures``: a thread pool for each stage and a bounded window of futures.

This is typical code without a library. The window is the sink size, and a pool has as many threads as the concurrency
of its stage. Without stages, a thread with a queue. It has no async stages.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import islice
from typing import Any

from benchmarks.engine._adapter import Reader, Run, Settings, noop
from benchmarks.engine._shapes import SINK_SIZE, Shape

_END = object()


def versions() -> dict[str, str]:
    return {}


def make(shape: Shape, settings: Settings) -> Run | None:
    if shape.kind != "sync":
        return None
    emit = _in_order if shape.promises_order else _as_completed

    def run(n: int, read: Reader) -> Any:
        items: Iterable[Any] = range(n)
        if shape.batch_size is not None:
            items = _batches(items, shape.batch_size)
        if shape.num_stages == 0:
            return read(_through_queue(items))
        with ExitStack() as pools:
            for _ in range(shape.num_stages):
                pool = pools.enter_context(ThreadPoolExecutor(shape.concurrency))
                items = emit(pool, noop, items)
            return read(items)

    return run


def each(op: Callable[[bytes], int], items: list[bytes], num_threads: int) -> int:
    with ThreadPoolExecutor(num_threads) as pool:
        return sum(_as_completed(pool, op, items))


def _in_order(pool: ThreadPoolExecutor, op: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    rest = iter(items)
    window: deque[Future[Any]] = deque(pool.submit(op, item) for item in islice(rest, SINK_SIZE))
    while window:
        yield window.popleft().result()
        for item in islice(rest, 1):
            window.append(pool.submit(op, item))


def _as_completed(pool: ThreadPoolExecutor, op: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    rest = iter(items)
    window = {pool.submit(op, item) for item in islice(rest, SINK_SIZE)}
    while window:
        done, window = wait(window, return_when=FIRST_COMPLETED)
        # Refill before handing out, so that the pool works while the consumer does.
        window.update(pool.submit(op, item) for item in islice(rest, len(done)))
        for future in done:
            yield future.result()


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _through_queue(items: Iterable[Any]) -> Iterator[Any]:
    """Read ahead in a thread. The consumers of this benchmark read to the end, so the thread always ends."""
    buffer: queue.Queue[Any] = queue.Queue(SINK_SIZE)

    def fill() -> None:
        for item in items:
            buffer.put(item)
        buffer.put(_END)

    thread = threading.Thread(target=fill)
    thread.start()
    while (item := buffer.get()) is not _END:
        yield item
    thread.join()
