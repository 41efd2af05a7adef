"""``CacheDataLoader``: what it repeats, and what it takes from the loader inside."""

import pickle
from typing import Any

import pytest

from spdl.dataloader import CacheDataLoader, DataLoader


class Loader:
    """Counts how many items were taken; has attributes of its own."""

    colour = "blue"

    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.num_taken = 0
        self.epochs: list[int] = []

    def __iter__(self) -> Any:
        for item in range(self.size):
            self.num_taken += 1
            yield item

    def __len__(self) -> int:
        return self.size

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)


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


def test_length_and_attributes_are_those_inside() -> None:
    """Unknown ones of the loader itself are told by their name."""
    loader: Any = CacheDataLoader(Loader(7), 1, 1)
    assert len(loader) == 7
    assert loader.colour == "blue"
    with pytest.raises(AttributeError, match="flavour"):
        loader.flavour  # noqa: B018 - reading it is the test
    unsized: Any = CacheDataLoader(iter([1]), 1, 1)
    with pytest.raises(TypeError):
        len(unsized)


def test_epochs_are_passed_on() -> None:
    """To the loader inside."""
    inner = Loader()
    loader: Any = CacheDataLoader(inner, 1, 1)
    loader.set_epoch(4)
    assert inner.epochs == [4]


def test_it_wraps_a_loader_of_ours() -> None:
    """And ends its pipeline when the caches take over."""
    loader: Any = CacheDataLoader(DataLoader(range(100), batch_size=2, timeout=100), 1, 2, 5)
    assert list(loader) == [[0, 1], [2, 3], [0, 1], [0, 1], [0, 1]]
    assert len(loader) == 50


def test_a_copy_does_not_ask_itself_for_its_attributes() -> None:
    """Unpickling makes the object before it has a loader inside: no endless recursion."""
    loader: Any = pickle.loads(pickle.dumps(CacheDataLoader([1, 2, 3], 1, 2, 4)))
    assert list(loader) == [1, 2, 1, 1]
    with pytest.raises(AttributeError):
        object.__new__(CacheDataLoader).dl  # noqa: B018 - reading it is the test
