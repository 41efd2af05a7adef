"""``embed_shuffle``, ``repeat_source`` and ``MergeIterator``."""

import itertools
import math
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from spdl.source.utils import MergeIterator, embed_shuffle, repeat_source


class Source:
    """Remembers the seeds it was shuffled with; its items say the last one."""

    def __init__(self, size: int = 3) -> None:
        self.size = size
        self.seeds: list[int] = []

    def __iter__(self) -> Iterator[tuple[int | None, int]]:
        seed = self.seeds[-1] if self.seeds else None
        return ((seed, k) for k in range(self.size))

    def shuffle(self, seed: int) -> None:
        self.seeds.append(seed)


class Sized(Source):
    def __len__(self) -> int:
        return self.size


# -- embed_shuffle


def test_each_iteration_is_shuffled_before() -> None:
    """With the epoch as seed, which counts up."""
    source = Source()
    shuffled = embed_shuffle(source)
    assert [list(shuffled) for _ in range(3)] == [[(epoch, k) for k in range(3)] for epoch in range(3)]
    assert source.seeds == [0, 1, 2]


def test_shuffle_happens_at_the_first_next() -> None:
    """An iterator that nobody reads does not move the epoch."""
    source = Source()
    shuffled = embed_shuffle(source, epoch=5)
    iter(shuffled)
    iterator = iter(shuffled)
    assert source.seeds == []
    assert next(iterator) == (5, 0)
    assert source.seeds == [5]


def test_shuffle_last_shuffles_after() -> None:
    """The first pass is as the source was; each pass leaves it ready for the next."""
    source = Source()
    shuffled = embed_shuffle(source, shuffle_last=True, epoch=4)
    assert [seed for seed, _ in shuffled] == [None] * 3
    assert source.seeds == [4]
    assert [seed for seed, _ in shuffled] == [4] * 3
    assert source.seeds == [4, 5]


def test_shuffle_last_happens_when_it_is_abandoned() -> None:
    """By a break, which closes the iterator."""
    source = Source()
    shuffled = embed_shuffle(source, shuffle_last=True)
    for _ in shuffled:
        break
    iterator = iter(shuffled)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert source.seeds == [0, 1]


def test_an_iteration_abandoned_early_counts_as_an_epoch() -> None:
    """The next one has the next seed."""
    source = Source()
    shuffled = embed_shuffle(source)
    next(iter(shuffled))
    next(iter(shuffled))
    assert source.seeds == [0, 1]


def test_length_is_that_of_the_source() -> None:
    """A source without one has none wrapped either."""
    assert len(embed_shuffle(Sized(4))) == 4
    unsized: Any = embed_shuffle(Source())
    with pytest.raises(TypeError):
        len(unsized)
    assert embed_shuffle(Sized()).src.size == 3  # type: ignore[attr-defined]


def test_a_wrapped_source_pickles_with_its_epoch() -> None:
    """The copy goes on where the original is."""
    shuffled = embed_shuffle(Sized())
    list(shuffled)
    again = pickle.loads(pickle.dumps(shuffled))
    assert list(again) == [(1, k) for k in range(3)] == list(shuffled)


# -- repeat_source


def test_repeat_goes_round_for_ever() -> None:
    """What has no shuffle is only repeated."""
    assert list(itertools.islice(repeat_source([1, 2, 3]), 8)) == [1, 2, 3, 1, 2, 3, 1, 2]


def test_repeat_shuffles_before_each_pass() -> None:
    """From the epoch given on."""
    source = Source(2)
    assert [seed for seed, _ in itertools.islice(repeat_source(source, 7), 6)] == [7, 7, 8, 8, 9, 9]
    assert [seed for seed, _ in itertools.islice(repeat_source(Source(2)), 3)] == [0, 0, 1]


def test_repeat_is_its_own_iterator_and_lazy() -> None:
    """Nothing is asked of the source before the first ``next``."""
    source = Source()
    iterator = repeat_source(source)
    assert iter(iterator) is iterator
    assert source.seeds == []


def test_repeat_pickles_only_before_it_is_read() -> None:
    """What is half read cannot be told."""
    iterator = repeat_source(Sized(2), 3)
    again = pickle.loads(pickle.dumps(iterator))
    assert next(again) == next(iterator) == (3, 0)
    with pytest.raises(ValueError):
        pickle.dumps(iterator)


def test_an_error_of_the_repeated_source_arrives() -> None:
    """After what came before."""

    class Breaking:
        def __iter__(self) -> Iterator[int]:
            yield 1
            raise KeyError("no")

    iterator = repeat_source(Breaking())
    assert next(iterator) == 1
    with pytest.raises(KeyError):
        next(iterator)


