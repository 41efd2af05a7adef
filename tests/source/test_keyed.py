"""``KeyedPermutation`` and ``DistributedKeyedSampler``: what they promise. How random they are is in another file."""

import copy
import itertools
import pickle
import sys
import threading
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import DistributedKeyedSampler, KeyedPermutation
from tests.strategies.profiles import cases

LARGEST = 2**63 - 1
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 65535, 65536, 65537]
HUGE = [2**31, 2**32 - 1, 2**32, 2**32 + 1, 10**12, 2**62, 2**62 + 1, LARGEST]

sizes = st.one_of(st.sampled_from(SIZES + HUGE), st.integers(1, 3000), st.integers(1, LARGEST))
keys = st.one_of(st.integers(), st.lists(st.integers(), min_size=1, max_size=3).map(tuple))


@pytest.fixture
def no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if NumPy were not installed."""
    monkeypatch.setitem(sys.modules, "numpy", None)


@pytest.mark.parametrize("n", SIZES)
def test_each_value_comes_once(n: int) -> None:
    """It is a permutation of ``range(n)``."""
    assert sorted(KeyedPermutation(n, 5)) == list(range(n))


@cases(200)
@given(n=sizes, key=keys, data=st.data())
def test_position_and_value_lead_to_each_other(n: int, key: int | tuple[int, ...], data: st.DataObject) -> None:
    """``index_of`` is the inverse, for any size and key."""
    permutation = KeyedPermutation(n, key)
    position = data.draw(st.integers(0, n - 1))
    value = permutation[position]
    assert 0 <= value < n
    assert permutation.index_of(value) == position == permutation.index(value)
    assert permutation[position - n] == value
    assert permutation[permutation.index_of(position)] == position


@cases(60)
@given(n=st.one_of(st.sampled_from(SIZES[:-3]), st.integers(1, 3000)), key=keys, data=st.data())
def test_slices_are_those_of_the_list(n: int, key: int | tuple[int, ...], data: st.DataObject) -> None:
    """A slice, and a slice of it, has the values that slicing a list would give, in its order."""
    permutation = KeyedPermutation(n, key)
    values = list(permutation)
    first, second = data.draw(st.slices(n)), data.draw(st.slices(n))
    assert list(permutation[first]) == values[first]
    part, expected = permutation[first][second], values[first][second]
    assert list(part) == expected
    assert [part[place] for place in range(min(len(part), 20))] == expected[:20]
    assert list(reversed(part)) == expected[::-1]
    assert [part.index_of(value) for value in expected[:5]] == list(range(len(expected)))[:5]
    assert all(value in part for value in expected[:5])
    assert len(part) == len(expected)


@cases(40)
@given(n=st.one_of(st.sampled_from(HUGE), st.integers(2000, LARGEST)), key=keys, data=st.data())
def test_blocks_give_what_single_values_are(n: int, key: int | tuple[int, ...], data: st.DataObject) -> None:
    """With NumPy, many values at once are those that are computed one by one; near both ends of the largest as well."""
    permutation = KeyedPermutation(n, key)
    start = data.draw(st.one_of(st.just(0), st.just(n - 1100), st.integers(0, n - 1100)))
    step = data.draw(st.integers(1, (n - start) // 1100))
    part = permutation[start : start + 1100 * step : step]
    blocks = list(part)
    assert blocks == [permutation[start + place * step] for place in range(1100)]
    assert list(part[::-1]) == blocks[::-1]
    assert {type(value) for value in blocks} == {int}


@pytest.mark.parametrize("n", [5, 1025, 3000, 70000])
def test_order_is_the_same_without_numpy(n: int, request: pytest.FixtureRequest) -> None:
    """NumPy changes the speed and nothing else."""
    permutation = KeyedPermutation(n, (1, 2))
    with_numpy = list(permutation[:3000])
    request.getfixturevalue("no_numpy")
    assert list(permutation[:3000]) == with_numpy
    assert list(itertools.islice(permutation, 3000)) == with_numpy


@pytest.mark.usefixtures("no_numpy")
def test_sampler_needs_no_numpy() -> None:
    """The keyed sampler works where NumPy is not installed."""
    sampler = DistributedKeyedSampler(1500, rank=1, world_size=2)
    assert len(set(sampler)) == 750


@pytest.mark.parametrize(
    ("n", "key", "expected"),
    [
        (8, 0, [2, 5, 7, 1, 4, 6, 3, 0]),
        (1024, (1, 2), [442, 482, 865, 716, 219, 358, 140, 138]),
        (1025, 0, [948, 334, 190, 724, 23, 399, 402, 107]),
        (1000000, (3, -4), [203336, 702909, 643748, 434270, 943106, 931518, 234322, 399214]),
        (
            2**32 + 1,
            2**64,
            [3321849911, 1299894192, 3268117843, 1118247418, 928415928, 2045427424, 1062021576, 393026384],
        ),
        (
            LARGEST,
            (7, 8, 9),
            [
                9067131864473570639,
                761882559334313672,
                804906696910460426,
                880576875912411959,
                643864449723963402,
                1690931668383693972,
                8002584237961299331,
                1373057232687536313,
            ],
        ),
    ],
)
def test_numbers_never_change(n: int, key: int | tuple[int, ...], expected: list[int]) -> None:
    """Runs go on after an upgrade: these values were written down when this was made."""
    assert list(KeyedPermutation(n, key)[:8]) == expected


def test_keys_decide_the_order() -> None:
    """Different keys, also such as look alike when written one after the other, give different orders."""
    alike: list[int | tuple[int, ...]] = [
        0,
        1,
        -1,
        2**64,
        (0, 0),
        (0, 0, 0),
        (1, 23),
        (12, 3),
        (123,),
        (-1, 23),
        (1, -23),
    ]
    for n in (1000, 5000):
        orders = {tuple(KeyedPermutation(n, key)[:20]) for key in alike}
        assert len(orders) == len(alike)


def test_one_integer_is_a_key_of_one() -> None:
    """``5`` and ``(5,)`` are the same key, and NumPy's integers count."""
    of_numpy: Any = np.int64(2000), (np.uint8(5),)
    same = [KeyedPermutation(2000, 5), KeyedPermutation(2000, (5,)), KeyedPermutation(*of_numpy)]
    assert same[0] == same[1] == same[2]
    assert len({hash(each) for each in same}) == 1
    assert len({tuple(each) for each in same}) == 1


