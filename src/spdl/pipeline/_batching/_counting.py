"""What the batching aggregators tell about what they have made."""

from __future__ import annotations

from typing import TypeVar

from spdl.pipeline.defs import Aggregator

__all__ = ["CountingAggregator"]

T = TypeVar("T")
U = TypeVar("U")


class CountingAggregator(Aggregator[T, U]):
    """An aggregator that adds up what has left it, since it was made. To be read at any time, from any thread.

    Attributes:
        num_batches: Batches that have left it.
        num_items: Items in them.
        num_tokens: Sum of their costs or lengths.
        num_padding: What padding, to the longest of each batch or to the length of the row, adds to that.
        num_dropped: Items that were left out on purpose.
    """

    _num_given = 0  # items so far, by which a subclass knows what is in its batches

    def __init__(self) -> None:
        self.num_batches = 0
        self.num_items = 0
        self.num_tokens: float = 0
        self.num_padding: float = 0
        self.num_dropped = 0

    @property
    def fill_rate(self) -> float:
        """``num_tokens / (num_tokens + num_padding)``: 1.0 is no padding at all, also while nothing has left."""
        whole = self.num_tokens + self.num_padding
        return self.num_tokens / whole if whole else 1.0

    def ages(self, numbers: list[int]) -> list[int]:
        """What ``Outputs.inputs`` takes for the items with these numbers."""
        last = self._num_given - 1
        return [last - number for number in numbers]

    def count(self, num_items: int, num_tokens: float, num_padding: float) -> None:
        self.num_batches += 1
        self.num_items += num_items
        self.num_tokens += num_tokens
        self.num_padding += num_padding
