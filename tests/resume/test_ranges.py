"""``Ranges`` and ``RangeChain``, compared with sets and lists of integers."""

import json
import pickle
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.resume._ranges import RangeChain, Ranges, numbers_to_json
from tests.strategies.profiles import cases

PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


def numbers_of(pairs: list[tuple[int, int]]) -> set[int]:
    return {number for start, stop in pairs for number in range(start, stop)}


def chains() -> st.SearchStrategy[list[range]]:
    """Ranges that ascend, with strides and gaps."""

    def build(parts: list[tuple[int, int, int]]) -> list[range]:
        made, end = [], 0
        for gap, length, step in parts:
            start = end + gap
            made.append(range(start, start + length * step, step))
            end = start + length * step
        return made

    part = st.tuples(st.integers(0, 5), st.integers(0, 6), st.integers(1, 5))
    return st.lists(part, max_size=6).map(build)


@cases(300)
@given(one=PAIRS, other=PAIRS)
def test_ranges_are_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    """Union, difference and intersection are those of the sets of integers."""
    left, right = Ranges(one), Ranges(other)
    first, second = numbers_of(one), numbers_of(other)
    for found, expected in (
        (left, first),
        (left | right, first | second),
        (left - right, first - second),
        (left & right, first & second),
        (Ranges.of(first), first),
    ):
        assert list(found) == sorted(expected)
        assert found.count() == len(expected)
        assert bool(found) == bool(expected)
        assert found.stop == max(expected, default=-1) + 1
        assert [number in found for number in range(-1, 62)] == [number in expected for number in range(-1, 62)]
        assert found == Ranges.from_json(json.loads(json.dumps(found.to_json())))
        assert hash(found) == hash(Ranges.of(expected))
        assert numbers_to_json([7 + number for number in sorted(expected)], 7) == found.to_json()
    assert "1" not in left


@cases(300)
@given(numbers=st.sets(st.integers(0, 40)), origin=st.integers(-5, 5))
def test_numbers_that_are_apart_are_written_as_distances(numbers: set[int], origin: int) -> None:
    """The fast way writes what the set of ranges writes, and it is read again."""
    written = numbers_to_json(sorted(number + origin for number in numbers), origin)
    assert written == Ranges.of(numbers).to_json()
    assert set(Ranges.from_json(json.loads(json.dumps(written)))) == numbers
    assert Ranges([(3, 5), (6, 7), (10, 11), (20, 30)]).to_json() == [[3, 5], 2, 4, [20, 30]]


@cases(200)
@given(pairs=PAIRS)
def test_ranges_have_one_form(pairs: list[tuple[int, int]]) -> None:
    """No range is empty, and none touches the next, so equal sets are equal and as short as can be."""
    found = Ranges(pairs).pairs
    assert all(start < stop for start, stop in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))


@cases(200)
@given(pairs=PAIRS, count=st.integers(0, 70))
def test_take_splits_at_a_count(pairs: list[tuple[int, int]], count: int) -> None:
    """The smallest first, the others in the rest."""
    first, rest = Ranges(pairs).take(count)
    numbers = sorted(numbers_of(pairs))
    assert list(first) == numbers[:count]
    assert list(rest) == numbers[count:]


@cases(300)
@given(pairs=PAIRS, step=st.integers(1, 9), first=st.integers(0, 70))
def test_every_takes_strides(pairs: list[tuple[int, int]], step: int, first: int) -> None:
    """As slicing the sorted list does."""
    found = Ranges(pairs).every(step, first)
    assert list(found) == sorted(numbers_of(pairs))[first::step]
    assert len(found.ranges) <= len(Ranges(pairs).pairs)


