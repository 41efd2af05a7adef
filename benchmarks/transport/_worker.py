"""One peer in one process: ``python -m benchmarks.transport._worker PEER``, by the peer's interpreter.

An adapter is a module with ``versions() -> dict[str, str]`` and ``open_way(stack, way, work, num_items)``, which starts
the producing process and returns an iterable over ``num_items`` items that can be iterated any number of times, or
``None`` if it cannot do the work that way. Resources are closed by the stack or freed with the iterable.
"""

import gc
import importlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from benchmarks._contest.processes import cpu_seconds_of, descendants
from benchmarks._contest.worker import serve

from ._peers import peer_named
from ._work import Work, digest, touch


class Consumer:
    """An adapter, with the transport that it opened last."""

    def __init__(self, adapter: Any, way: str) -> None:
        self._adapter, self._way = adapter, way
        self._stack = ExitStack()
        self._items: Iterable[Any] | None = None
        self._work = Work("bytes", (1,), 1)

    def open(self, work: dict[str, Any], num_items: int) -> bool:
        self.close()
        self._work = Work(work["dtype"], tuple(work["shape"]), work["buffer_size"])
        self._items = self._adapter.open_way(self._stack, self._way, self._work, num_items)
        return self._items is not None

    def close(self) -> None:
        # Some end with the stack, some with the last reference.
        self._items = None
        gc.collect()
        self._stack.close()

    def digest(self) -> list[int]:
        assert self._items is not None  # called only after a successful ``open``
        return digest(self._work, self._items)

    def time(self) -> dict[str, float]:
        """One pass: seconds, CPU seconds of this process and of its descendants, and the sum of the stamps."""
        assert self._items is not None
        work, total, others = self._work, 0, descendants()
        producing, cpu, wall = cpu_seconds_of(others), time.process_time(), time.perf_counter()
        for item in self._items:
            total += touch(work, item)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        # Again: a peer may start its processes when it is first iterated.
        return {"wall": wall, "consumer": cpu, "producer": cpu_seconds_of(descendants()) - producing, "total": total}


def main(peer_name: str) -> None:
    peer = peer_named(peer_name)
    # The same for all, and for the locks of arenas too. A process that runs threads must not be forked.
    multiprocessing.set_start_method("forkserver")

    def make() -> dict[str, Callable[..., Any]]:
        adapter = importlib.import_module(f".adapters.{peer.adapter}", __package__)
        consumer = Consumer(adapter, peer.way)
        return {
            "describe": adapter.versions,
            "open": consumer.open,
            "close": consumer.close,
            "digest": consumer.digest,
            "time": consumer.time,
        }

    serve(make)


if __name__ == "__main__":
    main(sys.argv[1])
