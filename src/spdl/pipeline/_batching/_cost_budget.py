"""Lists that cost at most so much: tokens, pixels, bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from spdl.pipeline.defs import Outputs

from ._amounts import Misfit, as_choice, as_limit, as_num_items, measure, short_repr
from ._counting import CountingAggregator
from ._open_batch import OpenBatch

__all__ = ["CostBudget"]

T = TypeVar("T")


class CostBudget(CountingAggregator[T, list[T]]):
    """Lists of items, in order of arrival, whose cost stays within a budget.

    A list is emitted when the next item would not fit, which then starts the next list, or before, as soon as nothing
    can fit any more: when it has ``max_items``, or would cost too much when ``padded`` with one more of any cost.

    Args:
        max_cost: The budget of a list, > 0, in the unit of ``cost``.
        cost: What an item costs: a number >= 0. Called once for each item.
        padded: A list costs what it does when all its items are padded to the longest: the largest cost times the
            number of items, instead of the sum.
        max_items: Most items in a list. ``None``: the budget alone decides.
        oversized: What becomes of an item that by itself costs more than the budget. ``"error"``: the stage fails.
            ``"alone"``: it leaves in a list of its own, after the list that was open. ``"drop"``: it is left out,
            and counted in ``num_dropped`` and in the stage's statistics.

    Attributes:
        num_batches, num_items, num_tokens, num_padding, num_dropped: What has left it so far, in the unit of
            ``cost``. ``num_padding`` is 0 unless ``padded``.

    Raises:
        TypeError: An argument has the wrong type. While it runs: a cost is not a number.
        ValueError: An argument is out of range. While it runs: a cost is negative or NaN; an item is oversized.
    """

    def __init__(
        self,
        max_cost: float,
        *,
        cost: Callable[[T], float] = len,  # type: ignore[assignment]  # for items without a length it is given
        padded: bool = False,
        max_items: int | None = None,
        oversized: Misfit = "error",
    ) -> None:
        super().__init__()
        self._max_cost = as_limit("max_cost", max_cost)
        if not callable(cost):
            raise TypeError(f"cost must be a function of an item, got {cost!r}")
        self._cost: Callable[[Any], Any] = cost
        self._oversized = as_choice("oversized", oversized, ("error", "alone", "drop"))
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
                'oversized="alone" gives such an item a list of its own, oversized="drop" leaves it out'
            )
        if self._oversized == "drop":
            self.num_dropped += 1
            return Outputs(dropped=True)
        inputs = [self.ages(self._batch.numbers), [0]]
        before = self.flush()
        self.count(1, cost, 0)
        return Outputs([before, [item]], inputs=inputs)  # type: ignore[list-item]  # None is no output

    def __repr__(self) -> str:
        return f"CostBudget({self._max_cost}, padded={self._batch.padded})"
