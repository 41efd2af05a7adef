"""Batches with a time limit, and a clock to test them with."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Container
from typing import Any, TypeVar

from spdl._numbers import as_int, as_seconds
from spdl.pipeline.defs import Aggregator, Collate, Outputs

T = TypeVar("T")


class MaxWait(Aggregator[T, Any]):
    """Lists of ``max_items`` items, or of fewer when the oldest of them has waited for ``seconds``.

    For streams that pause, where a full list may take long: the list is emitted even if no further item arrives. With
    ``drop_last``, only the remainder at the end of the stream or of an epoch is dropped.

    Args:
        max_items: Maximum number of items in a list. Or another aggregator, such as :class:`CostBudget`, which then
            makes the batches and is flushed when the oldest item in it has waited for ``seconds``.
        seconds: Maximum time an item waits, from its arrival until the list is emitted, provided that the output buffer
            has room. Infinity: no limit.
        clock: Function that returns the time in seconds, such as a :class:`ManualClock` in tests.

    Raises:
        TypeError: ``max_items`` is neither an int nor an aggregator, or is an aggregator with its own deadline;
            ``seconds`` is not a number.
        ValueError: ``max_items`` is less than 1, or ``seconds`` is not > 0.
    """

    def __init__(
        self, max_items: int | Aggregator[T, Any], seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if isinstance(max_items, Aggregator):
            if type(max_items).deadline is not Aggregator.deadline:
                raise TypeError(f"{max_items!r} already has a deadline: it cannot be given another")
            self._inner: Aggregator[T, Any] = max_items
        else:
            self._inner = Collate(as_int("max_items", max_items, 1))
        self.is_exact = self._inner.is_exact
        self._seconds = as_seconds("seconds", seconds, positive=True, may_be_infinite=True)
        if not callable(clock):
            raise TypeError(f"clock must be a function that returns seconds, got {clock!r}")
        self.clock = clock
        self._num_given = 0
        self._arrivals: dict[int, float] = {}  # arrival times of held items, by item number, oldest first

    def accumulate(self, item: T) -> Any:
        self._note_arrival()
        return self._noted(self._inner.accumulate(item))

    def accumulate_rest(self, item: T, done: Container[int]) -> Any:
        self._note_arrival()
        return self._noted(self._inner.accumulate_rest(item, done))

    def _note_arrival(self) -> None:
        self._arrivals[self._num_given] = self.clock()
        self._num_given += 1

    def _noted(self, result: Any) -> Any:
        if result is not None:
            self._forget(result)
        return result

    def flush(self) -> Any:
        self._arrivals.clear()
        return self._inner.flush()

    def deadline(self) -> float | None:
        for arrival in self._arrivals.values():
            return arrival + self._seconds
        return None

    def _forget(self, result: Any) -> None:
        """Remove the arrival times of emitted items."""
        arrivals, last = self._arrivals, self._num_given - 1
        if type(result) is Outputs:
            if result.dropped:
                arrivals.pop(last, None)
            if not result.values:
                return
            if result.inputs is not None:
                for inputs in result.inputs:
                    for age in inputs:
                        if age not in result.unfinished:
                            arrivals.pop(last - age, None)
                return
        newest = arrivals.get(last)
        arrivals.clear()
        if newest is not None and type(self._inner) is not Collate:
            arrivals[last] = newest  # the aggregator may have kept it for the next batch

    def __repr__(self) -> str:
        return f"MaxWait({self._inner.num_items if type(self._inner) is Collate else self._inner}, {self._seconds})"


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
