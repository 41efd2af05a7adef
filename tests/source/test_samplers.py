"""``DistributedDeterministicSampler`` and ``DistributedRandomSampler``."""

import copy
import json
import pickle
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import (
    DistributedDeterministicSampler,
    DistributedKeyedSampler,
    DistributedRandomSampler,
    IterableWithShuffle,
    KeyedMix,
    KeyedPermutation,
    ShardOrder,
    SizedIterable,
    SizedIterableWithShuffle,
)
from tests.strategies.profiles import cases

SAMPLERS: list[Any] = [DistributedDeterministicSampler, DistributedRandomSampler, DistributedKeyedSampler]
RANDOM: list[Any] = [DistributedRandomSampler, DistributedKeyedSampler]


def quiet(sampler: Any, n: int, **options: Any) -> Any:
    """A sampler made without its warning of what is dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sampler(n, **options)


@pytest.mark.parametrize("sampler", SAMPLERS)
@cases(40)
@given(n=st.integers(1, 200), world_size=st.integers(1, 20))
def test_ranks_share_nothing_and_have_all(sampler: Any, n: int, world_size: int) -> None:
    """Without drop, the ranks' indices are those of the dataset, each once, and lengths differ by one at most."""
    ranks = [
        quiet(sampler, n, rank=rank, world_size=world_size, ddp_drop_last_distributed_round=False)
        for rank in range(world_size)
    ]
    indices = [list(rank) for rank in ranks]
    assert sorted(index for own in indices for index in own) == list(range(n))
    assert [len(rank) for rank in ranks] == [len(own) for own in indices]
    assert max(map(len, indices)) - min(map(len, indices)) <= 1


