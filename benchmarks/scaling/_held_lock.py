"""How long a lock is held, in all.

A thread that loses its core or the GIL while it holds the lock holds it for milliseconds. That is no cost of the
engine, and it is different on every machine, so a hold that is much longer than most counts as one like most.
"""

import threading
from statistics import median
from time import perf_counter
from types import TracebackType
from typing import Any

__all__ = ["TimedLock", "cost_of_timing"]

#: Times the median: a longer hold was interrupted.
_INTERRUPTED = 30


class TimedLock:
    """A lock in place of another one, which it takes, and which notes for how long it is held each time."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._since = 0.0
        self.holds: list[float] = []  # seconds

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        got: bool = self._lock.acquire(blocking, timeout)
        if got:
            self._since = perf_counter()
        return got

    def release(self) -> None:
        self.holds.append(perf_counter() - self._since)
        self._lock.release()

    def held(self) -> float:
        """Seconds in all."""
        usual = median(self.holds) if self.holds else 0.0
        return sum(each if each <= _INTERRUPTED * usual else usual for each in self.holds)

    def locked(self) -> bool:
        is_locked: bool = self._lock.locked()
        return is_locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def cost_of_timing(num_holds: int) -> float:
    """Seconds that such a lock reports for so many holds in which nothing is done."""
    lock = TimedLock(threading.Lock())
    for _ in range(num_holds):
        with lock:
            pass
    return lock.held()
