"""One peer in one process: ``python -m benchmarks.engine._worker PEER``, by the peer's interpreter."""

import hashlib
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from benchmarks._contest.worker import cpu_seconds, serve

from ._cases import case_named
from ._peers import peer_named
from .adapters import Adapter, CompressesInThreads, GivesFirstItem

__all__ = ["main"]

_MEGABYTE = 1_000_000


def main(peer_name: str) -> None:
    def make() -> dict[str, Callable[..., Any]]:
        adapter = peer_named(peer_name).adapter()
        return {name: partial(command, adapter) for name, command in _COMMANDS.items()}

    serve(make)


def _describe(adapter: Adapter, cases: list[str]) -> dict[str, Any]:
    if not adapter.available():
        return {"available": False}
    return {
        "available": True,
        "versions": adapter.versions(),
        "cases": [name for name in cases if adapter.supports(case_named(name))],
        "first_item": isinstance(adapter, GivesFirstItem),
        "compress": isinstance(adapter, CompressesInThreads),
    }


def _digest(adapter: Adapter, case: str, n: int) -> dict[str, Any]:
    """The output, in a form that can be compared with another peer's."""
    shape = case_named(case)
    emitted: list[Any] = adapter.make(shape)(n, list)
    if shape.batch_size is None:
        sizes, items = [], emitted
    else:
        sizes, items = [len(batch) for batch in emitted], [item for batch in emitted for item in batch]
    return {
        "count": len(items),
        "checksum": hashlib.sha256(repr(sorted(items)).encode()).hexdigest()[:16],
        "in_order": items == sorted(items),
        "batch_sizes": sizes,
    }


def _time(adapter: Adapter, case: str, n: int) -> dict[str, Any]:
    """Cost of ``n`` items from before anything is built until everything is stopped."""
    shape = case_named(case)
    run = adapter.make(shape)
    read = _tally if shape.batch_size is None else _tally_batches
    return _timed(lambda: run(n, read))


def _tally(items: Iterable[int]) -> tuple[int, int]:
    count = total = 0
    for item in items:
        count += 1
        total += item
    return count, total


def _tally_batches(batches: Iterable[list[int]]) -> tuple[int, int]:
    count = total = 0
    for batch in batches:
        count += len(batch)
        total += sum(batch)
    return count, total


def _first_item(adapter: Adapter, repeat: int) -> list[float]:
    if not isinstance(adapter, GivesFirstItem):
        raise TypeError(f"{adapter.name} does not measure its first item")
    walls = []
    for _ in range(repeat):
        start = time.perf_counter()
        adapter.first_item()
        walls.append(time.perf_counter() - start)
    return walls


def _compress(adapter: Adapter, num_threads: int, num_items: int) -> dict[str, Any]:
    """zlib on items of 1 MB: real work that releases the GIL."""
    if not isinstance(adapter, CompressesInThreads):
        raise TypeError(f"{adapter.name} does not spread calls over threads")
    items = _text(num_items)
    return _timed(lambda: adapter.each(_compressed_size, items, num_threads))


def _compressed_size(item: bytes) -> int:
    return len(zlib.compress(item))


def _text(num_items: int) -> list[bytes]:
    """Seeded bytes with the entropy of text, so that zlib has work; the same object every time."""
    letters = bytes(random.Random(0).choices(b" etaoinshrdlucmf", k=_MEGABYTE))
    return [letters] * num_items


def _timed(call: Callable[[], Any]) -> dict[str, Any]:
    cpu, start = cpu_seconds(), time.perf_counter()
    result = call()
    wall = time.perf_counter() - start
    return {"result": result, "wall": wall, "cpu": cpu_seconds() - cpu}


_COMMANDS: dict[str, Callable[..., Any]] = {
    "describe": _describe,
    "digest": _digest,
    "time": _time,
    "first_item": _first_item,
    "compress": _compress,
}

if __name__ == "__main__":
    main(sys.argv[1])
