"""Lists that do not wait for ever to become full."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from spdl.pipeline.defs import Aggregator, as_int

from ._amounts import as_limit

__all__ = ["MaxWait"]

T = TypeVar("T")


class MaxWait(Aggregator[T, list[T]]):
    """Lists of ``max_items`` items, or of fewer when the oldest of them has waited for ``seconds``.

    For streams that pause, where a full list may be long in coming: the list leaves also if no further item comes. With
    ``drop_last`` only what is open at the end of the stream, or of an epoch, is dropped.

    Args:
        max_items: Most items in a list.
        seconds: How long the first item of a list waits at most, from when it is taken in. The stage must have room to
            emit the list; infinity is a wait without end.
        clock: Where the time is read, seconds. A :class:`ManualClock` in tests.

    Raises:
        TypeError: ``max_items`` is not an int, or ``seconds`` not a number.
        ValueError: ``max_items`` is less than 1, or ``seconds`` is not > 0.
    """

    def __init__(self, max_items: int, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_items = as_int("max_items", max_items)
        if self._max_items < 1:
            raise ValueError(f"max_items must be >= 1, got {max_items}")
        self._seconds = as_limit("seconds", seconds)
        if not callable(clock):
            raise TypeError(f"clock must be a function that returns seconds, got {clock!r}")
        self.clock = clock
        self._items: list[T] = []
        self._until: float | None = None

    def accumulate(self, item: T) -> list[T] | None:
        self._items.append(item)
        if len(self._items) >= self._max_items:
            return self.flush()
        if self._until is None:
            self._until = self.clock() + self._seconds
        return None

    def flush(self) -> list[T] | None:
        items, self._items, self._until = self._items, [], None
        return items or None

    def deadline(self) -> float | None:
        return self._until

    def __repr__(self) -> str:
        return f"MaxWait({self._max_items}, {self._seconds})"
