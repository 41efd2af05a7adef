"""Sessions of this benchmark: items through a shape, the first item, the import, and work that releases the GIL.

They import no NumPy: the garbage collector would have more to do, and only the engine is measured.
"""

import json
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks._contest.session import Session, Task
from benchmarks._contest.worker import cpu_seconds

from ._adapter import Run
from ._shapes import SHAPES, Shape

#: Modules that importing the engine must not import.
FORBIDDEN_IMPORTS = ("numpy", "torch", "spdl.io")

# Its last batch of 32 is not full, and it is longer than every buffer in the shapes.
NUM_CHECKED = 1000

_MEGABYTE = 1_000_000


def open(adapter: Any, task: Task) -> Session | None:
    if task.case == "first_item":
        return FirstItem(adapter.first_item, task.data["repeats"]) if hasattr(adapter, "first_item") else None
    if task.case == "import":
        return Import()
    if task.case == "zlib":
        return Compression(adapter.each, task.data["num_items"]) if hasattr(adapter, "each") else None
    [shape] = [shape for shape in SHAPES if shape.name == task.case]
    run = adapter.make(shape, task.settings)
    return None if run is None else Items(shape, run)


class Items(Session):
    """Integers through a shape."""

    def __init__(self, shape: Shape, run: Run) -> None:
        self._run, self._is_batched = run, shape.batch_size is not None
        self._num_items = 0

    def outputs(self) -> Mapping[str, Any]:
        emitted: list[Any] = self._run(NUM_CHECKED, list)
        if not self._is_batched:
            return {"items": emitted, "batch_sizes": []}
        return {
            "items": [item for batch in emitted for item in batch],
            "batch_sizes": [len(batch) for batch in emitted],
        }

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        num_items = 256
        while True:
            elapsed = self._net(num_items)["wall"]
            if elapsed >= seconds / 4 or num_items >= 1 << 24:
                break
            # Short runs mislead (they end before the buffers have filled), so approach in steps.
            num_items *= 4
        self._num_items = max(256, int(num_items * seconds / max(elapsed, 1e-9)) // 32 * 32)
        return {"n": self._num_items}

    def measure(self) -> Mapping[str, float]:
        """The cost of an item, all threads and processes included.

        Returns:
            Microseconds per source item, ``wall_us`` and ``cpu_us``, minus start and end of the pipeline; ``start_ms``,
            the time that was subtracted: building, moving one item and tearing down.
        """
        net = self._net(self._num_items)
        an_item = 1e6 / (self._num_items - 1)
        return {"wall_us": net["wall"] * an_item, "cpu_us": net["cpu"] * an_item, "start_ms": net["start"] * 1e3}

    def _net(self, num_items: int) -> dict[str, float]:
        """Seconds for the items minus the seconds for one item, both from building to the end of tearing down."""
        one, many = self._timed(1), self._timed(num_items)
        return {"wall": many["wall"] - one["wall"], "cpu": many["cpu"] - one["cpu"], "start": one["wall"]}

    def _timed(self, num_items: int) -> dict[str, float]:
        read = _tally_batches if self._is_batched else _tally
        result, took = _timed(lambda: self._run(num_items, read))
        if result != (num_items, num_items * (num_items - 1) // 2):
            raise ValueError(f"count and sum of {num_items} items are {result} in a timed run")
        return took


class FirstItem(Session):
    """Milliseconds to build a small pipeline, take its first item and stop it."""

    def __init__(self, first_item: Callable[[], object], repeats: int) -> None:
        self._first_item, self._repeats = first_item, repeats

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        self._first_item()  # imports, and the first thread of the process
        return {}

    def measure(self) -> Mapping[str, list[float]]:
        return {"ms": [1e3 * _timed(self._first_item)[1]["wall"] for _ in range(self._repeats)]}


_IMPORT = f"""
import json, sys, time
start = time.perf_counter()
import spdl.pipeline
wall = time.perf_counter() - start
print(json.dumps({{"wall": wall, "brought": [name for name in {FORBIDDEN_IMPORTS} if name in sys.modules]}}))
"""


class Import(Session):
    """Milliseconds of ``import spdl.pipeline`` in a fresh process, and the forbidden modules that it imported."""

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        self.measure()  # writes the byte code, which an installation has
        return {}

    def measure(self) -> Mapping[str, float | str]:
        done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"a fresh interpreter exited with {done.returncode}:\n{done.stderr[-2000:]}")
        answer = json.loads(done.stdout)
        return {"ms": answer["wall"] * 1e3, "brought": ", ".join(answer["brought"])}


class Compression(Session):
    """``zlib.compress`` on items of 1 MB, with one thread and with two: real work that releases the GIL.

    Both numbers of threads get the same work, and take turns at going first. The time to start and stop without an item
    is subtracted here too.
    """

    def __init__(self, each: Callable[..., int], num_items: int) -> None:
        self._each, self._num_items = each, num_items
        self._num_turns = 0

    def outputs(self) -> Mapping[str, Any]:
        return {"sizes": [self._compress(num_threads, 2)[0] for num_threads in (1, 2)]}

    def measure(self) -> Mapping[str, float]:
        """Microseconds per item: ``one_us`` and ``two_us``."""
        took = {}
        for num_threads in (1, 2) if self._num_turns % 2 == 0 else (2, 1):
            _, empty = self._compress(num_threads, 0)
            _, full = self._compress(num_threads, self._num_items)
            took[num_threads] = 1e6 * (full["wall"] - empty["wall"]) / self._num_items
        self._num_turns += 1
        return {"one_us": took[1], "two_us": took[2]}

    def _compress(self, num_threads: int, num_items: int) -> tuple[int, dict[str, float]]:
        items = _text(num_items)
        result, took = _timed(lambda: self._each(_compressed_size, items, num_threads))
        return result, took


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


def _compressed_size(item: bytes) -> int:
    return len(zlib.compress(item))


def _text(num_items: int) -> list[bytes]:
    """Seeded bytes with the entropy of text, so that zlib has work; the same object every time."""
    letters = bytes(random.Random(0).choices(b" etaoinshrdlucmf", k=_MEGABYTE))
    return [letters] * num_items


def _timed(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    cpu, start = cpu_seconds(), time.perf_counter()
    result = call()
    wall = time.perf_counter() - start
    return result, {"wall": wall, "cpu": cpu_seconds() - cpu}
