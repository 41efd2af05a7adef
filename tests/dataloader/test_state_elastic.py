"""States of ``get_pytorch_dataloader`` gathered from all ranks, and loaded by another number of them."""

import json
from typing import Any

import pytest

pytest.importorskip("torch")

from torch.utils.data import DistributedSampler

from spdl import resume
from spdl.dataloader import PyTorchDataLoader, get_pytorch_dataloader
from spdl.resume import ResumeError
from spdl.source import DistributedKeyedSampler

from . import stateful_datasets as data

SIZE = 96
WORLDS = [1, 2, 3, 4, 8]


def sampler_of(rank: int, world: int) -> DistributedKeyedSampler:
    """Of a last incomplete round nothing is dropped."""
    return DistributedKeyedSampler(SIZE, rank=rank, world_size=world, seed=5, ddp_drop_last_distributed_round=False)


def make(rank: int, world: int, batch_size: int | None = 2, **options: Any) -> PyTorchDataLoader[Any]:
    sampler = sampler_of(rank, world)
    values = {"workers": "thread", "num_workers": 0, "collate_fn": list if batch_size else None, **options}
    return get_pytorch_dataloader(list(range(SIZE)), batch_size, sampler=sampler, **values)


def epoch_of(number: int) -> list[int]:
    sampler = sampler_of(0, 1)
    sampler.set_epoch(number)
    return list(sampler)


def run(world: int, num_steps: int, state: Any = None, **options: Any) -> tuple[list[list[int]], dict[str, str]]:
    """The global batches of some steps in the second epoch, and the gathered state after them."""
    loaders = [make(rank, world, **options) for rank in range(world)]
    for loader in loaders:
        if state is None:
            loader.set_epoch(1)
        else:
            loader.load_state_dict(state)
    iterators = [iter(loader) for loader in loaders]
    steps = []
    for _ in range(num_steps):
        found = [batch for batches in iterators if (batch := next(batches, None)) is not None]
        if not found:
            break
        steps.append(sorted(index for batch in found for index in batch))
    return steps, resume.gather([loader.state_dict() for loader in loaders])


@pytest.mark.parametrize("old", WORLDS)
@pytest.mark.parametrize("new", WORLDS)
def test_each_index_once_on_any_number_of_ranks(old: int, new: int) -> None:
    """The rest of the epoch is divided among the new ranks; then come whole epochs."""
    before, state = run(old, 3, batch_size=2)
    after, ended = run(new, 1000, state, batch_size=2)
    assert sorted(index for batch in before + after for index in batch) == list(range(SIZE))
    whole, _ = run(new, 1000, ended, batch_size=2)
    assert sorted(index for batch in whole for index in batch) == list(range(SIZE))


