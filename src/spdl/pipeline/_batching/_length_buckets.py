"""Lists of items of similar length, so that padding costs little."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from spdl.pipeline.defs import Outputs

from ._amounts import Misfit, as_choice, as_limit, as_num_items, measure, short_repr
from ._counting import CountingAggregator
from ._open_batch import OpenBatch

__all__ = ["LengthBuckets"]

T = TypeVar("T")


class LengthBuckets(CountingAggregator[T, list[T]]):
    """Lists of items whose lengths fall between the same two boundaries; one list is open for each such bucket.

    The first bucket takes lengths up to and including ``boundaries[0]``, the next those up to ``boundaries[1]``, and
    so on; the last takes whatever is longer. Inside a list, items are in order of arrival. A list is emitted when it
    has the batch size, or when a further item would make it cost more than ``max_cost``. At the end of the stream, and
    of an epoch, all lists come out as they are, shortest lengths first.

    Args:
        boundaries: Ascending lengths, at least one.
        batch_size: Items in a list: one number, or one for each bucket (``len(boundaries) + 1`` of them).
            ``None``: ``max_cost`` alone decides.
        max_cost: Most that a list may cost when padded: the longest of its lengths times the number of items.
            ``None``: ``batch_size`` alone decides.
        length: The length of an item: a number >= 0. Called once for each item.
        oversized: What becomes of an item that by itself is longer than ``max_cost``. ``"error"``: the stage fails.
            ``"alone"``: it leaves at once in a list of its own. ``"drop"``: it is left out, and counted in
            ``num_dropped`` and in the stage's statistics.

    Attributes:
        num_batches, num_items, num_tokens, num_padding, num_dropped: What has left it so far, in the unit of
            ``length``. ``num_padding`` is what padding each list to its longest item adds.

    Raises:
        TypeError: An argument has the wrong type. While it runs: a length is not a number.
        ValueError: An argument is out of range, or neither ``batch_size`` nor ``max_cost`` is given. While it runs: a
            length is negative or NaN; an item is oversized.
    """

    def __init__(
        self,
        boundaries: Iterable[float],
        batch_size: int | Sequence[int] | None = None,
        *,
        max_cost: float | None = None,
        length: Callable[[T], float] = len,  # type: ignore[assignment]  # for items without a length it is given
        oversized: Misfit = "error",
    ) -> None:
        super().__init__()
        self._boundaries = _check_boundaries(boundaries)
        num_buckets = len(self._boundaries) + 1
        if batch_size is None and max_cost is None:
            raise ValueError("give batch_size, max_cost, or both: nothing else says when a list is complete")
        self._max_cost = math.inf if max_cost is None else as_limit("max_cost", max_cost)
        if not callable(length):
            raise TypeError(f"length must be a function of an item, got {length!r}")
        self._length: Callable[[Any], Any] = length
        self._oversized = as_choice("oversized", oversized, ("error", "alone", "drop"))
        if isinstance(batch_size, Sequence):
            sizes = [as_num_items("batch_size", size) for size in batch_size]
            if len(sizes) != num_buckets:
                raise ValueError(
                    f"batch_size must be one int or {num_buckets} of them, one for each bucket, got {len(sizes)}"
                )
        else:
            sizes = [as_num_items("batch_size", batch_size)] * num_buckets
        self._buckets = [OpenBatch(size, self._max_cost, padded=True) for size in sizes]

    def accumulate(self, item: T) -> Outputs[list[T]] | None:
        length = measure("length", self._length, item)
        self._num_given += 1
        if length > self._max_cost:
            return self._take_oversized(item, length)
        bucket = self._buckets[bisect_left(self._boundaries, length)]
        taken = [] if bucket.has_room_for(length) else [self._take(bucket)]
        bucket.add(item, self._num_given - 1, length)
        if bucket.is_full:
            taken.append(self._take(bucket))
        return _outputs(taken)

    def flush(self) -> Outputs[list[T]] | None:
        return _outputs([self._take(bucket) for bucket in self._buckets if bucket.items])

    def _take(self, bucket: OpenBatch) -> tuple[list[T], list[int]]:
        """The items of a bucket, and which they are."""
        taken = bucket.items, self.ages(bucket.numbers)
        self.count(len(bucket.items), bucket.total, bucket.padding)
        bucket.clear()
        return taken

    def _take_oversized(self, item: T, length: float) -> Outputs[list[T]]:
        if self._oversized == "error":
            raise ValueError(
                f"item {short_repr(item)} has length {length}, more than max_cost={self._max_cost}; "
                'oversized="alone" gives such an item a list of its own, oversized="drop" leaves it out'
            )
        if self._oversized == "drop":
            self.num_dropped += 1
            return Outputs(dropped=True)
        self.count(1, length, 0)
        return Outputs([[item]], inputs=[[0]])

    def __repr__(self) -> str:
        return f"LengthBuckets({self._boundaries})"


def _outputs(taken: list[tuple[list[T], list[int]]]) -> Outputs[list[T]] | None:
    return Outputs([items for items, _ in taken], inputs=[ages for _, ages in taken]) if taken else None


def _check_boundaries(boundaries: Iterable[float]) -> list[float]:
    checked = [as_limit("a boundary", boundary) for boundary in boundaries]
    if not checked:
        raise ValueError("boundaries must hold at least one length")
    for low, high in pairwise(checked):
        if not low < high:
            raise ValueError(f"boundaries must ascend, got {high} after {low}")
    return checked
