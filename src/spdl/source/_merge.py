"""Several iterables as one: round-robin, or drawn by weights."""

import math
import random
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Generic, TypeVar

from ._arguments import as_int

__all__ = ["MergeIterator"]

T = TypeVar("T")

#: ``stop_after``, as the public interface has it.
_ALL_EXHAUSTED, _FIRST_EXHAUSTED = 0, -1


class MergeIterator(Generic[T]):
    """The items of several iterables: round-robin, or drawn at random by ``weights``.

    .. code-block:: python

        list(MergeIterator([[0, 1], [10, 11, 12]]))                    # [0, 10, 1, 11, 12]
        MergeIterator([speech, noise], weights=[9, 1], stop_after=1000)

    Each ``iter()`` starts anew, with the same draws.

    Args:
        iterables: What is merged.
        weights: Relative frequency of each. Iterables of weight 0 are removed, also from ``.iterables`` and
            ``.weights``. ``None``: round-robin.
        stop_after: 0: stop when all are exhausted. ``n`` > 0: after ``n`` items, or when all are exhausted. -1: when
            the next item is due from one that is exhausted. Otherwise exhausted iterables leave the draw, and the
            others keep their exact ratios, because the draw is among integers.
        seed: Of the draws.

    Raises:
        ValueError: No iterables; ``stop_after`` < -1; not one weight for each; weights that are negative, NaN, infinite
            or no numbers, or whose sum is 0.
        TypeError: ``stop_after`` or ``seed`` is not an integer.
    """

    def __init__(
        self,
        iterables: Sequence[Iterable[T]],
        *,
        weights: Sequence[float] | None = None,
        stop_after: int = 0,
        seed: int = 0,
    ) -> None:
        self.iterables: list[Iterable[T]] = list(iterables)
        if not self.iterables:
            raise ValueError("iterables must have at least one, got none")
        self.weights: list[float] | None = None
        if weights is not None:
            self.weights = _check_weights(weights, len(self.iterables))
            self.iterables = [iterable for iterable, weight in zip(self.iterables, self.weights, strict=True) if weight]
            self.weights = [weight for weight in self.weights if weight]
        self.stop_after = as_int("stop_after", stop_after)
        if self.stop_after < _FIRST_EXHAUSTED:
            raise ValueError(f"stop_after must be >= -1, got {self.stop_after}")
        self.seed = as_int("seed", seed)

    def __iter__(self) -> Iterator[T]:
        ends_early = self.stop_after == _FIRST_EXHAUSTED
        iterators = [iter(iterable) for iterable in self.iterables]
        if self.weights is None:
            merged = _in_turn(iterators, ends_early)
        else:
            merged = _drawn(iterators, _as_integers(self.weights), random.Random(self.seed), ends_early)
        if self.stop_after > _ALL_EXHAUSTED:
            return islice(merged, min(self.stop_after, sys.maxsize))
        return merged


def _in_turn(iterators: list[Iterator[T]], ends_early: bool) -> Iterator[T]:
    while iterators:
        exhausted = []
        for iterator in iterators:
            try:
                item = next(iterator)
            except StopIteration:
                if ends_early:
                    return
                exhausted.append(iterator)
            else:
                yield item
        if exhausted:
            iterators = [iterator for iterator in iterators if not any(iterator is one for one in exhausted)]


def _drawn(iterators: list[Iterator[T]], weights: list[int], rng: random.Random, ends_early: bool) -> Iterator[T]:
    while iterators:
        if len(iterators) == 1:  # nothing to draw
            yield from iterators[0]
            return
        bounds = list(accumulate(weights))
        while True:
            chosen = bisect_right(bounds, rng.randrange(bounds[-1]))
            try:
                item = next(iterators[chosen])
            except StopIteration:
                break
            yield item
        if ends_early:
            return
        del iterators[chosen], weights[chosen]


def _as_integers(weights: list[float]) -> list[int]:
    """Whole numbers in the same ratios exactly: each float is a whole number over a power of two."""
    ratios = [weight.as_integer_ratio() for weight in weights]
    common = max(denominator for _, denominator in ratios)
    whole = [numerator * (common // denominator) for numerator, denominator in ratios]
    divisor = math.gcd(*whole)
    return [number // divisor for number in whole]


def _check_weights(weights: Sequence[float], count: int) -> list[float]:
    given = list(weights)
    if len(given) != count:
        raise ValueError(f"weights must be one for each of the {count} iterables, got {len(given)}")
    checked = [_as_weight(weight, position) for position, weight in enumerate(given)]
    if not any(checked):
        raise ValueError("weights must have a sum > 0, got only zeros: nothing could be drawn")
    return checked


def _as_weight(value: object, position: int) -> float:
    # Text has no __float__, though float() takes it.
    if not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        raise ValueError(f"weights must be numbers, got {value!r} at position {position}")
    try:
        weight = float(value)  # type: ignore[arg-type]  # just checked
    except (OverflowError, TypeError, ValueError) as exc:
        raise ValueError(
            f"weights must be numbers that fit into a float, got {value!r} at position {position}"
        ) from exc
    if not math.isfinite(weight) or weight < 0:
        raise ValueError(f"weights must be finite and >= 0, got {weight} at position {position}")
    return weight
