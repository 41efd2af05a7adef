"""``MergeIterator``: order, ends, and the ratios of the draw."""

import math
import pickle
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source.utils import MergeIterator
from tests.strategies.profiles import cases


def labelled(lengths: list[int]) -> list[list[tuple[int, int]]]:
    """Lists of these lengths, of which each item says where it is from."""
    return [[(source, place) for place in range(length)] for source, length in enumerate(lengths)]


def in_turn(lengths: list[int], stop_after: int) -> list[tuple[int, int]]:
    """What a merge in turn gives, said in another way: rounds, of which each has one item of each that has one left."""
    found: list[tuple[int, int]] = []
    for place in range(max(lengths) + 1):
        for source, length in enumerate(lengths):
            if place < length:
                found.append((source, place))
            elif stop_after == -1:
                return found
    return found[:stop_after] if stop_after > 0 else found


@cases(100)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=5), stop_after=st.integers(-1, 25))
def test_one_of_each_in_turn(lengths: list[int], stop_after: int) -> None:
    """Without weights; those that are exhausted leave."""
    merged = MergeIterator(labelled(lengths), stop_after=stop_after)
    assert list(merged) == list(merged) == in_turn(lengths, stop_after)


@cases(100)
@given(
    sources=st.lists(st.tuples(st.integers(0, 6), st.floats(0.1, 10)), min_size=1, max_size=5),
    stop_after=st.integers(-1, 25),
    seed=st.integers(),
)
def test_drawn_items_keep_their_order(sources: list[tuple[int, float]], stop_after: int, seed: int) -> None:
    """With weights, each source is read in its order, nothing comes twice, and it ends where it should."""
    lengths, weights = [length for length, _ in sources], [weight for _, weight in sources]
    merged = MergeIterator(labelled(lengths), weights=weights, stop_after=stop_after, seed=seed)
    found = list(merged)
    assert found == list(merged)
    for source in range(len(sources)):
        places = [place for own, place in found if own == source]
        assert places == list(range(len(places)))
    if stop_after == 0:
        assert len(found) == sum(lengths)
    elif stop_after > 0:
        assert len(found) == min(sum(lengths), stop_after)
    else:
        counts = Counter(own for own, _ in found)
        assert any(counts[source] == length for source, length in enumerate(lengths))


def test_no_item_is_taken_that_is_not_given() -> None:
    """After ``stop_after`` items, the sources have not been read further."""
    taken = []

    def source(name: str) -> Iterator[str]:
        for place in range(5):
            taken.append(f"{name}{place}")
            yield taken[-1]

    assert list(MergeIterator([source("a"), source("b")], stop_after=3)) == ["a0", "b0", "a1"]
    assert taken == ["a0", "b0", "a1"]


def test_endless_sources_merge() -> None:
    """With as many items as are wanted."""
    endless: list[Any] = [iter(int, 1), iter(str, None)]
    assert list(islice(MergeIterator(endless), 4)) == [0, "", 0, ""]
    assert len(list(MergeIterator(endless, weights=[1, 1], stop_after=100))) == 100
    assert list(MergeIterator([[1]], stop_after=2**70)) == [1]


def test_weights_decide_how_often() -> None:
    """Within five standard deviations, for weights that sum to anything."""
    weights = [1, 3, 0.5, 0]
    endless: list[Any] = [iter(lambda: 0, 1), iter(lambda: 1, 0), iter(lambda: 2, 0), iter(lambda: 3, 0)]
    total = 20000
    counts = Counter(MergeIterator(endless, weights=weights, stop_after=total, seed=1))
    for source, weight in enumerate(weights):
        chance = weight / sum(weights)
        assert abs(counts[source] - total * chance) <= 5 * math.sqrt(total * chance * (1 - chance))


def test_ratios_stay_after_a_source_is_exhausted() -> None:
    """The first source dwarfs the others: in floats relative to it, theirs would be 0 or rounded. They are 1 to 3."""
    endless: list[Any] = [[-1] * 5, iter(lambda: 1, 0), iter(lambda: 2, 0)]
    total = 8000
    found = list(MergeIterator(endless, weights=[1e300, 1e-300, 3e-300], stop_after=total + 5, seed=3))
    assert found[:5] == [-1] * 5
    share = Counter(found[5:])[2] / total
    assert abs(share - 0.75) < 5 * math.sqrt(0.75 * 0.25 / total)


