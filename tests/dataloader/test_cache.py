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


def test_numbers_that_do_not_fit_are_refused_when_it_is_read() -> None:
    """As by ``cache_iterator``, which it is."""
    with pytest.raises(ValueError, match="return_caches_after must be >= num_caches"):
        next(iter(CacheDataLoader([1, 2, 3], 2, 1)))


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_it_is_copied_and_pickled(way: Any) -> None:
    """Although it asks the loader for what it does not have."""
    assert list(way(CacheDataLoader([1, 2, 3], 1, 2, 3))) == [1, 2, 1]


def test_return_caches_after_is_required() -> None:
    """Unlike in ``cache_iterator``."""
    with pytest.raises(TypeError):
        CacheDataLoader([1], 1)  # type: ignore[call-arg]
