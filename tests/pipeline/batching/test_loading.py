"""Aggregators that make batches of what people load: by budget, by length, packed, in time."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.dataloader import DataLoader
from spdl.pipeline.batching import CostBudget, LengthBuckets, MaxWait, PackSequences
from tests.support.running import TIMEOUT, build_of, run

LENGTHS = st.lists(st.integers(0, 12), max_size=40)


def aggregated(items: list[Any], aggregator: Any, **options: Any) -> list[Any]:
    """What comes out of a pipeline with that one stage."""
    return run(build_of(items, lambda b: b.aggregate(aggregator, **options)), num_threads=1)


def texts(lengths: list[int]) -> list[tuple[int, ...]]:
    """Sequences that can be told apart, of these lengths."""
    return [(index,) * length for index, length in enumerate(lengths)]


# -- cost


@given(lengths=LENGTHS, max_cost=st.integers(12, 40), padded=st.booleans(), max_items=st.none() | st.integers(1, 4))
def test_budgets_are_kept_and_used(lengths: list[int], max_cost: int, padded: bool, max_items: int | None) -> None:
    """In order, nothing lost; no batch could have taken the next item as well."""

    def cost(batch: list[Any]) -> int:
        sizes = [len(each) for each in batch]
        return max(sizes) * len(sizes) if padded else sum(sizes)

    items = texts(lengths)
    batches = aggregated(items, CostBudget(max_cost, padded=padded, max_items=max_items))
    assert list(itertools.chain.from_iterable(batches)) == items
    for batch in batches:
        assert batch
        assert cost(batch) <= max_cost
        assert max_items is None or len(batch) <= max_items
    for batch, following in itertools.pairwise(batches):
        assert cost([*batch, following[0]]) > max_cost or len(batch) == max_items


def test_oversized_items_fail_come_alone_or_are_dropped() -> None:
    """As asked."""
    items = texts([2, 9, 2, 2])
    assert aggregated(items, CostBudget(5, oversized="alone")) == [[items[0]], [items[1]], [items[2], items[3]]]
    assert aggregated(items, CostBudget(5, oversized="drop")) == [[items[0], items[2]], [items[3]]]
    with pytest.raises(ExceptionGroup):
        aggregated(items, CostBudget(5))


def test_cost_is_whatever_one_says() -> None:
    """Pixels, say."""
    items = [{"w": w, "h": h} for w, h in [(2, 3), (4, 4), (1, 1), (9, 1)]]
    assert aggregated(items, CostBudget(23, cost=lambda item: item["w"] * item["h"])) == [items[:3], items[3:]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: CostBudget(0),
        lambda: CostBudget(-1),
        lambda: CostBudget(5, max_items=0),
        lambda: CostBudget(5, oversized="explode"),  # type: ignore[arg-type]
        lambda: LengthBuckets([], 0),
        lambda: LengthBuckets([5, 3], 2),
        lambda: LengthBuckets([5]),
        lambda: LengthBuckets([5], -1),
        lambda: PackSequences(0),
        lambda: PackSequences(-3),
        lambda: PackSequences(5, open_bins=0),
        lambda: PackSequences(5, too_long="explode"),  # type: ignore[arg-type]
        lambda: MaxWait(0, 1.0),
        lambda: MaxWait(3, -1.0),
    ],
)
def test_impossible_arguments_are_refused(make: Any) -> None:
    """When it is made."""
    with pytest.raises(ValueError):
        make()


# -- buckets


@given(lengths=LENGTHS, batch_size=st.integers(1, 4))
def test_buckets_hold_what_is_alike(lengths: list[int], batch_size: int) -> None:
    """Each batch from one bucket, in order of arrival; all of it comes; the rest shortest first."""
    boundaries = [3, 7]

    def bucket(item: Any) -> int:
        return sum(len(item) > boundary for boundary in boundaries)

    def other_bucket(item: Any) -> int:
        return sum(len(item) >= boundary for boundary in boundaries)

    items = texts(lengths)
    batches = aggregated(items, LengthBuckets(boundaries, batch_size))
    assert sorted(itertools.chain.from_iterable(batches)) == sorted(items)
    for side in (bucket, other_bucket):  # which bucket a boundary itself belongs to is not for this test to say
        if all(len({side(item) for item in batch}) == 1 for batch in batches):
            break
    else:
        pytest.fail(f"mixed: {batches}")
    full = [batch for batch in batches if len(batch) == batch_size]
    rest = [batch for batch in batches if len(batch) < batch_size]
    assert all(0 < len(batch) <= batch_size for batch in batches)
    assert batches[len(batches) - len(rest) :] == rest or len({side(batch[0]) for batch in full}) >= 1
    assert [side(batch[0]) for batch in rest] == sorted({side(batch[0]) for batch in rest})
    for k in range(3):
        mine = [item for batch in batches for item in batch if side(item) == k]
        assert mine == [item for item in items if side(item) == k]


@given(lengths=LENGTHS, max_cost=st.integers(12, 30))
def test_buckets_keep_a_budget_too(lengths: list[int], max_cost: int) -> None:
    """Instead of a number of items."""
    items = texts(lengths)
    batches = aggregated(items, LengthBuckets([4, 8, 12], max_cost=max_cost))
    assert sorted(itertools.chain.from_iterable(batches)) == sorted(items)
    assert all(len(batch) == 1 or max(map(len, batch)) * len(batch) <= max_cost for batch in batches)


# -- packing


def unpacked(rows: list[Any]) -> list[list[int]]:
    """The sequences of rows, by their segments."""
    found = []
    for row in rows:
        start = 0
        for length in row.lengths:
            found.append([int(token) for token in row.tokens[start : start + length]])
            start += length
    return found


@given(lengths=st.lists(st.integers(1, 10), max_size=40), open_bins=st.integers(1, 4))
def test_packing_loses_nothing_and_keeps_bounds(lengths: list[int], open_bins: int) -> None:
    """Every sequence once and whole; rows of the exact length; what tells them apart agrees."""
    length = 10
    items = [[100 + index] * size for index, size in enumerate(lengths)]
    rows = aggregated(items, PackSequences(length, open_bins=open_bins, pad_id=-7))
    assert sorted(unpacked(rows)) == sorted(items)
    for row in rows:
        tokens, segments, positions = (list(map(int, part)) for part in (row.tokens, row.segment_ids, row.positions))
        assert len(tokens) == len(segments) == len(positions) == length
        used = sum(row.lengths)
        assert used <= length
        assert tokens[used:] == [-7] * (length - used)
        assert positions[:used] == [k for size in row.lengths for k in range(size)]
        assert len(set(segments[:used])) == len(row.lengths)
        groups = [len(list(group)) for _, group in itertools.groupby(segments[:used])]
        assert groups == [int(size) for size in row.lengths]
        assert set(segments[used:]).isdisjoint(segments[:used])


def test_packing_fills_the_first_bin_with_room() -> None:
    """First fit: the third goes into the first bin, the fourth into the second."""
    items = [[1] * 6, [2] * 7, [3] * 4, [4] * 3]
    rows = aggregated(items, PackSequences(10, open_bins=4))
    assert [list(map(int, row.tokens)) for row in rows] == [[1] * 6 + [3] * 4, [2] * 7 + [4] * 3]


def test_long_sequences_fail_are_split_or_dropped() -> None:
    """As asked; the pieces are whole."""
    items = [[1] * 3, list(range(10, 22))]
    split = unpacked(aggregated(items, PackSequences(5, too_long="split")))
    assert sorted(token for piece in split for token in piece) == sorted([*items[0], *items[1]])
    assert all(len(piece) <= 5 for piece in split)
    assert unpacked(aggregated(items, PackSequences(5, too_long="drop"))) == [[1] * 3]
    with pytest.raises(ExceptionGroup):
        aggregated(items, PackSequences(5))


# -- time


def test_waiting_gives_full_batches_when_there_is_no_need_to_wait() -> None:
    """The end of the stream gives the rest."""
    assert aggregated(list(range(7)), MaxWait(3, 1000.0)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_what_waited_long_enough_comes_though_no_item_follows() -> None:
    """The source gives no second item until the first has come out."""
    import threading

    came = threading.Event()

    def source() -> Any:
        yield 1
        assert came.wait(TIMEOUT)
        yield 2

    found = []
    loader: Any = DataLoader(source(), batch_size=MaxWait(10, 0.01), timeout=TIMEOUT)
    for batch in loader:
        found.append(batch)
        came.set()
    assert found == [[1], [2]]


# -- together


@pytest.mark.parametrize(
    "make",
    [lambda: CostBudget(12), lambda: LengthBuckets([3, 7], 2), lambda: PackSequences(12), lambda: MaxWait(3, 1000.0)],
)
def test_loaders_and_epochs(make: Any) -> None:
    """Two epochs of one loader give the same; dropping the last leaves nothing for the next."""
    items = [[k] * (k % 9 + 1) for k in range(20)]
    loader: Any = DataLoader(items, batch_size=make(), timeout=TIMEOUT)
    first, second = ([str(batch) for batch in loader] for _ in range(2))
    assert first == second
    assert first == [str(batch) for batch in aggregated(items, make())]
    with pytest.raises(TypeError):
        len(loader)
    dropping: Any = DataLoader(items, batch_size=make(), drop_last=True, timeout=TIMEOUT)
    first, second = ([str(batch) for batch in dropping] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    "make",
    [lambda: CostBudget(12), lambda: LengthBuckets([3, 7], 2), lambda: PackSequences(12), lambda: MaxWait(3, 1000.0)],
)
def test_a_loop_that_was_left_leaves_nothing_for_the_next(make: Any) -> None:
    """What was collected for a batch that nobody took is gone."""
    items = [[k] * (k % 9 + 1) for k in range(20)]
    loader: Any = DataLoader(items, batch_size=make(), timeout=TIMEOUT)
    expected = [str(batch) for batch in loader]
    for _ in range(3):
        for _batch in loader:
            break
    assert [str(batch) for batch in loader] == expected