def test_sizes_have_orders_of_their_own() -> None:
    """The same key at another size is not the same order with some values left out."""
    small, large = list(KeyedPermutation(2000, 1)), [value for value in KeyedPermutation(2001, 1) if value < 2000]
    assert sum(one == other for one, other in zip(small, large, strict=True)) < 20


@pytest.mark.parametrize("n", [1, 2, 1000, 5000])
def test_it_is_a_sequence(n: int) -> None:
    """All that sequences have, each in constant time."""
    permutation = KeyedPermutation(n, 3)
    values = list(permutation)
    assert isinstance(permutation, Sequence)
    assert isinstance(permutation[:], Sequence)
    assert len(permutation) == n == permutation.n
    assert permutation.key == (3,)
    assert list(reversed(permutation)) == values[::-1]
    assert n - 1 in permutation
    assert n not in permutation
    assert -1 not in permutation
    assert permutation.count("a") == 0
    assert permutation.count(0) == 1
    assert permutation.count(n) == 0
    assert permutation.index(values[-1], n - 1) == n - 1
    assert permutation[:].index(values[-1], -1) == n - 1
    assert permutation[np.int64(0)] == values[0]
    for wrong in (values[-1], "a"):
        with pytest.raises(ValueError, match=r"is not in"):
            permutation.index(wrong, 0, n - 1)


@pytest.mark.parametrize("index", [10, -11, 2**70])
def test_positions_beyond_the_end_are_refused(index: int) -> None:
    """In the permutation and in its slices; the message has the position."""
    permutation = KeyedPermutation(20, 1)
    with pytest.raises(IndexError, match=r"out of range for 10 values"):
        permutation[:10][index]
    with pytest.raises(IndexError, match=f"position {2 * index} is out of range for 20 values"):
        permutation[2 * index]
    with pytest.raises(TypeError):
        permutation["a"]  # type: ignore[call-overload]  # that is the point


def test_values_that_are_not_there_are_refused() -> None:
    """``index_of`` says in which range values are, and slices where the value is."""
    permutation = KeyedPermutation(2000, 1)
    for value in (-1, 2000):
        with pytest.raises(ValueError, match=rf"value must be in range \[0, 2000\), got {value}"):
            permutation.index_of(value)
    with pytest.raises(ValueError, match="is not in this slice: it is at 1500"):
        permutation[:100].index_of(permutation[1500])
    with pytest.raises(TypeError):
        permutation.index_of("a")  # type: ignore[arg-type]  # that is the point
    assert permutation[1500] not in permutation[:100]


