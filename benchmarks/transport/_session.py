"""Sessions of this benchmark: a process that takes items, and the time to the first item.

An adapter is a module with ``versions() -> dict[str, str]`` and ``open_way(stack, way, work, num_items)``, which starts
the producing process and returns an iterable over ``num_items`` items that can be iterated any number of times, or
``None`` if it cannot do the work that way. Resources are closed by the stack or freed with the iterable.
"""

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import spdl.pipeline
from benchmarks._contest.processes import cpu_seconds_of, descendants
from benchmarks._contest.session import Session, Task

from ._work import Work, digest, expected_total, touch


def open(adapter: Any, task: Task) -> Session | None:
    if "method" in task.data:
        return Start(task.data["method"])
    # The same for all, and for the locks of arenas too. A process that runs threads must not be forked.
    multiprocessing.set_start_method("forkserver", force=True)
    work = Work(task.data["dtype"], tuple(task.data["shape"]), task.data["buffer_size"])
    consumer = Consumer(adapter, task.settings["way"], work)
    return consumer if consumer.start(task.data["num_checked"]) else None


class Consumer(Session):
    """The process that takes items, with the transport that it started last."""

    def __init__(self, adapter: Any, way: str, work: Work) -> None:
        self._adapter, self._way, self._work = adapter, way, work
        self._stack = ExitStack()
        self._items: Iterable[Any] | None = None
        self._num_items = 0

    def start(self, num_items: int) -> bool:
        """Start a producer of ``num_items`` items. False if the adapter cannot do the work."""
        self.close()
        self._num_items = num_items
        self._items = self._adapter.open_way(self._stack, self._way, self._work, num_items)
        return self._items is not None

    def outputs(self) -> Mapping[str, Any]:
        assert self._items is not None  # called only after a successful ``start``
        return {"digest": np.array(digest(self._work, self._items))}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        wall = self._num_items * min(self.measure()["wall_us"] for _ in range(2)) / 1e6
        self.start(max(5, round(seconds / wall * self._num_items)))
        return {"num_items": self._num_items}

    def measure(self) -> Mapping[str, float]:
        """One pass: microseconds per item, and CPU microseconds, of this process and of its descendants.

        Raises:
            ValueError: Items were lost or changed.
        """
        assert self._items is not None
        work, total, others = self._work, 0, descendants()
        producing, cpu, wall = cpu_seconds_of(others), time.process_time(), time.perf_counter()
        for item in self._items:
            total += touch(work, item)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        # Again: a peer may start its processes when it is first iterated.
        producing = cpu_seconds_of(descendants()) - producing
        if total != expected_total(work, self._num_items):
            raise ValueError(f"items were lost or changed: their sum is {total}")
        an_item = 1e6 / self._num_items
        return {
            "wall_us": wall * an_item,
            "cpu_us": (cpu + producing) * an_item,
            "consumer_us": cpu * an_item,
            "producer_us": producing * an_item,
        }

    def close(self) -> None:
        # Some end with the stack, some with the last reference.
        self._items = None
        gc.collect()
        self._stack.close()


class Start(Session):
    """The time to the first item of a pipeline in a subprocess, in a fresh process each time."""

    def __init__(self, method: str) -> None:
        self._method = method

    def measure(self) -> Mapping[str, float]:
        """Milliseconds: see ``_start``.

        Raises:
            RuntimeError: The process exited with an error.
        """
        # Without `site`, in all of its processes: an editable install, which only the checkout is, hooks into their
        # start and their imports.
        command = [sys.executable, "-S", "-m", "benchmarks.transport._start", self._method]
        environ = {**os.environ, "PYTHONPATH": str(Path(spdl.pipeline.__file__).parents[2])}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
        if done.returncode != 0:
            raise RuntimeError(f"starting by {self._method} exited with {done.returncode}:\n{done.stderr[-2000:]}")
        return {f"{which}_ms": taken for which, taken in json.loads(done.stdout).items()}
