"""Work of a known kind and length, as ops, sources and consumers."""

import asyncio
import hashlib
import json
import os
import select
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

__all__ = ["NUMBERS", "AsyncSleep", "Endless", "Work", "numbers"]


def _spin(number: int) -> None:
    """Python code: needs the GIL all the time."""
    for _ in range(number):
        pass


def _sha(number: int) -> None:
    """Native code that releases the GIL."""
    hashlib.sha256(_bytes(number)).digest()


def _zlib(number: int) -> None:
    zlib.compress(_bytes(number), 6)


def _copy(number: int) -> None:
    """Memory bandwidth, without the GIL."""
    source, target = _arrays()
    for _ in range(number):
        np.copyto(target, source)


@cache
def _bytes(number: int) -> bytes:
    return np.random.default_rng(0).integers(0, 64, number, dtype=np.uint8).tobytes()


_own = threading.local()


def _arrays() -> tuple[Any, Any]:
    """Larger than the caches; a pair for each thread."""
    if not hasattr(_own, "arrays"):
        _own.arrays = np.ones(1 << 20), np.ones(1 << 20)
    arrays: tuple[Any, Any] = _own.arrays
    return arrays


#: The environment variable with what has been measured, for child processes and for the run that applies an advice:
#: the same work, however fast the CPU was meanwhile.
NUMBERS = "SPDL_BENCHMARK_NUMBERS"


def numbers() -> dict[str, int]:
    """How much of each kind of work takes how long, as far as it has been measured."""
    found: dict[str, int] = json.loads(os.environ.get(NUMBERS, "{}"))
    return found


#: Functions of a number, and the number to begin with: how long they take is measured.
_MEASURED: dict[str, tuple[Callable[[int], None], int]] = {
    "spin": (_spin, 20_000),
    "sha": (_sha, 1 << 18),
    "zlib": (_zlib, 1 << 14),
    "copy": (_copy, 1),
}
_WAITS: dict[str, Callable[[float], Any]] = {
    "sleep": time.sleep,
    "select": lambda seconds: select.select([], [], [], seconds),
    "lock": lambda seconds: threading.Event().wait(seconds),
}


@cache
def _number_for(kind: str, ms: float) -> int:
    """How much of the work takes ``ms`` of CPU time, by the shortest of several measurements, if not known yet."""
    known, name = numbers(), f"{kind} {ms:g}"
    if name in known:
        return known[name]
    function, number = _MEASURED[kind]
    function(number)
    shortest = float("inf")
    for _ in range(7):
        began = time.thread_time()
        function(number)
        shortest = min(shortest, time.thread_time() - began)
    known[name] = max(1, round(number * ms / 1e3 / shortest))
    os.environ[NUMBERS] = json.dumps(known)
    return known[name]


@dataclass(frozen=True)
class Work:
    """An op that does one kind of work after the other, and returns its argument.

    Attributes:
        parts: Kinds, and how long each takes, in milliseconds.
    """

    parts: tuple[tuple[str, float], ...]

    def prepare(self) -> None:
        """Measure how much work that is. On one thread, before anything else runs."""
        for kind, ms in self.parts:
            if kind in _MEASURED:
                _number_for(kind, ms)

    def __call__(self, item: Any = None) -> Any:
        for kind, ms in self.parts:
            if kind in _WAITS:
                _WAITS[kind](ms / 1e3)
            else:
                _MEASURED[kind][0](_number_for(kind, ms))
        return item


@dataclass(frozen=True)
class AsyncSleep:
    """An async op that waits."""

    ms: float

    def prepare(self) -> None:
        pass

    async def __call__(self, item: Any) -> Any:
        await asyncio.sleep(self.ms / 1e3)
        return item


@dataclass(frozen=True)
class Endless:
    """A source: each item costs ``work``. Without a number of items, it has no end."""

    work: Work
    num_items: int = 0

    def __iter__(self) -> Iterator[int]:
        item = 0
        while not self.num_items or item < self.num_items:
            self.work()
            yield item
            item += 1
