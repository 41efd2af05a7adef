"""A list that items are added to, with what it costs so far and which items they are."""

from __future__ import annotations

from typing import Any

__all__ = ["OpenBatch"]


class OpenBatch:
    """Costs the sum of its items' costs or, ``padded``, the largest of them times their number."""

    __slots__ = ("items", "largest", "max_cost", "max_items", "numbers", "padded", "total")

    def __init__(self, max_items: float, max_cost: float, *, padded: bool) -> None:
        self.max_items = max_items
        self.max_cost = max_cost
        self.padded = padded
        self.clear()

    def clear(self) -> None:
        self.items: list[Any] = []
        self.numbers: list[int] = []
        self.total: float = 0
        self.largest: float = 0

    def has_room_for(self, cost: float) -> bool:
        if self.padded:
            return max(self.largest, cost) * (len(self.items) + 1) <= self.max_cost
        return self.total + cost <= self.max_cost

    def add(self, item: Any, number: int, cost: float) -> None:
        self.items.append(item)
        self.numbers.append(number)
        self.total += cost
        if cost > self.largest:
            self.largest = cost

    @property
    def is_full(self) -> bool:
        """No further item fits, whatever it costs. Into a sum, one that costs nothing always does."""
        if len(self.items) >= self.max_items:
            return True
        return self.padded and self.largest * (len(self.items) + 1) > self.max_cost

    @property
    def padding(self) -> float:
        """What padding adds to the sum of the costs."""
        return self.largest * len(self.items) - self.total if self.padded else 0
