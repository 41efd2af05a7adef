"""One peer of a ``Contest`` in one process: ``python -m benchmarks._contest.adapter_worker MODULE``.

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

import importlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .worker import cpu_seconds, serve


def main(module: str) -> None:
    def make() -> dict[str, Callable[..., Any]]:
        adapter = importlib.import_module(module)
        calls: dict[tuple[str, int], Callable[[], object]] = {}

        def save(case: str, data: dict[str, Any], to: str) -> bool:
            import numpy as np

            call = adapter.prepare(case, data)
            if call is None:
                return False
            np.savez(to, **adapter.outputs(case, call()))
            return True

        def measure(case: str, data: dict[str, Any], num_threads: int, num_calls: int) -> dict[str, float]:
            if hasattr(adapter, "measure"):
                took: dict[str, float] = adapter.measure(case, data, num_calls)
                return took
            for number in range(num_threads):
                if (case, number) not in calls:
                    calls[case, number] = adapter.prepare(case, data)
            work = [calls[case, number] for number in range(num_threads)]
            return _alone(work[0], num_calls) if num_threads == 1 else _together(work, num_calls)

        return {"describe": adapter.versions, "save": save, "time": measure}

    serve(make)


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


if __name__ == "__main__":
    main(sys.argv[1])
