"""``CacheDataLoader``: some batches loaded, then the same ones again."""

import copy
import pickle
import threading
from typing import Any

import pytest

from spdl.dataloader import CacheDataLoader, DataLoader
from tests.support.timeouts import TIMEOUT


class Shuffled:
    """A source that knows its epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Any:
        return iter(range(10 * self.epoch, 10 * self.epoch + 6))

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def test_the_first_batches_come_again() -> None:
    """Over a loader, whose pipeline is over by then."""
    before = set(threading.enumerate())
    loader: DataLoader[int, int] = DataLoader(Shuffled(), timeout=TIMEOUT)
    items = iter(CacheDataLoader(loader, 2, 4, stop_after=8))
    assert [next(items) for _ in range(5)] == [0, 1, 2, 3, 0]
    assert set(threading.enumerate()) <= before
    assert list(items) == [1, 0, 1]


def test_the_rest_is_asked_of_the_loader() -> None:
    """Length, epochs, and whatever attributes it has."""
    loader: DataLoader[int, int] = DataLoader(Shuffled(), timeout=TIMEOUT)
    cached = CacheDataLoader(loader, 1, 2, 3)
    assert len(cached) == 6
    cached.set_epoch(2)
    assert list(cached) == [20, 21, 20]
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = cached.nothing_like_it
    with pytest.raises(TypeError):
        len(CacheDataLoader(iter([1]), 1, 1))
    assert CacheDataLoader(iter([1]), 1, 1)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_it_is_copied_and_pickled(way: Any) -> None:
    """Although it asks the loader for what it does not have."""
    assert list(way(CacheDataLoader([1, 2, 3], 1, 2, 3))) == [1, 2, 1]


class Loader:
    """Counts how many items were taken."""

    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.num_taken = 0

    def __iter__(self) -> Any:
        for item in range(self.size):
            self.num_taken += 1
            yield item


def test_caches_come_after_so_many() -> None:
    """Then round and round, until enough came."""
    inner = Loader()
    assert list(CacheDataLoader(inner, 2, 4, 9)) == [0, 1, 2, 3, 0, 1, 0, 1, 0]
    assert inner.num_taken == 4
    assert list(CacheDataLoader(Loader(3), num_caches=2, return_caches_after=5, stop_after=7)) == [0, 1, 2, 0, 1, 0, 1]


def test_each_iteration_is_a_new_one() -> None:
    """The loader inside is read again."""
    inner = Loader()
    loader: Any = CacheDataLoader(inner, 1, 2, 4)
    assert [list(loader), list(loader)] == [[0, 1, 0, 0]] * 2
    assert inner.num_taken == 4


def test_without_an_end_it_goes_on() -> None:
    """The third argument is required, the fourth is not."""
    iterator = iter(CacheDataLoader(Loader(), 1, 1))
    assert [next(iterator) for _ in range(30)] == [0] * 30
    incomplete: Any = CacheDataLoader
    with pytest.raises(TypeError):
        incomplete(Loader(), 1)


@pytest.mark.parametrize(
    ("num_caches", "return_caches_after", "stop_after"), [(0, 1, None), (2, 1, None), (2, 2, 1), (1, 3, 2)]
)
def test_bad_counts_are_refused(num_caches: int, return_caches_after: int, stop_after: int | None) -> None:
    """At the latest when the first item is wanted."""
    with pytest.raises(ValueError):
        next(iter(CacheDataLoader(Loader(), num_caches, return_caches_after, stop_after)))


def test_a_copy_does_not_ask_itself_for_its_attributes() -> None:
    """Unpickling makes the object before it has a loader inside: no endless recursion."""
    with pytest.raises(AttributeError):
        object.__new__(CacheDataLoader).dl  # noqa: B018 - reading it is the test
