"""``LengthBuckets``: lists of similar length, judged by one plain greedy list per bucket."""

import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline.batching import LengthBuckets
from tests.strategies.profiles import cases

from .feeding import feed, outputs_of


def model(
    lengths: list[int], boundaries: list[int], sizes: list[float], max_cost: float, oversized: str
) -> tuple[list[list[int]], list[list[int]]]:
    """Positions in each list, in order of emission; and in those that come out at the end."""
    lists: list[list[int]] = []
    buckets: list[list[int]] = [[] for _ in sizes]

    def cost(positions: list[int]) -> int:
        return len(positions) * max((lengths[k] for k in positions), default=0)

    for position, length in enumerate(lengths):
        if length > max_cost:
            if oversized == "alone":
                lists.append([position])
            continue
        number = sum(length > boundary for boundary in boundaries)
        if cost([*buckets[number], position]) > max_cost:
            lists.append(buckets[number])
            buckets[number] = []
        bucket = buckets[number]
        bucket.append(position)
        longest = max(lengths[k] for k in bucket)
        if len(bucket) == sizes[number] or longest * (len(bucket) + 1) > max_cost:
            lists.append(bucket)
            buckets[number] = []
    return lists, [bucket for bucket in buckets if bucket]


@cases(200)
@given(data=st.data())
def test_lists_are_those_of_the_model(data: st.DataObject) -> None:
    """Whatever the lengths: the same lists in the same order, the rest at the end, shortest first; counts add up."""
    lengths = data.draw(st.lists(st.integers(0, 15)))
    boundaries = sorted(data.draw(st.sets(st.integers(1, 14), min_size=1, max_size=3)))
    size = st.integers(1, 4)
    num_buckets = len(boundaries) + 1
    batch_size: Any = data.draw(st.none() | size | st.lists(size, min_size=num_buckets, max_size=num_buckets))
    max_cost = data.draw(st.integers(1, 40) if batch_size is None else st.none() | st.integers(1, 40))
    oversized: Any = data.draw(st.sampled_from(["alone", "drop"]))
    aggregator = LengthBuckets[tuple[int, int]](
        boundaries, batch_size, max_cost=max_cost, length=lambda item: item[1], oversized=oversized
    )
    sizes = batch_size if isinstance(batch_size, list) else [batch_size or math.inf] * num_buckets
    expected, rest = model(lengths, boundaries, sizes, max_cost or math.inf, oversized)
    emitted = feed(aggregator, enumerate(lengths), flush=False)
    flushed = outputs_of(aggregator.flush())
    assert [[position for position, _ in each] for each in emitted] == expected
    assert [[position for position, _ in each] for each in flushed] == rest
    lists = emitted + flushed
    assert aggregator.num_items + aggregator.num_dropped == len(lengths)
    assert aggregator.num_batches == len(lists)
    assert aggregator.num_tokens == sum(length for each in lists for _, length in each)
    padded = sum(len(each) * max(length for _, length in each) for each in lists)
    assert aggregator.num_tokens + aggregator.num_padding == padded


def test_a_boundary_belongs_to_the_bucket_below_it() -> None:
    """A bucket of boundary 4 takes what fits into 4; what is longer than the last has a bucket too."""
    items = ["aaaa", "aaaaa", "aa", "aaaaaaaaa", "aaaaaaaa"]
    assert feed(LengthBuckets[str]([4, 8], 2), items) == [["aaaa", "aa"], ["aaaaa", "aaaaaaaa"], ["aaaaaaaaa"]]


@cases(200)
@given(items=st.lists(st.text(max_size=8)))
def test_a_pickled_copy_goes_on_where_it_was(items: list[str]) -> None:
    """Also with lists that are open."""
    aggregator = LengthBuckets[str]([2, 5], 3)
    half = len(items) // 2
    before = feed(aggregator, items[:half], flush=False)
    aggregator = pickle.loads(pickle.dumps(aggregator))
    assert before + feed(aggregator, items[half:]) == feed(LengthBuckets[str]([2, 5], 3), items)
    assert aggregator.flush() is None


@pytest.mark.parametrize(("length", "kind"), [(-1, ValueError), (math.nan, ValueError), ("3", TypeError)])
def test_a_length_that_cannot_be_is_refused(length: Any, kind: type[Exception]) -> None:
    """With the item's name."""
    with pytest.raises(kind, match="length of item 'the item' must be"):
        LengthBuckets[str]([4], 2, length=lambda _: length).accumulate("the item")


def test_an_oversized_item_is_an_error_unless_said_otherwise() -> None:
    """The message says what can be done."""
    with pytest.raises(ValueError, match=r'has length 5, more than max_cost=4; oversized="alone"'):
        LengthBuckets[str]([2], max_cost=4).accumulate("aaaaa")


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (([], 2), ValueError, "boundaries must hold at least one"),
        (([4, 4], 2), ValueError, "boundaries must ascend, got 4 after 4"),
        (([4, 2], 2), ValueError, "boundaries must ascend, got 2 after 4"),
        (([0, 2], 2), ValueError, "a boundary must be > 0"),
        ((["4"], 2), TypeError, "a boundary must be a number"),
        (([4],), ValueError, "give batch_size, max_cost, or both"),
        (([4], 0), ValueError, "batch_size must be >= 1, got 0"),
        (([4], "ab"), TypeError, "batch_size must be an int"),
        (([4], 2.0), TypeError, "batch_size must be an int"),
        (([4], [2]), ValueError, "batch_size must be one int or 2 of them"),
    ],
)
def test_arguments_are_checked(arguments: tuple[Any, ...], kind: type[Exception], message: str) -> None:
    """When it is made, with the argument's name."""
    with pytest.raises(kind, match=message):
        LengthBuckets(*arguments)
