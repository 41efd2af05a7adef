"""``cache_iterator``: what comes from the source, what is repeated, when it ends."""

import weakref
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._cache_iterator import cache_iterator


class Item:
    """Something that can be referenced weakly."""


class CountingSource:
    """An endless source that says how much of it was read."""

    def __init__(self) -> None:
        self.num_read = 0

    def __iter__(self) -> Iterator[int]:
        while True:
            self.num_read += 1
            yield self.num_read - 1


def test_the_first_items_are_repeated_for_ever() -> None:
    """By default the kept items are repeated as soon as all are there."""
    assert list(islice(cache_iterator(range(100), 3), 8)) == [0, 1, 2, 0, 1, 2, 0, 1]


def test_more_items_can_come_from_the_source_before_the_repetition() -> None:
    """return_caches_after items come from the source, the first num_caches of them are kept."""
    assert list(islice(cache_iterator(range(100), 2, return_caches_after=4), 7)) == [0, 1, 2, 3, 0, 1, 0]


def test_the_source_is_read_no_further_than_needed() -> None:
    """Not even one item more than those that are yielded from it is taken."""
    src = CountingSource()
    list(islice(cache_iterator(src, 2, return_caches_after=4), 50))
    assert src.num_read == 4


@given(st.integers(0, 8), st.integers(1, 6), st.integers(0, 4), st.integers(0, 12))
def test_it_ends_after_stop_after_items(size: int, num_caches: int, more: int, still_more: int) -> None:
    """Whatever the length of a source that is not empty, stop_after items come in all, the kept ones in a cycle."""
    after = num_caches + more
    stop = after + still_more
    got = list(cache_iterator(range(size), num_caches, return_caches_after=after, stop_after=stop))
    fresh = list(range(min(size, after)))
    assert got[: len(fresh)] == fresh
    assert len(got) == (stop if size else 0)
    kept = fresh[:num_caches]
    assert got[len(fresh) :] == [kept[k % len(kept)] for k in range(len(got) - len(fresh))]


def test_a_shorter_source_goes_straight_to_the_cache() -> None:
    """When the source ends early, what it gave is repeated."""
    assert list(islice(cache_iterator([7, 8], 5), 5)) == [7, 8, 7, 8, 7]


def test_an_empty_source_ends() -> None:
    """There is nothing to repeat, so nothing is repeated for ever."""
    assert list(cache_iterator([], 3)) == []


def test_the_source_is_released_once_it_is_no_longer_read() -> None:
    """By default nothing but the kept items is referenced, neither the source nor its iterator."""
    src = CountingSource()
    ref = weakref.ref(src)
    iterator = cache_iterator(src, 2)
    del src
    assert [next(iterator), next(iterator)] == [0, 1]
    assert ref() is not None
    assert next(iterator) == 0
    assert ref() is None


def test_items_that_are_not_kept_are_released_too() -> None:
    """The last item from the source does not live on in the iterator."""
    refs: list[weakref.ref[Item]] = []

    def source() -> Iterator[Item]:
        for _ in range(3):
            item = Item()
            refs.append(weakref.ref(item))
            yield item
            del item

    iterator = cache_iterator(source(), 1, return_caches_after=3)
    for _ in range(4):
        next(iterator)
    assert [ref() is None for ref in refs] == [False, True, True]


def test_the_source_can_be_kept_alive() -> None:
    """With delete_src=False the source lives as long as the iterator."""
    src = CountingSource()
    ref = weakref.ref(src)
    iterator = cache_iterator(src, 1, delete_src=False)
    del src
    assert list(islice(iterator, 5)) == [0] * 5
    assert ref() is not None
    del iterator
    assert ref() is None


def test_an_error_of_the_source_arrives() -> None:
    """The exception is the source's own, and the iterator has ended."""

    def source() -> Iterator[int]:
        yield 1
        raise OSError("disk gone")

    iterator = cache_iterator(source(), 2)
    assert next(iterator) == 1
    with pytest.raises(OSError, match="disk gone"):
        next(iterator)
    assert list(iterator) == []


@pytest.mark.parametrize(
    ("num_caches", "after", "stop", "message"),
    [
        (0, None, None, "num_caches must be >= 1, got 0"),
        (-1, None, None, "num_caches must be >= 1, got -1"),
        (3, 2, None, "return_caches_after must be >= num_caches, got 2 with num_caches=3"),
        (3, None, 2, "stop_after must be >= num_caches, got 2 with num_caches=3"),
        (3, 5, 4, "stop_after must be >= return_caches_after, got 4 with return_caches_after=5"),
    ],
)
def test_bad_arguments_are_refused_on_the_first_next(
    num_caches: int, after: int | None, stop: int | None, message: str
) -> None:
    """The message names the argument and what was given, and the source is not touched."""
    src = CountingSource()
    iterator = cache_iterator(src, num_caches, return_caches_after=after, stop_after=stop)
    with pytest.raises(ValueError, match=message):
        next(iterator)
    assert src.num_read == 0
