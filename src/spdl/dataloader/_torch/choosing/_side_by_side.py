"""Measure the time of a thread, and of several threads working side by side. Imports nothing from spdl."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import perf_counter, thread_time
from typing import Any


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


class Helper:
    """Makes calls with a time limit: all in one thread of its own, as objects may belong to the thread that made them.

    Args:
        timeout: Seconds that a call may take; ``None``: no limit, and calls are made in the calling thread.
    """

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[[Any], None], argument: Any) -> None:
        """Call the function.

        Raises:
            TimeoutError: It has not returned in time. The thread ends after the call.
        """
        if self._timeout is None:
            function(argument)
            return
        if self._thread is None:
            # A daemon: a call that never returns must not keep the interpreter from its end.
            self._thread = threading.Thread(target=self._work, name="spdl-measuring", daemon=True)
            self._thread.start()
        self._calls.put(lambda: function(argument))
        try:
            error = self._ends.get(timeout=self._timeout)
        except Empty:
            self.close(wait=False)
            raise TimeoutError from None
        if error is not None:
            raise error

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            error = None
            try:
                call()
            except BaseException as exc:  # noqa: BLE001 - raised in the calling thread
                error = exc
            del call
            self._ends.put(error)
            error = None

    def close(self, *, wait: bool = True) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.put(None)
            if wait:
                thread.join()


def call_side_by_side(
    function: Callable[[Any], None],
    arguments: Sequence[Any],
    num_threads: int,
    weights: Sequence[int],
    timeout: float | None = None,
) -> Rate | None:
    """Call ``function`` on each argument, in several threads. ``None`` if ``num_threads`` is less than 2.

    The time of all threads starts at the same moment, so waiting for the GIL before the first call counts. The rate of
    each thread is measured until the end of its own last call, so waiting for the others at the end does not count. The
    result is the sum of the rates.

    Raises:
        TimeoutError: No call has returned within ``timeout`` seconds. The threads end after their current calls.
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
    progress = threading.Condition()
    num_done = num_ended = 0

    def work() -> None:
        nonlocal num_done, num_ended
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
                with progress:
                    num_done += 1
                    progress.notify()
        except BaseException as exc:  # noqa: BLE001 - raised in the calling thread
            errors.append(exc)
        if num:
            seconds, cpu = watch.read(ended)
            shares.append((num / seconds, cpu))
        with progress:
            num_ended += 1
            progress.notify()

    threads = [threading.Thread(target=work, name=f"spdl-measuring-{n}", daemon=True) for n in range(num_threads)]
    for thread in threads:
        thread.start()
    with progress:
        while num_ended < num_threads:
            num_before = num_done
            if not progress.wait(timeout) and num_done == num_before and num_ended < num_threads:
                todo.clear()
                raise TimeoutError
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    num_samples = sum(weights)
    return Rate(num_samples, num_samples / sum(rate for rate, _ in shares), sum(cpu for _, cpu in shares))
