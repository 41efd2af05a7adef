"""Hand-written ``concurrent.futures``: a thread pool for each stage and a bounded window of futures.

This is typical code without a library. The window is the sink size, and a pool has as many threads as the concurrency
of its stage. It has no async stages.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from itertools import islice
from typing import Any

from benchmarks.engine._cases import SINK_SIZE, Case

from ._adapter import Reader, Run, noop

__all__ = ["Futures"]

_END = object()


class Futures:
    """Generators over ``ThreadPoolExecutor.submit``; without stages, a thread with a queue."""

    name = "futures"

    def available(self) -> bool:
        return True

    def versions(self) -> dict[str, str]:
        return {}

    def supports(self, case: Case) -> bool:
        return case.kind == "sync"

    def make(self, case: Case) -> Run:
        emit = _in_order if case.promises_order else _as_completed

        def run(n: int, read: Reader) -> Any:
            items: Iterable[Any] = range(n)
            if case.batch_size is not None:
                items = _batches(items, case.batch_size)
            if case.num_stages == 0:
                return read(_through_queue(items))
            with ExitStack() as pools:
                for _ in range(case.num_stages):
                    pool = pools.enter_context(ThreadPoolExecutor(case.concurrency))
                    items = emit(pool, noop, items)
                return read(items)

        return run

    def each(self, op: Callable[[bytes], int], items: list[bytes], num_threads: int) -> int:
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