# -- MergeIterator

THREE = [[0, 1, 2], [10, 11], [20, 21, 22, 23]]


@pytest.mark.parametrize(
    ("stop_after", "expected"),
    [
        (0, [0, 10, 20, 1, 11, 21, 2, 22, 23]),
        (-1, [0, 10, 20, 1, 11, 21, 2]),
        (1, [0]),
        (5, [0, 10, 20, 1, 11]),
        (8, [0, 10, 20, 1, 11, 21, 2, 22]),
        (9, [0, 10, 20, 1, 11, 21, 2, 22, 23]),
        (100, [0, 10, 20, 1, 11, 21, 2, 22, 23]),
    ],
)
def test_round_robin(stop_after: int, expected: list[int]) -> None:
    """Without weights: in turns, as often as one likes."""
    merged = MergeIterator(THREE, stop_after=stop_after)
    assert list(merged) == expected
    assert list(merged) == expected


def test_stop_after_takes_no_item_too_many() -> None:
    """What was not given is still in the source."""
    sources = [iter(range(5)), iter(range(10, 15))]
    assert list(MergeIterator(sources, stop_after=4)) == [0, 10, 1, 11]
    assert [next(source) for source in sources] == [2, 12]


def test_random_choice_gives_each_item_once() -> None:
    """Sources keep their own order."""
    merged = list(MergeIterator(THREE, weights=[1, 2, 3], seed=5))
    assert sorted(merged) == [0, 1, 2, 10, 11, 20, 21, 22, 23]
    for source in THREE:
        assert [item for item in merged if item in source] == source


def test_random_choice_is_reproducible() -> None:
    """The same on each ``iter``; another seed, another order."""
    sources = [range(50), range(50, 100)]
    merged = MergeIterator(sources, weights=[1, 1], seed=3)
    assert list(merged) == list(merged) == list(MergeIterator(sources, weights=[1, 1], seed=3))
    assert list(merged) != list(MergeIterator(sources, weights=[1, 1], seed=4))


@pytest.mark.parametrize("weights", [[1, 3], [0.25, 0.75], [1e-300, 3e-300], [1e307, 3e307]])
def test_weights_are_ratios(weights: list[float]) -> None:
    """Whatever their size."""
    endless = [itertools.repeat(0), itertools.repeat(1)]
    counts = Counter(MergeIterator(endless, weights=weights, stop_after=4000, seed=1))
    assert counts.total() == 4000
    assert 2830 < counts[1] < 3170  # six standard deviations


def test_the_rest_keep_their_ratio_when_one_is_exhausted() -> None:
    """The one that is empty leaves the draw."""
    sources: list[Iterable[int]] = [[], itertools.repeat(1), itertools.repeat(2)]
    counts = Counter(MergeIterator(sources, weights=[1000, 1, 3], stop_after=4000, seed=1))
    assert counts.total() == 4000
    assert 2830 < counts[2] < 3170


def test_sources_without_weight_are_left_out() -> None:
    """Of the lists, too."""
    merged = MergeIterator(THREE, weights=[1, 0, 2])
    assert list(merged.iterables) == [THREE[0], THREE[2]]
    assert merged.weights is not None
    assert list(merged.weights) == [1, 2]
    assert sorted(merged) == [0, 1, 2, 20, 21, 22, 23]


@pytest.mark.parametrize("stop_after", [-1, 3])
def test_random_choice_stops_early(stop_after: int) -> None:
    """At the first exhausted, or after so many."""
    merged = list(MergeIterator(THREE, weights=[1, 1, 1], stop_after=stop_after, seed=2))
    if stop_after > 0:
        assert len(merged) == stop_after
    else:
        assert any(all(item in merged for item in source) for source in THREE)


BAD: list[Any] = [
    [1], [1, 1], [1, 1, 1, 1], [1, 1, -1], [1, 1, math.nan], [1, 1, math.inf], [0, 0, 0], [1, 1, "one"], [1, 1, None],
    [1, 1, 10**400],
]  # fmt: skip


@pytest.mark.parametrize("weights", BAD)
def test_bad_weights_are_refused(weights: Any) -> None:
    """When it is made."""
    with pytest.raises(ValueError):
        MergeIterator(THREE, weights=weights)


def test_bad_arguments_are_refused() -> None:
    """No sources; an end that means nothing."""
    with pytest.raises(ValueError):
        MergeIterator([])
    with pytest.raises(ValueError):
        MergeIterator(THREE, stop_after=-2)
