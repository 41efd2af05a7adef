"""An incomplete batch: its items, their numbers and their total cost."""

from __future__ import annotations

from typing import Any


class OpenBatch:
    """An incomplete batch. Its cost is the sum of the items' costs or, if padded, the largest times their number."""

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
        """Whether no further item fits, whatever its cost. Without padding, items of cost 0 always fit the budget."""
        if len(self.items) >= self.max_items:
            return True
        return self.padded and self.largest * (len(self.items) + 1) > self.max_cost

    @property
    def padding(self) -> float:
        """Cost that padding adds to the sum."""
        return self.largest * len(self.items) - self.total if self.padded else 0
