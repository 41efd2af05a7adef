"""Samplers for the ranks of a distributed training: who gets which index, and what is refused."""

import math
import pickle
import random
import warnings
from typing import Any

import pytest

from spdl.source import (
    DistributedDeterministicSampler,
    DistributedRandomSampler,
    IterableWithShuffle,
    SizedIterable,
    SizedIterableWithShuffle,
)

np = pytest.importorskip("numpy")

SHAPES = [(1, 1), (7, 1), (8, 4), (11, 4), (64, 64), (100, 64), (101, 3)]


def make(cls: Any, n: int, **options: Any) -> Any:
    """A sampler, whether or not it warns of what it drops."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return cls(n, **options)


def ranks(cls: Any, n: int, world_size: int, **options: Any) -> list[list[int]]:
    """What each rank gets."""
    return [list(make(cls, n, rank=rank, world_size=world_size, **options)) for rank in range(world_size)]


BOTH = pytest.mark.parametrize("cls", [DistributedDeterministicSampler, DistributedRandomSampler])


@BOTH
@pytest.mark.parametrize(("n", "world_size"), SHAPES)
def test_ranks_are_disjoint_and_of_one_length(cls: Any, n: int, world_size: int) -> None:
    """With drop, every rank takes the same number of steps; nothing comes twice."""
    parts = ranks(cls, n, world_size)
    assert {len(part) for part in parts} == {n // world_size}
    taken = [index for part in parts for index in part]
    assert len(set(taken)) == len(taken)
    assert set(taken) <= set(range(n))


@BOTH
@pytest.mark.parametrize(("n", "world_size"), [*SHAPES, (3, 5)])
def test_ranks_are_complete_without_drop(cls: Any, n: int, world_size: int) -> None:
    """All of it, once; lengths differ by one at most; ``len`` tells them."""
    parts = ranks(cls, n, world_size, ddp_drop_last_distributed_round=False)
    assert sorted(index for part in parts for index in part) == list(range(n))
    lengths = [len(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1
    samplers = [
        make(cls, n, rank=rank, world_size=world_size, ddp_drop_last_distributed_round=False)
        for rank in range(world_size)
    ]
    assert [len(sampler) for sampler in samplers] == lengths


@BOTH
def test_length_is_known_with_drop(cls: Any) -> None:
    """It is that of the list."""
    sampler = make(cls, 11, rank=3, world_size=4)
    assert len(sampler) == len(list(sampler)) == 2


@BOTH
def test_each_iteration_gives_the_same(cls: Any) -> None:
    """Two iterators do not share a position either."""
    sampler = make(cls, 20, rank=1, world_size=2)
    assert list(sampler) == list(sampler)
    assert [a for pair in zip(sampler, sampler, strict=True) for a in pair][::2] == list(sampler)


@BOTH
def test_samplers_pickle(cls: Any) -> None:
    """The copy gives what the original gives."""
    sampler = make(cls, 20, rank=1, world_size=2)
    copy = pickle.loads(pickle.dumps(sampler))
    assert (list(copy), len(copy)) == (list(sampler), len(sampler))


@pytest.mark.parametrize(("n", "world_size"), SHAPES)
def test_deterministic_sampler_deals_a_range(n: int, world_size: int) -> None:
    """``range(rank, total, world_size)``."""
    total = n // world_size * world_size
    assert ranks(DistributedDeterministicSampler, n, world_size) == [
        list(range(rank, total, world_size)) for rank in range(world_size)
    ]
    assert ranks(DistributedDeterministicSampler, n, world_size, ddp_drop_last_distributed_round=False) == [
        list(range(rank, n, world_size)) for rank in range(world_size)
    ]


def test_deterministic_sampler_warns_of_what_it_drops() -> None:
    """Only then, and not when told to keep it."""
    with pytest.warns(UserWarning, match="11"):
        DistributedDeterministicSampler(11, rank=0, world_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DistributedDeterministicSampler(12, rank=0, world_size=4)
        DistributedDeterministicSampler(11, rank=0, world_size=4, ddp_drop_last_distributed_round=False)


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize(("n", "world_size", "num_draws"), [(11, 4, None), (11, 4, 7), (30, 1, 30), (64, 64, None)])
@pytest.mark.parametrize("weighted", [True, False])
def test_random_sampler_draws_as_promised(
    drop: bool, n: int, world_size: int, num_draws: int | None, weighted: bool
) -> None:
    """From NumPy's generator, so that sequences stay what they were."""
    weights = [float(index % 5) for index in range(n)] if weighted else None
    total = n if num_draws is None else num_draws
    if drop:
        total = total // world_size * world_size
    p = None if weights is None else np.array(weights) / np.sum(weights)
    expected = np.random.default_rng(17).choice(n, size=total, replace=weighted, p=p)
    parts = ranks(
        DistributedRandomSampler, n, world_size, seed=17, num_draws=num_draws, weights=weights,
        ddp_drop_last_distributed_round=drop,
    )  # fmt: skip
    assert parts == [list(expected[rank::world_size]) for rank in range(world_size)]