def test_equality_is_that_of_size_key_and_positions() -> None:
    """A slice equals a slice of the same positions however it was cut; nothing equals a list."""
    permutation = KeyedPermutation(100, 1)
    assert permutation != KeyedPermutation(100, 2)
    assert permutation != KeyedPermutation(101, 1)
    assert permutation != list(permutation)
    assert permutation[2:][3:9:2] == permutation[5:11:2]
    assert hash(permutation[2:][3:9:2]) == hash(permutation[5:11:2])
    assert permutation[1:] != permutation
    assert permutation[1:] != permutation[2:]
    assert permutation[:5] != KeyedPermutation(100, 2)[:5]


@pytest.mark.parametrize("n", [10, 10**15])
def test_it_pickles_small(n: int) -> None:
    """Only size, key and positions travel, also while it is iterated over."""
    permutation = KeyedPermutation(n, (3, 4))
    next(iter(permutation))
    part = permutation[n - 2 : 2 : -3]
    for made in (permutation, part):
        assert len(pickle.dumps(made)) < 200
        for clone in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
            assert clone == made
            assert clone[1] == made[1]


@pytest.mark.parametrize("start", [0, 2, None])
@pytest.mark.parametrize("step", [1, 3, -1, -4, None])
def test_repr_can_be_evaluated(start: int | None, step: int | None) -> None:
    """What is printed makes the same again."""
    permutation = KeyedPermutation(20, (1, -2))
    part = permutation[start::step]
    assert repr(KeyedPermutation(20, 7)) == "KeyedPermutation(20, key=7)"
    assert repr(permutation) == "KeyedPermutation(20, key=(1, -2))"
    assert eval(repr(permutation)) == permutation
    assert list(eval(repr(part))) == list(part)


@pytest.mark.parametrize(
    ("n", "key", "error", "message"),
    [
        (0, 1, ValueError, "n, the number of items, must be > 0, got 0"),
        (-5, 1, ValueError, "n, the number of items, must be > 0, got -5"),
        (2**63, 1, ValueError, r"n, the number of items, must be <= 2\*\*63 - 1"),
        (5, (), ValueError, r"key must have at least one integer, got \(\)"),
        (True, 1, TypeError, "n must be an int, got True"),
        (5.0, 1, TypeError, "n must be an int, got 5.0"),
        (5, True, TypeError, "key must be an int, got True"),
        (5, (1, None), TypeError, "key must be an int, got None"),
        (5, "seed", TypeError, "key must be an int, got 'seed'"),
        (5, [1, 2], TypeError, r"key must be an int, got \[1, 2\]"),
    ],
)
def test_wrong_arguments_are_refused(n: Any, key: Any, error: type[Exception], message: str) -> None:
    """The message names the argument, what is accepted and what was given."""
    with pytest.raises(error, match=message):
        KeyedPermutation(n, key)


def test_keys_may_be_of_any_size() -> None:
    """Also beyond what Python writes in decimals."""
    assert KeyedPermutation(100, 10**6000) == KeyedPermutation(100, 10**6000)
    assert list(KeyedPermutation(2000, 10**6000)) != list(KeyedPermutation(2000, 10**6000 + 1))


@pytest.mark.parametrize("has_numpy", [True, False])
def test_a_billion_items_take_no_memory(has_numpy: bool, request: pytest.FixtureRequest) -> None:
    """Making, slicing and iterating takes the same memory for a billion items as for a million."""
    if not has_numpy:
        request.getfixturevalue("no_numpy")

    def peak(n: int) -> int:
        tracemalloc.start()
        try:
            sampler = DistributedKeyedSampler(n, rank=3, world_size=8, seed=1)
            sampler.set_epoch(2)
            assert len(sampler) == n // 8
            for _ in itertools.islice(sampler, 30000 if has_numpy else 1000):
                pass
            assert KeyedPermutation(n, 1).index_of(5) < n
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10**6)  # what is made once
    small, large = peak(10**6), peak(10**9)
    assert large < 2_000_000
    assert large < 1.2 * small + 10_000


def test_threads_share_one() -> None:
    """Iterating in several threads at once gives each of them all values in order."""
    permutation = KeyedPermutation(20000, 9)
    expected = list(permutation)
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(list(permutation))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