@pytest.mark.parametrize("sampler", SAMPLERS)
@cases(40)
@given(data=st.data(), n=st.integers(1, 200))
def test_ranks_make_as_many_steps_with_drop(sampler: Any, data: st.DataObject, n: int) -> None:
    """With drop, every rank has ``n // world_size`` indices, and still none is in two ranks."""
    world_size = data.draw(st.integers(1, min(n, 20)))
    ranks = [list(quiet(sampler, n, rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert {len(own) for own in ranks} == {n // world_size}
    everything = [index for own in ranks for index in own]
    assert len(set(everything)) == len(everything)
    assert set(everything) <= set(range(n))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("world_size", [2, 5, 64])
def test_ranks_deal_one_order(sampler: Any, world_size: int) -> None:
    """The order of one rank alone is that of many ranks, taken in turn."""
    n = 64 * 5
    alone = list(sampler(n, rank=0, world_size=1))
    ranks = [list(sampler(n, rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert [index for step in zip(*ranks, strict=True) for index in step] == alone


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_iterating_again_gives_the_same(sampler: Any) -> None:
    """Without ``shuffle``, each iteration gives the same, also while another is under way."""
    made = sampler(100, rank=1, world_size=2)
    first = iter(made)
    begun = [next(first) for _ in range(10)]
    assert list(made) == list(made) == begun + list(first)


@pytest.mark.parametrize("sampler", RANDOM)
def test_only_the_last_shuffle_counts(sampler: Any) -> None:
    """The order depends on the last seed alone, and differs between seeds."""
    made = sampler(100, rank=0, world_size=1)
    made.shuffle(seed=3)
    made.shuffle(seed=7)
    assert list(made) == list(sampler(100, rank=0, world_size=1, seed=7))
    made.shuffle(seed=8)
    assert list(made) != list(sampler(100, rank=0, world_size=1, seed=7))
    made.shuffle(seed=7)
    assert list(made) == list(sampler(100, rank=0, world_size=1, seed=7))


@pytest.mark.parametrize("sampler", RANDOM)
def test_shuffle_leaves_an_iteration_alone(sampler: Any) -> None:
    """A shuffle is for the iterations that begin after it."""
    made = sampler(100, rank=0, world_size=1)
    expected = list(made)
    fresh, begun = iter(made), iter(made)
    first = next(begun)
    made.shuffle(seed=1)
    assert list(fresh) == expected
    assert [first, *begun] == expected


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_pickles_in_use(sampler: Any) -> None:
    """A copy, also one that is made during an iteration, gives what the sampler gives."""
    made = sampler(60, rank=1, world_size=3)
    if sampler in RANDOM:
        made.shuffle(seed=5)
    iterator = iter(made)
    next(iterator)
    for clone in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert list(clone) == list(made)
        assert len(clone) == len(made)
        assert repr(clone) == repr(made)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_is_what_it_says(sampler: Any) -> None:
    """Samplers are sized; the random ones can be shuffled."""
    made = sampler(4, rank=0, world_size=1)
    assert isinstance(made, SizedIterable)
    assert isinstance(made, SizedIterableWithShuffle) == (sampler in RANDOM)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("numbers", [np.int64, np.uint8, np.int32])
def test_numbers_of_numpy_are_numbers(sampler: Any, numbers: Any) -> None:
    """NumPy's integers are taken for all arguments."""
    made = sampler(numbers(12), rank=numbers(1), world_size=numbers(3))
    assert list(made) == list(sampler(12, rank=1, world_size=3))


def orders() -> Iterator[Any]:
    """Everything that yields positions, with numbers of NumPy wherever a number is asked for."""
    of: Any = np
    two, one, none = of.int64(2), of.int32(1), of.uint8(0)
    ranks: Any = {"rank": one, "world_size": two}
    for n in (of.int64(40), of.uint16(3000)):
        for sampler in SAMPLERS:
            yield sampler(n, **ranks)
        weights = of.arange(1, int(n) + 1, dtype=of.float32)
        yield DistributedRandomSampler(n, **ranks, num_draws=of.int16(30), weights=weights, seed=of.int64(3))
        yield DistributedKeyedSampler(n, **ranks, seed=of.int64(3), epoch=of.int8(1))
        yield KeyedPermutation(n, (of.int64(1), of.uint8(2)))
        yield KeyedPermutation(n, of.int64(1))[none::two]
        ends: list[Literal["stop", "repeat"]] = ["stop", "repeat"]
        for at_end in ends:
            weights = of.array([3, 1])
            yield KeyedMix([range(int(n)), range(50)], weights, at_end=at_end, seed=of.int64(1), **ranks)
        yield KeyedMix([range(9)], [of.int64(1)], at_end="repeat", length=of.int64(30))
        for shuffle in (True, False):
            yield ShardOrder(Shards(of.array([7, 0, int(n)])), open_shards=of.int64(2), shuffle=shuffle, **ranks)
            yield ShardOrder(Shards(of.array([7, int(n)])), seed=of.int64(2)).for_worker(one, two)


class Shards:
    """Numbers in shards."""

    def __init__(self, sizes: Any) -> None:
        self.shard_sizes = sizes

    def locate(self, number: int, /) -> int:
        return number


@pytest.mark.filterwarnings("ignore:.*drops:UserWarning")
def test_positions_are_integers_of_python() -> None:
    """However they are asked for; so they can be keys, in JSON, and indices of anything. States and lengths too."""
    for order in orders():
        check_integers(order)


def check_integers(order: Any) -> None:
    found = [list(order), list(order[:]), [order[number] for number in range(len(order))], list(order[::-1])[::-1]]
    assert all(each == found[0] for each in found)
    assert {type(number) for numbers in found for number in numbers} == {int}
    assert order[np.int64(3)] == order[3]
    if hasattr(order, "state_dict"):
        assert type(order.at_global(np.int64(1))) is int
        assert {type(number) for number in order.iterate_from(2)} == {int}
        assert json.loads(json.dumps(order.state_dict())) == order.state_dict()


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (0, {}, "n, the number of items, must be > 0, got 0"),
        (-1, {}, "n, the number of items, must be > 0, got -1"),
        (4, {"world_size": 0}, "world_size must be >= 1, got 0"),
        (4, {"world_size": -2}, "world_size must be >= 1, got -2"),
        (4, {"rank": -1}, r"rank must be in range \[0, 1\), got -1"),
        (4, {"rank": 2, "world_size": 2}, r"rank must be in range \[0, 2\), got 2"),
        (4, {"world_size": 5}, "world_size must be <= the number of"),
    ],
)
def test_wrong_values_are_refused(sampler: Any, n: int, options: dict[str, int], message: str) -> None:
    """The message names the argument, what is accepted and what was given."""
    with pytest.raises(ValueError, match=message):
        sampler(n, **({"rank": 0, "world_size": 1} | options))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("value", [True, 4.0, "4", None])
@pytest.mark.parametrize("name", ["n", "rank", "world_size"])
def test_wrong_types_are_refused(sampler: Any, value: Any, name: str) -> None:
    """What is no whole number is a TypeError; ``bool`` is none."""
    numbers: dict[str, Any] = {"n": 4, "rank": 0, "world_size": 1} | {name: value}
    with pytest.raises(TypeError, match=f"{name} must be an int, got {value!r}"):
        sampler(numbers.pop("n"), **numbers)


@pytest.mark.parametrize("sampler", RANDOM)
@pytest.mark.parametrize("value", [True, 0.5, "seed"])
def test_seeds_are_whole_numbers(sampler: Any, value: Any) -> None:
    """A seed of another type is refused when it is given, and the one before stays."""
    with pytest.raises(TypeError, match="seed must be an int"):
        sampler(4, rank=0, world_size=1, seed=value)
    made = sampler(4, rank=0, world_size=1)
    with pytest.raises(TypeError, match="seed must be an int"):
        made.shuffle(seed=value)
    assert list(made) == list(sampler(4, rank=0, world_size=1))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_more_ranks_than_items(sampler: Any) -> None:
    """Without drop, the ranks beyond the items get nothing, however many there are."""
    huge = 2**80
    made = [sampler(2, rank=rank, world_size=huge, ddp_drop_last_distributed_round=False) for rank in (0, 1, 2, 2**79)]
    assert [len(each) for each in made] == [1, 1, 0, 0]
    assert sorted(index for each in made for index in each) == [0, 1]


class TestDeterministic:
    """``DistributedDeterministicSampler`` alone."""

    def test_order_is_that_of_the_data_set(self) -> None:
        """Every ``world_size``-th index from the rank on."""
        with pytest.warns(UserWarning, match="11 items do not divide among 4 ranks: the last 3 are never loaded"):
            made = DistributedDeterministicSampler(11, rank=1, world_size=4)
        assert list(made) == [1, 5]

    def test_nothing_dropped_means_no_warning(self) -> None:
        """It warns only of what is dropped: warnings are errors here."""
        made = DistributedDeterministicSampler(11, rank=1, world_size=4, ddp_drop_last_distributed_round=False)
        assert list(made) == [1, 5, 9]
        assert list(DistributedDeterministicSampler(8, rank=3, world_size=4)) == [3, 7]

    def test_size_has_no_limit_but_that_of_len(self) -> None:
        """The largest length that Python has."""
        made = DistributedDeterministicSampler(2**63 - 1, rank=0, world_size=1)
        assert len(made) == 2**63 - 1
        assert next(iter(made)) == 0


class TestRandom:
    """``DistributedRandomSampler`` alone: what it draws is NumPy's."""

    @cases(100)
    @given(
        n=st.integers(1, 60),
        world_size=st.integers(1, 5),
        seed=st.integers(0, 2**70),
        drops=st.booleans(),
        data=st.data(),
    )
    def test_draws_are_those_of_numpy(
        self, n: int, world_size: int, seed: int, drops: bool, data: st.DataObject
    ) -> None:
        """Exactly ``default_rng(seed).choice``, of which each rank takes every ``world_size``-th."""
        weights = data.draw(st.none() | st.lists(st.integers(1, 9), min_size=n, max_size=n))
        num_draws = data.draw(st.none() | st.integers(1, n if weights is None else 3 * n))
        total = n if num_draws is None else num_draws
        if drops:
            total -= total % world_size
            if total == 0:
                return
        p = None if weights is None else np.array(weights, dtype=np.float64) / np.sum(weights)
        drawn = np.random.default_rng(seed).choice(n, size=total, replace=weights is not None, p=p)
        for rank in range(world_size):
            made = DistributedRandomSampler(
                n,
                rank=rank,
                world_size=world_size,
                num_draws=num_draws,
                weights=weights,
                seed=seed,
                ddp_drop_last_distributed_round=drops,
            )
            own = list(made)
            assert own == drawn[rank::world_size].tolist()
            assert len(made) == len(own)

    def test_indices_are_drawn_in_blocks(self) -> None:
        """More than one block of them, from any position."""
        made = DistributedRandomSampler(10_000, rank=1, world_size=2, seed=3)
        expected = np.random.default_rng(3).choice(10_000, size=10_000, replace=False)[1::2].tolist()
        assert list(made) == made[:] == expected
        assert list(made.iterate_from(4095)) == expected[4095:]

    def test_global_random_state_is_not_used(self) -> None:
        """Neither read nor changed."""
        made = DistributedRandomSampler(50, rank=0, world_size=1)
        expected = list(made)
        np.random.seed(1)
        random.seed(1)
        states = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
        assert list(made) == expected
        assert (random.getstate(), np.random.get_state()[1].tolist()) == states  # type: ignore[index]

    def test_small_data_set_fills_many_ranks_with_weights(self) -> None:
        """Drawing with replacement, ``n`` may be below ``world_size``."""
        ranks = [
            DistributedRandomSampler(2, rank=rank, world_size=8, num_draws=16, weights=[1, 3]) for rank in range(8)
        ]
        assert [len(list(rank)) for rank in ranks] == [2] * 8

    def test_items_of_weight_zero_never_come(self) -> None:
        """And the others come as often as their weights say."""
        weights = [0.0, 1.0, 3.0, 0.0]
        made = DistributedRandomSampler(4, rank=0, world_size=1, num_draws=40000, weights=weights)
        counts = Counter(int(index) for index in made)
        assert set(counts) == {1, 2}
        assert abs(counts[2] - 30000) < 400  # more than four standard deviations

    @pytest.mark.parametrize(
        "weights", [[5e-324] * 3, [1e-320, 0, 1e-320], [1e308, 1e-308, 0], np.array([1, 2, 3], np.float32), (1, 0, 0)]
    )
    def test_weights_of_any_size(self, weights: Any) -> None:
        """Subnormal, huge and integer weights are only relative to each other; arrays and tuples are taken too."""
        made = DistributedRandomSampler(3, rank=0, world_size=1, num_draws=30, weights=weights)
        assert set(map(int, made)) <= {index for index, weight in enumerate(weights) if weight > 0}

    def test_weights_are_copied(self) -> None:
        """Changing them later changes nothing."""
        weights = np.array([1.0, 0.0])
        made = DistributedRandomSampler(2, rank=0, world_size=1, weights=weights)
        weights[:] = [0.0, 1.0]
        assert list(made) == [0, 0]

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([1], "weights must be one number for each of the 3 items"),
            ([1, 1, 1, 1], "weights must be one number for each of the 3 items"),
            ([[1], [1], [1]], "weights must be one number for each of the 3 items"),
            ([], "weights must be one number for each of the 3 items"),
            ([1, -1, 3], "weights must be finite and >= 0, got -1.0 at position 1"),
            ([1, 1, float("nan")], "weights must be finite and >= 0, got nan at position 2"),
            ([float("inf"), 1, 1], "weights must be finite and >= 0, got inf at position 0"),
            ([None, 1, 1], "weights must be finite and >= 0, got nan at position 0"),
            ([0, 0, 0], "weights must have a sum > 0"),
            ([1e308, 1e308, 1e308], "weights must have a finite sum"),
            ([10**400, 1, 1], "weights must be numbers"),
            ([1j, 1, 1], "weights must be numbers"),
            (["many", 1, 1], "could not convert"),
        ],
    )
    def test_wrong_weights_are_refused(self, weights: Any, message: str) -> None:
        """Each with what is wrong."""
        with pytest.raises(ValueError, match=message):
            DistributedRandomSampler(3, rank=0, world_size=1, weights=weights)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"num_draws": 0}, "num_draws must be >= 1, got 0"),
            ({"num_draws": -3}, "num_draws must be >= 1, got -3"),
            ({"num_draws": 9}, "num_draws must be <= n without weights"),
            ({"num_draws": 1, "world_size": 2}, "got 2 for 1 draws"),
            ({"seed": -1}, "seed must be >= 0, got -1"),
        ],
    )
    def test_wrong_draws_are_refused(self, options: dict[str, Any], message: str) -> None:
        """Each with what is wrong."""
        with pytest.raises(ValueError, match=message):
            DistributedRandomSampler(8, **{"rank": 0, "world_size": 1, **options})

    def test_few_draws_of_many_items(self) -> None:
        """The dataset may be of any size, as long as the draws are few."""
        made = DistributedRandomSampler(2**63 - 1, rank=0, world_size=1, num_draws=4)
        assert len({int(index) for index in made}) == 4


