"""Random numbers inside of samples: the same as torch's, bit by bit."""

from typing import Any

import pytest
import torch

from .datasets import Chance, Stateful, as_list, chance, enlarge, reseed
from .loaders import FORKS, check_same, ours, read, theirs
from .streams import ChanceIterable

CASES: dict[str, dict[str, Any]] = {
    "global generator": {},
    "generator": {"generator": 7},
    "shuffled": {"generator": 7, "shuffle": True},
    "three workers": {"num_workers": 3},
    "persistent": {"persistent_workers": True, "shuffle": True},
    "worker_init_fn": {"worker_init_fn": reseed},
    "far ahead": {"prefetch_factor": 5, "batch_size": 1},
    "single samples": {"batch_size": None, "collate_fn": None, "shuffle": True},
}


def epochs(make: Any, dataset: Any, **options: Any) -> list[Any]:
    """Two epochs after seeding everything, and the state of the global generator between and after."""
    if "generator" in options:
        options["generator"] = torch.Generator().manual_seed(options["generator"])
    torch.manual_seed(23)
    loader = make(dataset, **{"batch_size": 2, "num_workers": 2, "collate_fn": as_list, **options})
    return [found for _ in range(2) for found in (read(loader), torch.rand(1).item())]


def processes(*args: Any, **options: Any) -> Any:
    return ours("process", *args, **options)


@FORKS
@pytest.mark.filterwarnings("ignore:.*worker processes in total:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_random_numbers_of_workers_are_those_of_torch(name: str) -> None:
    """Python's, NumPy's and torch's generators; the seed, the id and the number of workers that a sample can ask."""
    expected = epochs(theirs, Chance(), **CASES[name])
    check_same(epochs(processes, Chance(), **CASES[name]), expected)


@FORKS
def test_random_numbers_of_iterable_datasets_are_those_of_torch() -> None:
    """In each worker its own."""
    check_same(epochs(processes, ChanceIterable()), epochs(theirs, ChanceIterable()))


def test_random_numbers_in_the_consumers_thread_are_those_of_torch() -> None:
    """Without workers the global generators are used, in the same order of draws."""
    import random

    import numpy as np

    found = []
    for loader in (theirs(Chance(), 2, True), ours("inline", Chance(), 2, True)):
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        found.append([read(loader), read(loader), chance(0)])
    check_same(found[1], found[0])


@FORKS
def test_worker_init_fn_changes_the_workers_copy() -> None:
    """Called after seeding, with ``get_worker_info()``; the dataset here is left alone."""
    dataset = Stateful()
    steps = [
        read(make(dataset, batch_size=2, num_workers=2, worker_init_fn=enlarge, collate_fn=as_list))
        for make in (theirs, processes)
    ]
    assert [[sample[:2] for sample in batch] for batch in steps[1]] == [
        [sample[:2] for sample in batch] for batch in steps[0]
    ]
    assert dataset.num_given == 0
