"""Measure the time of a thread, and of several threads working side by side. Imports nothing from spdl."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

__all__ = ["Rate", "Stopwatch", "call_side_by_side"]


@dataclass(frozen=True, slots=True)
class Rate:
    """Work done by several threads together."""

    num_samples: int
    seconds: float
    cpu: float  # CPU seconds of all threads

    def joined(self, other: "Rate") -> "Rate":
        return Rate(self.num_samples + other.num_samples, self.seconds + other.seconds, self.cpu + other.cpu)


class Stopwatch:
    """Measure the time of the calling thread, without the time it waited for a busy CPU.

    Such waiting would look like waiting for the GIL. Source: Linux, Documentation/scheduler/sched-stats, ``schedstat``
    of a thread: the second number counts nanoseconds spent waiting to run. On other systems nothing is subtracted.
    """

    def __init__(self, began: float | None = None) -> None:
        self._delay = self._run_delay()
        self._cpu = thread_time()
        self._began = perf_counter() if began is None else began

    def read(self, ended: float | None = None) -> tuple[float, float]:
        """Seconds of wall-clock time until ``ended`` or now, and seconds of CPU time until now."""
        wall = (perf_counter() if ended is None else ended) - self._began
        cpu = thread_time() - self._cpu
        return max(wall - (self._run_delay() - self._delay), cpu, 1e-9), cpu

    @staticmethod
    def _run_delay() -> float:
        try:
            with open("/proc/thread-self/schedstat", "rb") as file:
                return int(file.read().split()[1]) * 1e-9
        except (OSError, ValueError, IndexError):
            return 0.0


def call_side_by_side(
    function: Callable[[Any], None], arguments: Sequence[Any], num_threads: int, weights: Sequence[int]
) -> Rate | None:
    """Call ``function`` on each argument, in several threads. ``None`` if ``num_threads`` is less than 2.

    The time of all threads starts at the same moment, so waiting for the GIL before the first call counts. The rate of
    each thread is measured until the end of its own last call, so waiting for the others at the end does not count. The
    result is the sum of the rates.
    """
    if num_threads < 2:
        for argument in arguments:
            function(argument)
        return None
    todo = deque(zip(arguments, weights, strict=True))
    gate = threading.Barrier(num_threads, lambda: start.append(perf_counter()))
    start: list[float] = []
    shares: list[tuple[float, float]] = []  # of each thread: samples per second, CPU seconds
    errors: list[BaseException] = []

    def work() -> None:
        num = 0
        gate.wait()
        ended = start[0]
        watch = Stopwatch(start[0])
        try:
            while True:
                try:
                    argument, weight = todo.popleft()
                except IndexError:
                    break
                function(argument)
                num += weight
                ended = perf_counter()
        except BaseException as exc:  # noqa: BLE001 - raised in the calling thread
            errors.append(exc)
        if num:
            seconds, cpu = watch.read(ended)
            shares.append((num / seconds, cpu))

    threads = [threading.Thread(target=work, name=f"spdl-measuring-{n}", daemon=True) for n in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    num_samples = sum(weights)
    return Rate(num_samples, num_samples / sum(rate for rate, _ in shares), sum(cpu for _, cpu in shares))
