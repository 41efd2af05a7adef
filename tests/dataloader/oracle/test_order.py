"""Which samples come in which batch, and how the global generators stand afterwards."""

from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from .datasets import Begun, Drawn, EndlessBatches, Numbers
from .loaders import ALL, FORKS, QUICK, numbers_of, ours, read, reading, theirs

SHAPES: list[dict[str, Any]] = [
    {},
    {"batch_size": 1},
    {"batch_size": 3},
    {"batch_size": 3, "drop_last": True},
    {"batch_size": 5, "drop_last": True},
    {"batch_size": 10},
    {"batch_size": 11},
    {"batch_size": 11, "drop_last": True},
    {"batch_size": None},
    {"batch_size": 2, "shuffle": True},
    {"batch_size": 3, "shuffle": True, "drop_last": True},
    {"batch_size": None, "shuffle": True},
]


def epochs(loader: Any, num_epochs: int = 2) -> list[Any]:
    """The batches of some epochs, lengths, and the next number of the global generator."""
    torch.manual_seed(11)
    found: list[Any] = [numbers_of(read(loader)) for _ in range(num_epochs)]
    return [*found, len(loader), torch.rand(1).item()]


@pytest.mark.parametrize("way", QUICK)
@pytest.mark.parametrize("options", SHAPES, ids=str)
@pytest.mark.parametrize("seeded", [True, False])
def test_batches_come_as_from_torch(way: str, options: dict[str, Any], seeded: bool) -> None:
    """Two epochs, with a generator and with the global one, which is left as torch leaves it."""

    def generator() -> dict[str, Any]:
        return {"generator": torch.Generator().manual_seed(5)} if seeded else {}

    assert epochs(ours(way, Numbers(), **options, **generator())) == epochs(theirs(Numbers(), **options, **generator()))


@pytest.mark.parametrize("way", ["process", "auto"])
@pytest.mark.parametrize("options", [SHAPES[3], SHAPES[9], SHAPES[11]], ids=str)
@pytest.mark.parametrize("seeded", [True, False])
def test_batches_of_processes_come_as_from_torch(way: str, options: dict[str, Any], seeded: bool) -> None:
    """The same orders with workers as without."""

    def generator() -> dict[str, Any]:
        return {"generator": torch.Generator().manual_seed(5)} if seeded else {}

    assert epochs(ours(way, Numbers(), **options, **generator())) == epochs(theirs(Numbers(), **options, **generator()))


@FORKS
@pytest.mark.parametrize("way", ["thread", "process"])
def test_persistent_workers_shuffle_as_those_of_torch(way: str) -> None:
    """Which draw a base seed once only, so that later epochs differ from those of a loader without them."""
    options: dict[str, Any] = {"batch_size": 2, "shuffle": True, "persistent_workers": True, "num_workers": 2}
    loader = theirs(Numbers(), **options)
    expected = epochs(loader)
    del loader
    assert epochs(ours(way, Numbers(), **options)) == expected


def samplers() -> dict[str, Any]:
    """Made anew, as some have a state."""
    dataset = Numbers()

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(3)

    return {
        "sequential": SequentialSampler(dataset),
        "random": RandomSampler(dataset, generator=generator()),
        "random, global": RandomSampler(dataset),
        "with replacement": RandomSampler(dataset, replacement=True, num_samples=25, generator=generator()),
        "weighted": WeightedRandomSampler([0.1 * k for k in range(10)], 12, generator=generator()),
        "subset": SubsetRandomSampler([1, 3, 5, 7], generator=generator()),
        "distributed": DistributedSampler(dataset, num_replicas=3, rank=1, seed=4),
        "distributed, dropping": DistributedSampler(dataset, num_replicas=3, rank=2, drop_last=True),
        "list": [3, 1, 4, 1, 5],
        "range": range(9, 0, -2),
        "tensor": torch.tensor([2, 7, 1]),
        "empty": [],
    }


@pytest.mark.parametrize("way", QUICK)
@pytest.mark.parametrize("name", list(samplers()))
@pytest.mark.parametrize("batch_size", [2, None])
def test_samplers_are_read_as_by_torch(way: str, name: str, batch_size: int | None) -> None:
    """All of torch's, and whatever can be iterated and has a length."""
    expected = epochs(theirs(Numbers(), sampler=samplers()[name], batch_size=batch_size))
    assert epochs(ours(way, Numbers(), sampler=samplers()[name], batch_size=batch_size)) == expected


@pytest.mark.parametrize("way", ALL)
def test_distributed_samplers_follow_set_epoch(way: str) -> None:
    """Told through the sampler, or through the loader."""
    orders: dict[str, list[Any]] = {}
    for name in ("torch", "sampler", "loader"):
        sampler: Any = DistributedSampler(Numbers(), num_replicas=3, rank=1, seed=4)
        loader = theirs(Numbers(), 2, sampler=sampler) if name == "torch" else ours(way, Numbers(), 2, sampler=sampler)
        orders[name] = []
        for epoch in (0, 1, 5):
            (loader if name == "loader" else sampler).set_epoch(epoch)
            orders[name].append(numbers_of(read(loader)))
    assert orders["sampler"] == orders["torch"]
    assert orders["loader"] == orders["torch"]


def test_set_epoch_finds_the_sampler_in_a_batch_sampler() -> None:
    """And does not mind if nobody wants to know."""
    sampler: Any = DistributedSampler(Numbers(), num_replicas=2, rank=0)
    loader = ours("thread", Numbers(), batch_sampler=BatchSampler(sampler, 2, drop_last=False))
    loader.set_epoch(7)
    assert sampler.epoch == 7
    ours("thread", Numbers()).set_epoch(7)


