"""Datasets of every kind that torch loads."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, ConcatDataset, StackDataset, Subset, TensorDataset

from .datasets import AtOnce, ByName, Keys, Numbers, WithoutMany, none_if_even
from .loaders import ALL, QUICK, check_same, ours, read, theirs


def tensors() -> TensorDataset:
    return TensorDataset(torch.arange(20, dtype=torch.float32).reshape(10, 2), torch.arange(10))


DATASETS: dict[str, Any] = {
    "tensors": tensors,
    "subset": lambda: Subset(tensors(), [3, 1, 4, 1]),
    "subset at once": lambda: Subset(AtOnce(), [3, 1, 4]),
    "concatenated": lambda: ConcatDataset([Numbers(4), Numbers(3)]),
    "stacked": lambda: StackDataset(tensors(), Numbers()),
    "stacked by name": lambda: StackDataset(a=tensors(), b=Numbers()),
    "stacked at once": lambda: StackDataset(AtOnce(), Numbers()),
    "at once": AtOnce,
    "list": lambda: [k * 1.5 for k in range(7)],
    "tuple": lambda: ("a", "b", "c"),
    "text": lambda: "abcdefg",
    "range": lambda: range(3, 12),
    "array": lambda: np.arange(12).reshape(6, 2),
    "tensor": lambda: torch.arange(12).reshape(6, 2),
    "dict": lambda: {k: k * 2 for k in range(5)},
    "split": lambda: torch.utils.data.random_split(Numbers(), [6, 4], torch.Generator().manual_seed(1))[0],
}


@pytest.mark.parametrize("way", QUICK)
@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("batch_size", [3, None])
def test_datasets_of_every_kind_are_loaded(way: str, name: str, batch_size: int | None) -> None:
    """In batches and one by one; ``__getitems__`` is used where torch uses it."""
    make = DATASETS[name]
    check_same(read(ours(way, make(), batch_size=batch_size)), read(theirs(make(), batch_size=batch_size)))


@pytest.mark.parametrize("name", ["tensors", "subset at once", "stacked at once", "list", "array"])
def test_datasets_of_many_kinds_are_loaded_by_processes(name: str) -> None:
    """The same batches."""
    make = DATASETS[name]
    check_same(read(ours("process", make(), batch_size=3)), read(theirs(make(), batch_size=3)))


@pytest.mark.parametrize("way", ALL)
def test_keys_need_not_be_numbers(way: str) -> None:
    """A sampler, or a batch sampler, gives what the dataset takes."""
    keys: Any = Keys()
    cases: list[dict[str, Any]] = [
        {"sampler": keys, "batch_size": 3},
        {"sampler": keys, "batch_size": None},
        {"batch_sampler": BatchSampler(keys, 2, drop_last=True)},
    ]
    for options in cases:
        check_same(read(ours(way, ByName(), **options)), read(theirs(ByName(), **options)))


@pytest.mark.parametrize("way", ALL)
def test_keys_may_be_pairs(way: str) -> None:
    """As those of a sampler that chooses an augmentation with each index."""

    class_of: Any = {(k, flip): (k, flip) for k in range(4) for flip in (0, 1)}
    options: dict[str, Any] = {"sampler": [(3, 1), (0, 0), (2, 1)], "batch_size": 2}
    check_same(read(ours(way, class_of, **options)), read(theirs(class_of, **options)))


ODD: dict[str, tuple[Any, dict[str, Any]]] = {
    "no __getitems__": (WithoutMany(5), {"batch_size": 2}),
    "NumPy indices": (Numbers(5), {"batch_size": 2, "sampler": np.arange(5)}),
    "batches of NumPy indices": (Numbers(5), {"batch_sampler": [np.array([1, 2]), np.array([3])]}),
    "lists of indices": (torch.arange(10), {"batch_size": None, "sampler": [[1, 2], [3]]}),
    "slices": (torch.arange(10), {"batch_size": None, "sampler": [slice(0, 3), slice(3, 5)]}),
    "None as a key": ({None: 1}, {"batch_size": None, "sampler": [None, None]}),
    "text as a batch": ({"a": 1, "b": 2}, {"batch_sampler": ["ab", "b"]}),
    "None as a batch": (Numbers(6), {"batch_size": 1, "collate_fn": none_if_even}),
}


@pytest.mark.parametrize("way", [*QUICK, "process"])
@pytest.mark.parametrize("name", ODD)
def test_odd_indices_and_batches_are_loaded_alike(way: str, name: str) -> None:
    """Whatever the sampler gives is what the dataset gets; a batch of None is a batch."""
    dataset, options = ODD[name]
    check_same(read(ours(way, dataset, **options)), read(theirs(dataset, **options)))


@pytest.mark.parametrize("way", ["inline", "thread"])
def test_datasets_that_cannot_be_pickled_stay_where_they_are(way: str) -> None:
    """Threads share them, and what they did shows here."""

    class Local:
        def __init__(self) -> None:
            self.asked: list[int] = []
            self.function: Callable[[int], int] = lambda k: k + 1

        def __getitem__(self, index: int) -> Any:
            self.asked.append(index)
            return self.function(index)

        def __len__(self) -> int:
            return 6

    dataset = Local()
    check_same(read(ours(way, dataset, 2, collate_fn=lambda samples: samples)), [[1, 2], [3, 4], [5, 6]])
    assert sorted(dataset.asked) == list(range(6))


def test_auto_takes_threads_for_what_cannot_be_pickled() -> None:
    """And says why."""

    class Local:
        def __getitem__(self, index: int) -> int:
            return index

        def __len__(self) -> int:
            return 50

    loader = ours("auto", Local(), 5)
    check_same(read(loader), read(theirs(Local(), 5)))
    assert loader.choice is not None
    assert "thread" in str(loader.choice)


@pytest.mark.parametrize("way", ALL)
def test_big_arrays_of_the_dataset_arrive_whole(way: str) -> None:
    """Those that go out of band, too; the copy of a worker can be written to."""
    data = np.arange(400_000).reshape(100, 4000)
    data[::2] *= -1
    dataset: Any = TensorDataset(torch.from_numpy(data), torch.arange(100))
    check_same(read(ours(way, dataset, 30)), read(theirs(dataset, 30)))
    check_same(read(ours(way, data, batch_sampler=[[99, 0]])), read(theirs(data, batch_sampler=[[99, 0]])))


def test_a_sequential_sampler_over_what_has_no_length_fails_alike() -> None:
    """At ``len`` or when it is read, with a TypeError."""

    class Unsized:
        def __getitem__(self, index: int) -> int:
            return index

    for make in (theirs, partial(ours, "thread")):
        with pytest.raises(TypeError):
            list(make(Unsized()))