@pytest.mark.parametrize("new", [1, 2, 3, 4, 6])
def test_batches_of_a_global_step_are_equal(new: int) -> None:
    """With the same global batch size, every step has the same indices on any number of ranks."""
    whole, _ = run(4, 1000, batch_size=3)
    before, state = run(4, 2, batch_size=3)
    after, _ = run(new, 1000, state, batch_size=12 // new)
    assert before + after == whole


def test_twice_on_other_numbers_of_ranks() -> None:
    """A run that was divided anew can be divided again, and goes on in the same world too."""
    first, state = run(4, 2)
    second, state = run(3, 3, state)
    third, again = run(3, 1, state)
    fourth, _ = run(2, 1000, again)
    assert sorted(index for batch in first + second + third + fourth for index in batch) == list(range(SIZE))
    loader = make(1, 3)
    loader.load_state_dict(state)
    own = loader.state_dict()
    other = make(1, 3)
    other.load_state_dict(own)
    assert other.state_dict() == own
    assert list(other) == list(loader)


def test_batches_out_of_order() -> None:
    """Batches that were taken before earlier ones do not come again."""
    loader = make(0, 1)
    next(iter(loader))
    document = json.loads(loader.state_dict()["spdl"])
    document["epoch"] |= {"taken": 2, "above": [3, 5], "check": None}
    document["sources"][0]["epochs"][0] |= {"high": 12, "holes": [[4, 6], [8, 10]]}
    state = {"spdl": json.dumps(document)}
    same = make(0, 1)
    same.load_state_dict(state)
    iter(same)
    assert json.loads(same.state_dict()["spdl"])["sources"] == document["sources"]
    after, _ = run(2, 1000, resume.gather([state]))
    order = epoch_of(0)
    assert sorted(index for batch in after for index in batch) == sorted(order[4:6] + order[8:10] + order[12:])


def test_without_batches() -> None:
    """Samples are positions."""
    loaders = [make(rank, 2, None) for rank in range(2)]
    taken = [next(iter(loader)) for loader in loaders]
    state = resume.gather([loader.state_dict() for loader in loaders])
    loader = make(0, 1, None)
    loader.load_state_dict(state)
    taken += list(loader)
    assert sorted(taken) == list(range(SIZE))


def test_a_gathered_state_in_the_same_world() -> None:
    """Each rank goes on with its own."""
    loaders = [make(rank, 2) for rank in range(2)]
    iterators = [iter(loader) for loader in loaders]
    for batches in iterators:
        next(batches)
    state = resume.gather([loader.state_dict() for loader in reversed(loaders)])
    for rank, batches in enumerate(iterators):
        other = make(rank, 2)
        other.load_state_dict(state)
        assert list(other) == list(batches)


def test_samplers_that_cannot_be_divided_are_refused() -> None:
    """torch's own draws each rank's order by itself; the message names one that can."""

    def other(rank: int, world: int) -> PyTorchDataLoader[Any]:
        dataset: Any = list(range(SIZE))
        sampler: DistributedSampler[Any] = DistributedSampler(dataset, world, rank)
        return get_pytorch_dataloader(dataset, 2, sampler=sampler, workers="thread", num_workers=0)

    loaders = [other(rank, 2) for rank in range(2)]
    for loader in loaders:
        next(iter(loader))
    state = resume.gather([loader.state_dict() for loader in loaders])
    with pytest.raises(ResumeError, match="DistributedKeyedSampler"):
        other(0, 3).load_state_dict(state)
    other(1, 2).load_state_dict(state)


def test_a_dataset_with_a_state_is_refused() -> None:
    """It cannot be divided."""

    def counting(rank: int, world: int) -> PyTorchDataLoader[Any]:
        sampler = sampler_of(rank, world)
        return get_pytorch_dataloader(data.Counting(SIZE), 2, sampler=sampler, workers="thread", num_workers=0)

    loader = counting(0, 1)
    next(iter(loader))
    with pytest.raises(ResumeError, match="the dataset has a state, which cannot be divided"):
        counting(0, 2).load_state_dict(resume.gather([loader.state_dict()]))


@pytest.mark.parametrize("world", [1, 2])
def test_skipped_batches(world: int) -> None:
    """``resume.skip`` leaves out global batches, counted from the state; they may be loaded by other ranks."""
    whole, _ = run(2, 1000)
    before, state = run(2, 2)
    skipped = resume.skip(state, batches=range(1, 4))
    after, _ = run(world, 1000, skipped, batch_size=4 // world)
    assert before + after == [*whole[:3], *whole[6:]]


def test_skipped_batches_of_one_loader() -> None:
    """Of any map-style dataset in order; a state between epochs has no batches yet."""

    def other() -> PyTorchDataLoader[Any]:
        return get_pytorch_dataloader(data.Squares(20), 2, shuffle=True, workers="thread", num_workers=0)

    loader = other()
    with pytest.raises(ResumeError, match="between epochs"):
        resume.skip(loader.state_dict(), batches=range(1))
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [batch.tolist() for batch in batches]
    for skipped in (range(2), range(1, 3), range(0, 5, 2), range(0)):
        again = other()
        again.load_state_dict(resume.skip(state, batches=skipped))
        assert [batch.tolist() for batch in again] == [each for k, each in enumerate(rest) if k not in skipped]
    with pytest.raises(ResumeError, match="9 batches left"):
        resume.skip(state, batches=range(8, 10))