def test_draw_is_the_same_for_weights_in_the_same_ratio() -> None:
    """Only ratios count, subnormal weights included."""
    lists = labelled([20, 20, 20])
    first = list(MergeIterator(lists, weights=[1, 2, 4], seed=5))
    for weights in ([5e-324, 1e-323, 2e-323], [2.0**1000, 2.0**1001, 2.0**1002], [0.25, 0.5, 1]):
        assert list(MergeIterator(lists, weights=weights, seed=5)) == first
    assert list(MergeIterator(lists, weights=[1, 2, 4], seed=6)) != first


def test_weight_zero_is_left_out() -> None:
    """Of what is iterated and of the attributes; then an empty source does not end it early either."""
    merged = MergeIterator([[1, 2], [], [3]], weights=[1, 0, 2], stop_after=-1, seed=0)
    assert merged.iterables == [[1, 2], [3]]
    assert merged.weights == [1.0, 2.0]
    assert (merged.stop_after, merged.seed) == (-1, 0)
    assert list(merged)
    assert MergeIterator([[1], [2]]).weights is None


def test_same_iterator_twice() -> None:
    """It is read from two places, and both leave with it."""
    numbers = iter(range(5))
    assert list(MergeIterator([numbers, [10, 11, 12, 13], numbers])) == [0, 10, 1, 2, 11, 3, 4, 12, 13]


def test_it_pickles() -> None:
    """If its sources do."""
    merged = MergeIterator(labelled([3, 3]), weights=[1, 2], seed=4)
    assert list(pickle.loads(pickle.dumps(merged))) == list(merged)


def test_failure_of_a_source_comes_out() -> None:
    """Unchanged, after what came before."""

    def failing() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    for weights in (None, [1, 1]):
        merged = iter(MergeIterator([failing(), failing()], weights=weights))
        with pytest.raises(OSError, match="gone"):
            list(merged)


@pytest.mark.parametrize(
    "weights", [[Fraction(1, 3), 1], [np.float32(1), np.int64(2)], (1, 2), np.array([1, 2]), [Decimal(1), 2]]
)
def test_numbers_of_all_kinds_are_weights(weights: Any) -> None:
    """All that can be made a float."""
    assert len(list(MergeIterator(labelled([3, 3]), weights=weights))) == 6


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1], "weights must be one for each of the 2 iterables, got 1"),
        ([1, 2, 3], "weights must be one for each of the 2 iterables, got 3"),
        ([], "weights must be one for each of the 2 iterables, got 0"),
        ([1, -1], "weights must be finite and >= 0, got -1.0 at position 1"),
        ([float("nan"), 1], "weights must be finite and >= 0, got nan at position 0"),
        ([1, float("inf")], "weights must be finite and >= 0, got inf at position 1"),
        ([1, 10**400], "weights must be numbers that fit into a float"),
        ([1, "2"], "weights must be numbers, got '2' at position 1"),
        ([None, 1], "weights must be numbers, got None at position 0"),
        ([1j, 1], "weights must be numbers"),
        ([[1], 1], r"weights must be numbers, got \[1\] at position 0"),
        ([0, 0.0], "weights must have a sum > 0"),
    ],
)
def test_wrong_weights_are_refused(weights: Any, message: str) -> None:
    """Each with what is wrong and where."""
    with pytest.raises(ValueError, match=message):
        MergeIterator([[1], [2]], weights=weights)


def test_wrong_arguments_are_refused() -> None:
    """The message names the argument, what is accepted and what was given."""
    with pytest.raises(ValueError, match="iterables must have at least one, got none"):
        MergeIterator([])
    with pytest.raises(ValueError, match="iterables must have at least one, got none"):
        MergeIterator([], weights=[])
    with pytest.raises(ValueError, match="stop_after must be >= -1, got -2"):
        MergeIterator([[1]], stop_after=-2)
    for wrong in (True, 1.5, None):
        with pytest.raises(TypeError, match="stop_after must be an int"):
            MergeIterator([[1]], stop_after=wrong)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(TypeError, match="seed must be an int"):
            MergeIterator([[1]], seed=wrong)  # type: ignore[arg-type]  # that is the point
    one: Any = np.int64(1)
    assert list(MergeIterator([[1]], stop_after=one, seed=one, weights=[one])) == [1]
