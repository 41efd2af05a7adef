"""How long a call holds Python: how long another thread, which wants Python all the time, has to do without.

The other thread runs Python and nothing else. What it does not run of the time that passes, it waits: for Python, for a
core, and for the other to wake up when it has handed Python over. The kernel tells what it waited for a core; the rest
of what handing over costs is measured beside calls that need no Python, and taken off. All of that is small on two free
cores, and means little elsewhere. How long the call waits for Python does not count: it has to only because the other
thread is there.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# Takes some 10 ms to hash, longer than a thread is let alone with Python when another one wants it.
_NOISE = bytes(8 << 20)


def seconds_without_python(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds in which this thread did not run Python while ``call`` ran in another one: for want of Python, in all."""
    may_start, is_done = threading.Event(), threading.Event()

    def work() -> None:
        may_start.wait()
        try:
            call()
        finally:
            is_done.set()

    thread, is_over = threading.Thread(target=work), is_done.is_set
    thread.start()
    wall, ran, waited = time.perf_counter(), time.thread_time(), _seconds_waited_for_a_core()
    may_start.set()
    while not is_over():
        pass
    wall, ran = time.perf_counter() - wall, time.thread_time() - ran
    waited = _seconds_waited_for_a_core() - waited
    thread.join()
    return max(0.0, wall - ran - waited), wall - ran


def _seconds_waited_for_a_core() -> float:
    """Of this thread, since it began; 0 where the system does not tell."""
    try:
        # Linux, Documentation/scheduler/sched-stats.rst: nanoseconds run, nanoseconds waited to run, time slices.
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def measure_held(load: Callable[[], Iterable[Any]]) -> dict[str, float]:
    """Of one turn, in seconds: ``wall`` that it takes alone; ``held`` of that with Python, and ``held_at_most``."""

    def consume() -> int:
        return sum(1 for _ in load())

    start = time.perf_counter()
    num_batches = consume()
    wall = time.perf_counter() - start

    def hash_as_often() -> None:
        for _ in range(num_batches):
            hashlib.sha256(_NOISE).digest()

    held, held_at_most = seconds_without_python(consume)
    handing_over, _ = seconds_without_python(hash_as_often)
    return {"wall": wall, "held": max(0.0, held - handing_over), "held_at_most": held_at_most}
