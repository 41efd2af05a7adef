"""Sessions of a benchmark whose cases are calls of a function: wall time and CPU time per unit.

An adapter is a module with

- ``versions() -> dict[str, str]``: of the packages that do the work;
- ``prepare(case: str, data: dict) -> Callable[[], object] | None``: opens the inputs of the case and returns a function
  that does all of its work, which is timed; ``None`` if the peer cannot do the case. ``prepare`` is called once per
  thread, the function many times;
- ``outputs(case: str, result: object) -> dict[str, numpy.ndarray]``: the result of a call, in a comparable form;
- ``measure(case: str, data: dict, num_calls: int) -> {"wall": seconds, "cpu": seconds}``: only for a peer that is a
  program which times itself, so that starting it does not count.

An adapter imports its peer at the top. If the peer is not installed, the worker reports it and the run skips the peer.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .session import Session, Task
from .worker import cpu_seconds

__all__ = ["Calls", "open"]


class Calls(Session):
    """Calls of the function of an adapter, in as many threads as the case has."""

    def __init__(self, adapter: Any, task: Task, first: Callable[[], object]) -> None:
        self._adapter, self._task = adapter, task
        self._calls = [first]
        self._num_calls = 1

    def outputs(self) -> Mapping[str, Any]:
        outputs: Mapping[str, Any] = self._adapter.outputs(self._task.case, self._calls[0]())
        return outputs

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        one = max(self._time(1)["wall"] for _ in range(2))
        self._num_calls = max(1, round(seconds / max(one, 1e-7)))
        return {"num_calls": self._num_calls}

    def measure(self) -> Mapping[str, float]:
        """Microseconds per unit of a case and thread."""
        task = self._task
        took = self._time(self._num_calls)
        scale = 1e6 / (self._num_calls * task.num_threads * task.per)
        return {"wall_us": took["wall"] * scale, "cpu_us": took["cpu"] * scale}

    def _time(self, num_calls: int) -> dict[str, float]:
        """Seconds of ``num_calls`` calls in each thread."""
        task, calls = self._task, self._calls
        if hasattr(self._adapter, "measure"):
            took: dict[str, float] = self._adapter.measure(task.case, dict(task.data), num_calls)
            return took
        while len(calls) < task.num_threads:
            calls.append(self._adapter.prepare(task.case, dict(task.data)))
        return _alone(calls[0], num_calls) if task.num_threads == 1 else _together(calls, num_calls)


def open(adapter: Any, task: Task) -> Calls | None:
    call = adapter.prepare(task.case, dict(task.data))
    return None if call is None else Calls(adapter, task, call)


def _alone(call: Callable[[], object], num_calls: int) -> dict[str, float]:
    cpu, wall = cpu_seconds(), time.perf_counter()
    for _ in range(num_calls):
        call()
    return {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}


def _together(calls: list[Callable[[], object]], num_calls: int) -> dict[str, float]:
    """Seconds from when all threads have started until the last one has finished."""
    ready, through = threading.Barrier(len(calls) + 1), threading.Barrier(len(calls) + 1)
    failures: list[Exception] = []

    def work(call: Callable[[], object]) -> None:
        ready.wait()
        try:
            for _ in range(num_calls):
                call()
        except Exception as exc:  # noqa: BLE001 - it is raised where the threads are joined
            failures.append(exc)
        through.wait()

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    ready.wait()
    cpu, wall = cpu_seconds(), time.perf_counter()
    through.wait()
    took = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return took
