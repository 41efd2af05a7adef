"""Counters of the batching aggregators."""

from __future__ import annotations

from typing import TypeVar

from spdl.pipeline.defs import Aggregator

T = TypeVar("T")
U = TypeVar("U")


class CountingAggregator(Aggregator[T, U]):
    """An aggregator that counts the batches it has emitted. The counters can be read at any time, from any thread.

    Attributes:
        num_batches: Number of batches emitted.
        num_items: Number of items in them.
        num_tokens: Sum of their costs or lengths.
        num_padding: Padding added to the longest item of each batch or to the length of the row.
        num_dropped: Number of items dropped on purpose.
    """

    is_exact = True
    _num_given = 0  # items accumulated so far; a subclass numbers its items with it

    def __init__(self) -> None:
        self.num_batches = 0
        self.num_items = 0
        self.num_tokens: float = 0
        self.num_padding: float = 0
        self.num_dropped = 0

    @property
    def fill_rate(self) -> float:
        """``num_tokens / (num_tokens + num_padding)``. 1.0 means no padding; it is also the value before any batch."""
        whole = self.num_tokens + self.num_padding
        return self.num_tokens / whole if whole else 1.0

    def ages(self, numbers: list[int]) -> list[int]:
        """Convert item numbers to ages, as ``Outputs.inputs`` takes them."""
        last = self._num_given - 1
        return [last - number for number in numbers]

    def count(self, num_items: int, num_tokens: float, num_padding: float) -> None:
        self.num_batches += 1
        self.num_items += num_items
        self.num_tokens += num_tokens
        self.num_padding += num_padding
