"""Sessions of this benchmark: the costs of an item, and how long of them the GIL and the engine's lock are held."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any

from benchmarks._contest.session import Session, Task

from ._held_lock import TimedLock, cost_of_timing

__all__ = ["NUM_THREADS", "Scaling", "open"]

#: As many as there are cores in a run: two.
NUM_THREADS = 2


def open(adapter: Any, task: Task) -> Session:
    return Scaling(adapter, task)


class Scaling(Session):
    """The items of one case."""

    def __init__(self, adapter: Any, task: Task) -> None:
        self._adapter, self._case = adapter, task.case
        self._paths, self._num_items = task.data["paths"], task.data["num_items"]

    def outputs(self) -> Mapping[str, Any]:
        """The sum of all outputs."""
        total = 0
        pipeline = self._make()
        with pipeline.auto_stop():
            for output in pipeline:
                total += self._adapter.value_of(self._case, output)
        return {"total": [total]}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        self._run()
        return {"num_items": self._num_items}

    def measure(self) -> Mapping[str, float]:
        """Microseconds an item.

        Returns:
            ``one_us`` and ``two_us``: wall time on one core and on two; ``cpu_us``: CPU time, on one core; ``gil_us``
            and ``lock_us``: for how long the GIL and the engine's lock are held.
        """
        with _on_cores(1):
            one, cpu = self._run()
        with _on_cores(2):
            two, _ = self._run()
        with _on_cores(1):
            lock = self._lock_held()
            gil = self._gil_held()
        took = {"one": one, "two": two, "cpu": cpu, "gil": gil, "lock": lock}
        return {f"{name}_us": 1e6 * seconds / self._num_items for name, seconds in took.items()}

    def _make(self) -> Any:
        return self._adapter.make(self._case, self._paths, self._num_items, NUM_THREADS)

    def _run(self) -> tuple[float, float]:
        """Seconds of wall time and of CPU time, from before the pipeline is built to after it has ended."""
        wall, cpu = perf_counter(), process_time()
        pipeline = self._make()
        with pipeline.auto_stop():
            for _ in pipeline:
                pass
        return perf_counter() - wall, process_time() - cpu

    def _lock_held(self) -> float:
        """Seconds. On one core, and so no thread runs while another one holds the lock and waits for a core."""
        pipeline = self._make()
        lock = pipeline._engine.lock = TimedLock(pipeline._engine.lock)
        with pipeline.auto_stop():
            for _ in pipeline:
                pass
        return max(0.0, lock.held() - cost_of_timing(len(lock.holds)))

    def _gil_held(self) -> float:
        """Seconds: the CPU time of all threads outside the native calls that load images."""
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            return 0.0
        if self._case == "items":
            return self._run()[1]
        with self._adapter.timed_native_calls() as spent:
            cpu = self._run()[1]
        native: float = sum(spent)
        return cpu - native


@contextmanager
def _on_cores(number: int) -> Iterator[None]:
    """Let threads that are started from now on run on so many cores; where the system cannot, on all."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
