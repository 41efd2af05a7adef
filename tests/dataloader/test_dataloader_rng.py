"""``DataLoader(rng=True)``: the epoch reaches the functions that take random numbers."""

import pickle
from typing import Any

import pytest

from spdl.dataloader import DataLoader
from spdl.source import DistributedKeyedSampler
from tests.support.rng_ops import draw, draw_first

SIZE = 6


def loader(source: Any = range(SIZE), **options: Any) -> DataLoader[Any, Any]:
    options = {"preprocessor": draw, "num_threads": 2, "output_order": "input", "rng": True, **options}
    return DataLoader(source, **options)


def seeds(passed: Any) -> list[int]:
    return [seed for _, seed, _ in passed]


def test_each_pass_has_its_own_numbers() -> None:
    """A user who never says the epoch gets other random numbers in each pass, and the same ones in each run."""
    first, second = loader(), loader()
    epochs = [seeds(first) for _ in range(3)]
    assert len({seed for epoch in epochs for seed in epoch}) == 3 * SIZE
    assert [seeds(second) for _ in range(3)] == epochs


def test_set_epoch_sets_it() -> None:
    """The epoch that the user says is that of the numbers, and the passes after it go on from there."""
    plain = loader()
    epochs = [seeds(plain) for _ in range(4)]
    told = loader()
    told.set_epoch(2)
    assert [seeds(told) for _ in range(2)] == epochs[2:]
    told.set_epoch(0)
    assert seeds(told) == epochs[0]
    told.set_epoch(0)
    assert seeds(told) == epochs[0]


def test_the_epoch_of_the_source_counts() -> None:
    """A sampler that was told the epoch itself decides; one that was told nothing does not stop the count."""
    plain = loader()
    epochs = [seeds(plain) for _ in range(8)]
    sampler = DistributedKeyedSampler(SIZE, seed=1, epoch=5)
    own = loader(sampler)
    assert seeds(own) == epochs[5]
    assert seeds(own) == epochs[6]
    sampler.set_epoch(7)
    assert seeds(own) == epochs[7]
    sampler.set_epoch(1)
    assert seeds(own) == epochs[1]


def test_batches_and_transfers_get_numbers() -> None:
    """All functions with the parameter get numbers, each its own, and those without it are called as before."""
    found = list(loader(preprocessor=str, batch_size=3, aggregator=draw_first, transfer_fn=draw_first))
    assert [items for (items, _), _ in found] == [["0", "1", "2"], ["3", "4", "5"]]
    assert len({number for (_, one), two in found for number in (one, two)}) == 4


def test_the_seed_makes_a_difference() -> None:
    """Two seeds give different numbers; a copy of the loader goes on like the loader."""
    assert seeds(loader(seed=1)) != seeds(loader())
    first = loader()
    seeds(first)
    assert seeds(pickle.loads(pickle.dumps(first))) == seeds(first)


def test_functions_without_the_parameter_are_refused() -> None:
    """Random numbers that nobody takes are an error."""
    with pytest.raises(ValueError, match="parameter named 'rng'"):
        loader(preprocessor=str)
    with pytest.raises(TypeError, match="rng must be a bool"):
        loader(rng="augment")
    with pytest.raises(TypeError, match="seed must be an int"):
        loader(seed=None)


@pytest.mark.parametrize("count", [0, 2, SIZE])
@pytest.mark.parametrize("begun", [0, 2])
def test_a_resumed_iteration_has_the_numbers_of_its_epoch(begun: int, count: int) -> None:
    """In the middle, at the end and between epochs; and the epochs after it go on counting."""
    plain = loader(resumable=True)
    epochs = [seeds(plain) for _ in range(4)]
    first = loader(resumable=True)
    for _ in range(begun):
        seeds(first)
    taken, batches = [], iter(first)
    for _ in range(count):
        taken.append(next(batches)[1])
    state = first.state_dict()
    second = loader(resumable=True)
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert taken + seeds(second) == epochs[begun]
    assert seeds(second) == epochs[begun + 1]


def test_a_state_between_epochs_keeps_counting() -> None:
    """After the end of an iteration the next one has the next numbers, in the resumed loader too."""
    plain = loader(resumable=True)
    epochs = [seeds(plain) for _ in range(3)]
    first = loader(resumable=True)
    assert seeds(first) == epochs[0]
    second = loader(resumable=True)
    second.load_state_dict(first.state_dict())
    assert [seeds(second) for _ in range(2)] == epochs[1:]