@cases(200)
@given(ranges=chains(), start=st.integers(-45, 45), stop=st.integers(-45, 45), step=st.integers(1, 7))
def test_chains_are_sequences(ranges: list[range], start: int, stop: int, step: int) -> None:
    """Places, slices and look-ups are those of the list of integers."""
    chain, numbers = RangeChain(ranges), [number for each in ranges for number in each]
    assert list(chain) == numbers
    assert len(chain) == len(numbers)
    assert [chain[place] for place in range(-len(numbers), len(numbers))] == numbers + numbers
    assert list(chain[start:stop:step]) == numbers[start:stop:step]
    assert list(chain[start:]) == numbers[start:]
    assert [chain.index(number) for number in numbers] == list(range(len(numbers)))
    top = max(numbers, default=0) + 2
    assert [number in chain for number in range(-1, top)] == [number in numbers for number in range(-1, top)]
    assert RangeChain.from_json(json.loads(json.dumps(chain.to_json()))) == chain == pickle.loads(pickle.dumps(chain))


def test_huge_ranges_cost_as_much_as_small_ones() -> None:
    """Time and memory depend on the number of ranges, not on that of integers."""
    huge = Ranges([(5, 10**18), (2 * 10**18, 10**30)]) - Ranges([(100, 200)])
    assert huge.count() == 10**30 - 10**18 - 5 - 100
    share = Ranges([(5, 10**18)]).every(64, 3)
    assert list(islice(share, 3)) == [8, 72, 136]
    assert share[10**16] == 8 + 64 * 10**16 - 64 * 0
    assert share.index(8 + 64 * 10**15) == 10**15


def test_missing_places_are_refused() -> None:
    """With what was asked for."""
    chain = RangeChain([range(0, 10, 2)])
    with pytest.raises(IndexError, match="place 5 is out of range for 5 positions"):
        chain[5]
    with pytest.raises(ValueError, match="3 is not among these positions"):
        chain.index(3)
    with pytest.raises(ValueError, match="step must be >= 1, got -1"):
        chain[::-1]
    with pytest.raises(ValueError, match="must ascend"):
        RangeChain([range(5), range(4, 9)])


@pytest.mark.parametrize(
    "value", [None, {}, [1, 2], [[1]], [[2, 1]], [[1, 1]], [[0, 5], [4, 9]], [[5, 9], [0, 1]], [[0, 1.0]], [[0, True]],
     [[0, 1], 0], [[0, 1], -1], [[0, 1], True], [[0, 1], 2.0], [[-1, 1]], [[-3, -1]]],
)  # fmt: skip
def test_other_json_is_no_set_of_ranges(value: Any) -> None:
    """A damaged text is refused, not repaired."""
    with pytest.raises(ValueError, match="range"):
        Ranges.from_json(value)


@pytest.mark.parametrize(
    "value", [None, [[-1, 5, 2]], [[0, 5]], [[0, 5, 0]], [[0, 5, -1], [9, 10, 1]], [[3, 5, 1], [4, 9, 1]]]
)
def test_other_json_is_no_chain(value: Any) -> None:
    """A damaged text is refused, not repaired."""
    with pytest.raises(ValueError, match=r"range|ascend"):
        RangeChain.from_json(value)


@cases(300)
@given(data=st.data(), step=st.integers(1, 6))
def test_strides_are_joined(data: st.DataObject, step: int) -> None:
    """Ranges with strides, as the ranks have them, become the set of their integers."""
    parts: list[range] = []
    taken: set[int] = set()
    for _ in range(data.draw(st.integers(0, 12))):
        start, count = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 20))
        part = range(start, start + count * step, step)
        if not taken & set(part):
            parts.append(part)
            taken |= set(part)
    assert list(Ranges.joined(parts)) == sorted(taken)


def test_strides_of_all_ranks_are_one_range() -> None:
    """Whatever their length; what is alone and long is refused."""
    shares = [range(rank + 64 * (rank % 7), 10**12, 64) for rank in range(64)]
    joined = Ranges.joined(shares)
    assert joined.count() == sum(map(len, shares))
    assert len(joined.pairs) < 300
    with pytest.raises(OverflowError, match="more than 4194304 positions"):
        Ranges.joined(shares[1:])
