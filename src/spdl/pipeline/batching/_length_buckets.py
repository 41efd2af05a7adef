"""Batches of items of similar length, to reduce padding."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from spdl._numbers import require_word
from spdl.pipeline.defs import Outputs

from ._counting import CountingAggregator, Misfit, OpenBatch, as_limit, as_num_items, measure, short_repr

T = TypeVar("T")


class LengthBuckets(CountingAggregator[T, list[T]]):
    """Lists of items whose lengths fall between the same two boundaries, with one open list per such bucket.

    The first bucket takes lengths up to and including ``boundaries[0]``, the next lengths up to ``boundaries[1]``, and
    so on; the last bucket takes longer items. Inside a list, items are in order of arrival. A list is emitted when it
    has ``batch_size`` items, or when one more item would raise its padded cost above ``max_cost``. At the end of the
    stream and of each epoch, the incomplete lists are emitted, shortest lengths first.

    Args:
        boundaries: Ascending lengths; at least one.
        batch_size: Number of items in a list: one number, or one per bucket (``len(boundaries) + 1`` numbers).
            ``None``: no limit but ``max_cost``.
        max_cost: Maximum padded cost of a list: its longest length times the number of items. ``None``: no limit but
            ``batch_size``.
        length: Function that returns the length of an item, a number >= 0. Called once for each item.
        oversized: Policy for an item whose length exceeds ``max_cost``. ``"error"``: the stage fails. ``"alone"``: it
            is emitted at once as a list of one item. ``"drop"``: it is dropped, and counted in ``num_dropped`` and in
            the stage's statistics.

    Attributes:
        num_batches, num_items, num_tokens, num_padding, num_dropped: Counters of emitted batches; tokens and padding
            in the unit of ``length``. ``num_padding`` counts the padding of each list to its longest item.

    Raises:
        TypeError: An argument has the wrong type. At runtime: a length is not a number.
        ValueError: An argument is out of range, or neither ``batch_size`` nor ``max_cost`` is given. At runtime: a
            length is negative or NaN, or an item is oversized.
    """

    def __init__(
        self,
        boundaries: Iterable[float],
        batch_size: int | Sequence[int] | None = None,
        *,
        max_cost: float | None = None,
        length: Callable[[T], float] = len,  # type: ignore[assignment]  # callers whose items have no length pass their own
        oversized: Misfit = "error",
    ) -> None:
        super().__init__()
        self._boundaries = _check_boundaries(boundaries)
        num_buckets = len(self._boundaries) + 1
        if batch_size is None and max_cost is None:
            raise ValueError("give batch_size, max_cost, or both: without them a list is never complete")
        self._max_cost = math.inf if max_cost is None else as_limit("max_cost", max_cost)
        if not callable(length):
            raise TypeError(f"length must be a function of an item, got {length!r}")
        self._length: Callable[[Any], Any] = length
        require_word("oversized", oversized, ("error", "alone", "drop"))
        self._oversized = oversized
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
        """Empty a bucket; return its items and their ages."""
        taken = bucket.items, self.ages(bucket.numbers)
        self.count(len(bucket.items), bucket.total, bucket.padding)
        bucket.clear()
        return taken

    def _take_oversized(self, item: T, length: float) -> Outputs[list[T]]:
        if self._oversized == "error":
            raise ValueError(
                f"item {short_repr(item)} has length {length}, more than max_cost={self._max_cost}; "
                'oversized="alone" puts such an item in a list of its own, oversized="drop" drops it'
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