def batch_samplers() -> dict[str, Any]:
    return {
        "torch's": BatchSampler(SequentialSampler(Numbers()), 4, drop_last=False),
        "random": BatchSampler(RandomSampler(Numbers(), generator=torch.Generator().manual_seed(3)), 4, True),
        "list": [[1, 2], [3], [4, 5, 6]],
        "tuples": [(1, 2), (3, 0)],
        "tensors": [torch.tensor([1, 2]), torch.tensor([3])],
        "empty": [],
        "an empty batch": [[1], [], [2]],
    }


@pytest.mark.parametrize("way", QUICK)
@pytest.mark.parametrize("name", list(batch_samplers()))
def test_batch_samplers_are_read_as_by_torch(way: str, name: str) -> None:
    """An empty batch fails alike."""
    assert epochs(ours(way, Numbers(), batch_sampler=batch_samplers()[name])) == epochs(
        theirs(Numbers(), batch_sampler=batch_samplers()[name])
    )


@pytest.mark.parametrize("way", ALL)
def test_generators_of_batches_are_read_once(way: str) -> None:
    """They have no length, and nothing is left of them for a second epoch."""
    for batching in (True, False):

        def load(make: Any, batching: bool = batching) -> list[Any]:
            if batching:
                loader = make(Numbers(), batch_sampler=([k, k + 1] for k in range(5)))
            else:
                loader = make(Numbers(), batch_size=2, sampler=(k for k in range(5)))
            with pytest.raises(TypeError):
                len(loader)
            return [numbers_of(read(loader)), numbers_of(read(loader))]

        def make(*args: Any, **options: Any) -> Any:
            return ours(way, *args, **options)

        assert load(make) == load(theirs)


@pytest.mark.parametrize("way", ALL)
def test_endless_samplers_are_left_by_a_break(way: str) -> None:
    """And can be begun anew."""
    loader = ours(way, Numbers(), batch_sampler=EndlessBatches())
    expected = theirs(Numbers(), batch_sampler=EndlessBatches())
    for num_batches in (7, 3):
        with reading(loader) as one, reading(expected) as other:
            assert numbers_of(next(one) for _ in range(num_batches)) == numbers_of(
                next(other) for _ in range(num_batches)
            )


@FORKS
@pytest.mark.parametrize("prefetch_factor", [1, 3])
def test_samplers_are_read_ahead_as_far_as_by_torch(prefetch_factor: int) -> None:
    """The first indices are taken by ``iter`` itself, then one for each batch."""

    def taken(loader: Any, sampler: Drawn) -> list[int]:
        with reading(loader) as iterator:
            found = [sampler.num_taken]
            for _ in range(4):
                next(iterator)
                found.append(sampler.num_taken)
        return found

    options: dict[str, Any] = {"batch_size": None, "num_workers": 2, "prefetch_factor": prefetch_factor}
    sampler = Drawn()
    expected = taken(theirs(Numbers(), sampler=sampler, **options), sampler)
    sampler = Drawn()
    assert taken(ours("process", Numbers(), sampler=sampler, **options), sampler) == expected


@FORKS
@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_samplers_are_begun_as_often_as_by_torch(way: str, persistent_workers: bool) -> None:
    """With workers twice in an epoch: before the base seed is drawn, and after; persistent ones only in the first."""
    num_workers = 0 if way == "inline" else 2
    options: dict[str, Any] = {"num_workers": num_workers, "persistent_workers": persistent_workers and num_workers > 0}

    def begun(make: Any) -> list[int]:
        counts = []
        for name, indices in (("sampler", list(range(9))), ("batch_sampler", [[k] for k in range(9)])):
            for batch_size in (1, None) if name == "sampler" else (1,):
                sampler = Begun(indices)
                loader = make(Numbers(), batch_size=batch_size, **{name: sampler}, **options)
                for _ in range(2):
                    read(loader)
                    counts.append(sampler.num_begun)
        return counts

    expected = begun(theirs)
    assert begun(lambda *args, **kwargs: ours(way, *args, **kwargs)) == expected


@pytest.mark.parametrize("way", ["thread", "process"])
@pytest.mark.parametrize("batch_size", [3, None])
def test_completion_order_gives_every_batch_once(way: str, batch_size: int | None) -> None:
    """``in_order=False``."""
    loader = ours(way, Numbers(40), batch_size=batch_size, in_order=False)
    assert sorted(map(str, numbers_of(read(loader)))) == sorted(
        map(str, numbers_of(read(theirs(Numbers(40), batch_size=batch_size))))
    )


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("size", [0, 1, 2])
def test_tiny_datasets_end(way: str, size: int) -> None:
    """With fewer samples than workers."""
    assert epochs(ours(way, Numbers(size), batch_size=2)) == epochs(theirs(Numbers(size), batch_size=2))


@pytest.mark.parametrize("num_workers", [1, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 7, 64, None])
@pytest.mark.filterwarnings("ignore:.*worker processes in total:UserWarning")
def test_order_does_not_depend_on_the_number_of_threads(num_workers: int, batch_size: int | None) -> None:
    """Nor on how batches are cut."""
    loader = ours("thread", Numbers(150), batch_size=batch_size, num_workers=num_workers)
    assert numbers_of(read(loader)) == numbers_of(read(theirs(Numbers(150), batch_size=batch_size)))
