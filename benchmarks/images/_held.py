"""How long a call holds the GIL, measured as the time for which another thread that always wants the GIL has to wait.

The other thread runs only Python. When it does not run, it waits: for the GIL, for a core, or for the call's thread to
wake up when it has handed the GIL over. The kernel reports the wait for a core. The rest of the cost of handovers is
measured beside calls that need no Python, and subtracted. Both are small on two free cores; elsewhere the result means
little. The time for which the call waits for the GIL does not count, because only the other thread causes it.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks._contest.processes import seconds_waited_for_a_core

# Takes 10 ms to hash, longer than a thread keeps the GIL when another one wants it.
_NOISE = bytes(8 << 20)


def seconds_without_python(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds in which this thread did not run while ``call`` ran in another one: waiting for the GIL, and in all."""
    may_start, is_done = threading.Event(), threading.Event()

    def work() -> None:
        may_start.wait()
        try:
            call()
        finally:
            is_done.set()

    thread, is_over = threading.Thread(target=work), is_done.is_set
    thread.start()
    wall, ran, waited = time.perf_counter(), time.thread_time(), seconds_waited_for_a_core()
    may_start.set()
    while not is_over():
        pass
    wall, ran = time.perf_counter() - wall, time.thread_time() - ran
    waited = seconds_waited_for_a_core() - waited
    thread.join()
    return max(0.0, wall - ran - waited), wall - ran


def measure_held(load: Callable[[], Iterable[Any]]) -> dict[str, float]:
    """Seconds of one turn: ``wall`` when run alone; ``held``, with the GIL; and its upper bound ``held_at_most``."""

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