def test_protocols_are_told_by_methods() -> None:
    """Presence is enough; nobody has to inherit."""

    class Shuffled:
        def __iter__(self) -> Any:
            return iter(())

        def shuffle(self, seed: int) -> None: ...

    random_sampler = DistributedRandomSampler(4, rank=0, world_size=1)
    assert isinstance(random_sampler, SizedIterableWithShuffle)
    assert isinstance(random_sampler, IterableWithShuffle)
    assert isinstance(Shuffled(), IterableWithShuffle)
    assert not isinstance(Shuffled(), SizedIterable)
    assert not isinstance(Shuffled(), SizedIterableWithShuffle)
    assert isinstance([], SizedIterable)
    assert not isinstance([], IterableWithShuffle)
    assert not isinstance(iter([]), SizedIterable)


@pytest.mark.parametrize(("n", "world_size"), [(1, 1), (7, 1), (8, 4), (11, 4), (64, 64), (100, 64), (101, 3)])
def test_deterministic_sampler_deals_a_range(n: int, world_size: int) -> None:
    """``range(rank, total, world_size)``."""

    def dealt(**options: Any) -> list[list[int]]:
        every = range(world_size)
        return [
            list(quiet(DistributedDeterministicSampler, n, rank=r, world_size=world_size, **options)) for r in every
        ]

    total = n // world_size * world_size
    assert dealt() == [list(range(rank, total, world_size)) for rank in range(world_size)]
    kept = dealt(ddp_drop_last_distributed_round=False)
    assert kept == [list(range(rank, n, world_size)) for rank in range(world_size)]