def test_random_sampler_gives_numpy_integers() -> None:
    """As the reference does."""
    assert all(isinstance(index, np.integer) for index in make(DistributedRandomSampler, 5, rank=0, world_size=1))


def test_shuffle_sets_the_seed_for_what_follows() -> None:
    """Only the last call matters; history does not."""
    sampler = make(DistributedRandomSampler, 50, rank=0, world_size=1)
    orders = []
    for seed in (1, 2, 1):
        sampler.shuffle(seed=99)
        sampler.shuffle(seed=seed)
        orders.append(list(sampler))
    assert orders[0] == orders[2] == list(make(DistributedRandomSampler, 50, rank=0, world_size=1, seed=1))
    assert orders[0] != orders[1]


def test_random_sampler_leaves_global_random_state_alone() -> None:
    """It neither reads nor moves it."""
    first = list(make(DistributedRandomSampler, 50, rank=0, world_size=1))
    random.seed(5)
    np.random.seed(5)
    states = random.getstate(), np.random.get_state()[1].tolist()
    assert list(make(DistributedRandomSampler, 50, rank=0, world_size=1)) == first
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states


def test_weights_are_followed() -> None:
    """What weighs nothing never comes; more draws than items are fine."""
    sampler = make(DistributedRandomSampler, 4, rank=0, world_size=1, weights=[0, 1, 0, 3], num_draws=4000)
    drawn = [int(index) for index in sampler]
    assert len(drawn) == 4000
    assert set(drawn) == {1, 3}
    assert 2800 < drawn.count(3) < 3200  # six standard deviations


def test_weights_of_fewer_items_than_ranks() -> None:
    """Enough draws make up for it."""
    parts = ranks(DistributedRandomSampler, 2, 4, weights=[1.0, 1.0], num_draws=8)
    assert [len(part) for part in parts] == [2] * 4


def test_weights_may_be_an_array_and_are_not_changed() -> None:
    """Neither by making the sampler nor by drawing."""
    weights = np.array([1.0, 2.0, 3.0])
    drawn = list(make(DistributedRandomSampler, 3, rank=0, world_size=1, weights=weights))
    assert weights.tolist() == [1.0, 2.0, 3.0]
    assert drawn == list(make(DistributedRandomSampler, 3, rank=0, world_size=1, weights=[1.0, 2.0, 3.0]))


REFUSED: list[tuple[int, dict[str, Any]]] = [
    (0, {"rank": 0, "world_size": 1}),
    (-1, {"rank": 0, "world_size": 1}),
    (4, {"rank": 0, "world_size": 0}),
    (4, {"rank": 0, "world_size": -1}),
    (4, {"rank": -1, "world_size": 2}),
    (4, {"rank": 2, "world_size": 2}),
    (4, {"rank": 0, "world_size": 5}),
]


@BOTH
@pytest.mark.parametrize(("n", "options"), REFUSED)
def test_impossible_ranks_are_refused(cls: Any, n: int, options: dict[str, Any]) -> None:
    """When it is made, not when it is iterated."""
    with pytest.raises(ValueError):
        cls(n, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"num_draws": 0},
        {"num_draws": -1},
        {"num_draws": 5},
        {"num_draws": 1, "world_size": 2},
        {"weights": [1.0] * 3},
        {"weights": [1.0] * 5},
        {"weights": []},
        {"weights": [1.0, -1.0, 1.0, 1.0]},
        {"weights": [1.0, math.nan, 1.0, 1.0]},
        {"weights": [1.0, math.inf, 1.0, 1.0]},
        {"weights": [0.0] * 4},
        {"weights": [1e308] * 4},
    ],
)
def test_impossible_draws_are_refused(options: dict[str, Any]) -> None:
    """Every way to ask for what cannot be drawn."""
    with pytest.raises(ValueError):
        DistributedRandomSampler(4, **{"rank": 0, "world_size": 1, **options})


def test_protocols_are_told_by_methods() -> None:
    """Presence is enough; nobody has to inherit."""

    class Shuffled:
        def __iter__(self) -> Any:
            return iter(())

        def shuffle(self, seed: int) -> None: ...

    random_sampler = make(DistributedRandomSampler, 4, rank=0, world_size=1)
    assert isinstance(random_sampler, SizedIterableWithShuffle)
    assert isinstance(random_sampler, IterableWithShuffle)
    assert isinstance(Shuffled(), IterableWithShuffle)
    assert not isinstance(Shuffled(), SizedIterable)
    assert not isinstance(Shuffled(), SizedIterableWithShuffle)
    assert isinstance([], SizedIterable)
    assert not isinstance([], IterableWithShuffle)
    assert not isinstance(iter([]), SizedIterable)