class TestSampler:
    """``DistributedKeyedSampler``, beyond what all samplers do."""

    def test_order_is_that_of_the_permutation(self) -> None:
        """Seed and epoch, in this order, are the key."""
        sampler = DistributedKeyedSampler(5000, seed=3, epoch=9)
        assert list(sampler) == list(KeyedPermutation(5000, (3, 9)))
        assert {type(index) for index in sampler} == {int}

    @cases(30)
    @given(n=st.integers(1, 3000), seed=st.integers(), epoch=st.integers())
    def test_epochs_and_seeds_can_be_set(self, n: int, seed: int, epoch: int) -> None:
        """Setting them is the same as giving them, in either order."""
        expected = list(DistributedKeyedSampler(n, seed=seed, epoch=epoch))
        one, other = DistributedKeyedSampler(n), DistributedKeyedSampler(n, seed=8, epoch=8)
        one.set_epoch(epoch)
        one.shuffle(seed=seed)
        other.shuffle(seed=seed)
        other.set_epoch(epoch)
        assert list(one) == list(other) == expected
        assert (one.seed, one.epoch) == (seed, epoch)

    @pytest.mark.parametrize("n", [100, 3000])
    def test_epochs_differ(self, n: int) -> None:
        """No two of many epochs have the same order, nor the same as with seed and epoch exchanged."""
        sampler = DistributedKeyedSampler(n, seed=1000)
        orders = []
        for epoch in range(50):
            sampler.set_epoch(epoch)
            orders.append(tuple(sampler))
            orders.append(tuple(DistributedKeyedSampler(n, seed=epoch, epoch=1000)))
        assert len(set(orders)) == 100

    def test_each_epoch_drops_others(self) -> None:
        """The remainder is random in each epoch, so every item is loaded sooner or later."""
        seen = set()
        for epoch in range(10):
            for rank in range(4):
                seen |= set(DistributedKeyedSampler(7, rank=rank, world_size=4, epoch=epoch))
        assert seen == set(range(7))

    @pytest.mark.parametrize("value", [True, 1.0, "1"])
    def test_epochs_are_whole_numbers(self, value: Any) -> None:
        """An epoch of another type is refused when it is given, and the one before stays."""
        with pytest.raises(TypeError, match="epoch must be an int"):
            DistributedKeyedSampler(5, epoch=value)
        sampler = DistributedKeyedSampler(5)
        with pytest.raises(TypeError, match="epoch must be an int"):
            sampler.set_epoch(value)
        assert sampler.epoch == 0

    @pytest.mark.parametrize("drops", [True, False])
    def test_size_is_limited_by_that_of_len(self, drops: bool) -> None:
        """The largest dataset that has a length, dealt to as many ranks as there can be."""
        sampler = DistributedKeyedSampler(LARGEST, rank=1, world_size=2, ddp_drop_last_distributed_round=drops)
        assert len(sampler) == 2**62 - 1
        assert all(0 <= index < LARGEST for index in itertools.islice(sampler, 1000))
        last = DistributedKeyedSampler(LARGEST, rank=LARGEST - 1, world_size=LARGEST)
        assert list(last) == [KeyedPermutation(LARGEST, (0, 0))[-1]]
        with pytest.raises(ValueError, match=r"must be <= 2\*\*63 - 1"):
            DistributedKeyedSampler(2**63)

    @pytest.mark.slow
    def test_sizes_of_ranks_are_those_of_torch(self) -> None:
        """Where torch drops or has nothing to pad, its sampler gives each rank as many."""
        data = pytest.importorskip("torch.utils.data")
        for n, world_size in ((10, 3), (12, 4), (7, 7), (1000, 64)):
            for rank in range(world_size):
                peer = data.DistributedSampler(range(n), num_replicas=world_size, rank=rank, drop_last=True)
                assert len(DistributedKeyedSampler(n, rank=rank, world_size=world_size)) == len(list(peer))


def test_a_step_of_zero_is_refused() -> None:
    """As of a list."""
    with pytest.raises(ValueError):
        KeyedPermutation(10, 0)[::0]


def split(n: int, world_size: int, **options: Any) -> list[list[int]]:
    return [list(DistributedKeyedSampler(n, rank=rank, world_size=world_size, **options)) for rank in range(world_size)]


@pytest.mark.parametrize("world_size", [2, 3, 64])
def test_one_order_whatever_the_number_of_ranks(world_size: int) -> None:
    """Dealt in turns, the ranks give what a single one gives."""
    n = 640
    (whole,) = split(n, 1, seed=4, epoch=2)
    parts = split(n, world_size, seed=4, epoch=2, ddp_drop_last_distributed_round=False)
    assert [whole[rank::world_size] for rank in range(world_size)] == parts
    kept = split(n, world_size, seed=4, epoch=2)
    assert [whole[: n // world_size * world_size][rank::world_size] for rank in range(world_size)] == kept


def test_an_iterator_keeps_the_order_it_began_with() -> None:
    """Whoever sets the next epoch while one is read does not mix the two."""
    sampler = DistributedKeyedSampler(5000, seed=1)
    expected = list(sampler)
    iterator = iter(sampler)
    first = next(iterator)
    sampler.set_epoch(3)
    assert [first, *iterator] == expected
