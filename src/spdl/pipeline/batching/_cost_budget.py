"""Batches with a cost limit, such as a number of tokens, pixels or bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from spdl._numbers import require_word
from spdl.pipeline.defs import Outputs

from ._counting import CountingAggregator, Misfit, OpenBatch, as_limit, as_num_items, measure, short_repr

T = TypeVar("T")


class CostBudget(CountingAggregator[T, list[T]]):
    """Lists of items, in order of arrival, whose cost stays within a budget.

    A list is emitted when the next item does not fit; that item starts the next list. It is emitted earlier if no
    further item can fit: when it has ``max_items`` items or, if ``padded``, when one more item of any cost would exceed
    the budget.

    Args:
        max_cost: Budget of a list, > 0, in the unit of ``cost``.
        cost: Function that returns the cost of an item, a number >= 0. Called once for each item.
        padded: Whether all items of a list will be padded to the longest. The cost of a list is then the largest cost
            times the number of items, instead of the sum.
        max_items: Maximum number of items in a list. ``None``: no limit but the budget.
        oversized: Policy for an item whose cost alone exceeds the budget. ``"error"``: the stage fails. ``"alone"``: it
            is emitted as a list of one item, after the open list. ``"drop"``: it is dropped, and counted in
            ``num_dropped`` and in the stage's statistics.

    Attributes:
        num_batches, num_items, num_tokens, num_padding, num_dropped: Counters of emitted batches; tokens and padding
            in the unit of ``cost``. ``num_padding`` is 0 unless ``padded``.

    Raises:
        TypeError: An argument has the wrong type. At runtime: a cost is not a number.
        ValueError: An argument is out of range. At runtime: a cost is negative or NaN, or an item is oversized.
    """

    def __init__(
        self,
        max_cost: float,
        *,
        cost: Callable[[T], float] = len,  # type: ignore[assignment]  # callers whose items have no length pass their own
        padded: bool = False,
        max_items: int | None = None,
        oversized: Misfit = "error",
    ) -> None:
        super().__init__()
        self._max_cost = as_limit("max_cost", max_cost)
        if not callable(cost):
            raise TypeError(f"cost must be a function of an item, got {cost!r}")
        self._cost: Callable[[Any], Any] = cost
        require_word("oversized", oversized, ("error", "alone", "drop"))
        self._oversized = oversized
        self._batch = OpenBatch(as_num_items("max_items", max_items), self._max_cost, padded=bool(padded))

    def accumulate(self, item: T) -> Outputs[list[T]] | None:
        cost = measure("cost", self._cost, item)
        self._num_given += 1
        if cost > self._max_cost:
            return self._take_oversized(item, cost)
        batch = self._batch
        lists, inputs = [], []
        if not batch.has_room_for(cost):
            inputs.append(self.ages(batch.numbers))
            lists.append(self.flush())
        batch.add(item, self._num_given - 1, cost)
        if batch.is_full:
            inputs.append(self.ages(batch.numbers))
            lists.append(self.flush())
        return Outputs(lists, inputs=inputs) if lists else None  # type: ignore[arg-type]  # each holds an item

    def flush(self) -> list[T] | None:
        batch = self._batch
        items = batch.items
        if not items:
            return None
        self.count(len(items), batch.total, batch.padding)
        batch.clear()
        return items

    def _take_oversized(self, item: T, cost: float) -> Outputs[list[T]]:
        if self._oversized == "error":
            raise ValueError(
                f"item {short_repr(item)} costs {cost}, more than max_cost={self._max_cost}; "
                'oversized="alone" puts such an item in a list of its own, oversized="drop" drops it'
            )
        if self._oversized == "drop":
            self.num_dropped += 1
            return Outputs(dropped=True)
        inputs = [self.ages(self._batch.numbers), [0]]
        before = self.flush()
        self.count(1, cost, 0)
        return Outputs([before, [item]], inputs=inputs)  # type: ignore[list-item]  # None is not an output

    def __repr__(self) -> str:
        return f"CostBudget({self._max_cost}, padded={self._batch.padded})"
