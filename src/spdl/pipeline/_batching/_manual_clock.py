"""A manually advanced clock, for tests."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any


class ManualClock:
    """A clock that only moves when it is advanced: for tests of time limits.

    Pass it to an aggregator as its ``clock``. The pipeline then flushes nothing by time unless ``advance`` is called.
    It works inside one process: a copy in a worker process never moves.

    Args:
        now: Initial time in seconds.
    """

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._callbacks: list[weakref.WeakMethod[Callable[[], Any]]] = []

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward and call the registered callbacks. Thread-safe.

        Args:
            seconds: Time to add, >= 0.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock does not go back: seconds must be >= 0, got {seconds}")
        with self._lock:
            self._now += seconds
            callbacks = [callback() for callback in self._callbacks]
        for callback in callbacks:
            if callback is not None:
                callback()

    def call_when_moved(self, callback: Callable[[], Any]) -> None:
        """Register a bound method to be called after every move. Its object is not kept alive."""
        with self._lock:
            self._callbacks = [each for each in self._callbacks if each() is not None]
            self._callbacks.append(weakref.WeakMethod(callback))

    def __reduce__(self) -> tuple[type[ManualClock], tuple[float]]:
        return ManualClock, (self._now,)
