"""Sampling without an index in memory: a permutation chosen by a key, and the sampler made of it."""

import copy
import itertools
import pickle
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import DistributedKeyedSampler, KeyedPermutation, SizedIterableWithShuffle
from tests.source.chance import chi_square

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 63, 64, 65, 255, 256, 257, 1000, 4097]
HUGE = 2**63 - 1


# -- the permutation


@pytest.mark.parametrize("n", SIZES)
def test_it_is_a_permutation(n: int) -> None:
    """Each of ``range(n)`` once, for a few keys."""
    for key in (0, 1, -5, 2**70, (1, 2), (2, 1)):
        assert sorted(KeyedPermutation(n, key)) == list(range(n)), key


def test_an_empty_one_is_empty_or_refused() -> None:
    """Never an endless walk."""
    try:
        empty = KeyedPermutation(0, 1)
    except ValueError:
        return
    assert list(empty) == []


@pytest.mark.parametrize("n", [-1, 2**63, 2**64])
def test_sizes_out_of_range_are_refused(n: int) -> None:
    """Up to ``2**63 - 1`` it works."""
    with pytest.raises((ValueError, OverflowError)):
        KeyedPermutation(n, 0)


@given(n=st.integers(1, HUGE), key=st.integers(), data=st.data())
def test_the_inverse_finds_the_position(n: int, key: int, data: st.DataObject) -> None:
    """For any size, up to the largest."""
    permutation = KeyedPermutation(n, key)
    position = data.draw(st.integers(0, n - 1))
    value = permutation[position]
    assert type(value) is int
    assert 0 <= value < n
    assert permutation.index_of(value) == position
    assert permutation[permutation.index_of(position)] == position


@pytest.mark.parametrize("n", [1, 5, 1000, HUGE])
def test_values_outside_have_no_position(n: int) -> None:
    """A ValueError, as of ``list.index``."""
    permutation = KeyedPermutation(n, 3)
    for value in (-1, n, n + 5):
        with pytest.raises(ValueError):
            permutation.index_of(value)


@pytest.mark.parametrize("n", [1, 10, 5000, HUGE])
def test_positions_are_those_of_a_sequence(n: int) -> None:
    """Negative ones count from the end; beyond either end is an IndexError."""
    permutation = KeyedPermutation(n, 3)
    assert len(permutation) == n
    assert permutation[-1] == permutation[n - 1]
    assert permutation[-n] == permutation[0]
    for position in (n, -n - 1, 2**80):
        with pytest.raises(IndexError):
            permutation[position]
    bad: Any = "0"
    with pytest.raises(TypeError):
        permutation[bad]


def test_positions_may_be_numpy_integers() -> None:
    """As of any sequence."""
    np = pytest.importorskip("numpy")
    permutation = KeyedPermutation(100, 3)
    assert permutation[np.int64(5)] == permutation[5]
    assert permutation.index_of(np.int64(7)) == permutation.index_of(7)


PARTS = st.one_of(st.none(), st.integers(-40, 40))


@given(
    n=st.integers(1, 30),
    slices=st.lists(st.builds(slice, PARTS, PARTS, PARTS.filter(lambda step: step != 0)), min_size=1, max_size=3),
)
def test_slices_are_those_of_a_list(n: int, slices: list[slice]) -> None:
    """Slices of slices too: length, items, iteration, items from the end."""
    view: Any = KeyedPermutation(n, 9)
    expected = list(view)
    for each in slices:
        view, expected = view[each], expected[each]
        assert len(view) == len(expected)
        assert list(view) == expected
        assert [view[k] for k in range(-len(expected), len(expected))] == expected * 2
        with pytest.raises(IndexError):
            view[len(expected)]


def test_a_step_of_zero_is_refused() -> None:
    """As of a list."""
    with pytest.raises(ValueError):
        KeyedPermutation(10, 0)[::0]


@pytest.mark.parametrize("n", [10, 5000, 10**9, HUGE])
def test_blocks_and_single_positions_agree(n: int) -> None:
    """However they are computed."""
    permutation = KeyedPermutation(n, (3, 4))
    assert list(itertools.islice(permutation, 3000)) == [permutation[k] for k in range(min(n, 3000))]
    view = permutation[n - 1 : None : -max(1, n // 700)]
    assert list(view) == [view[k] for k in range(len(view))]
    assert all(type(value) is int for value in itertools.islice(permutation, 3))


def test_it_stays_what_it_is_without_numpy() -> None:
    """The same numbers where NumPy cannot be imported; a key gives the same order in every process."""
    from tests.support.child import run_child

    script = """
        import sys
        if {blocked}:
            sys.modules["numpy"] = None
        from spdl.source import DistributedKeyedSampler, KeyedPermutation
        import zlib
        for n in (1, 2, 3, 7, 64, 1000, 5000):
            print(n, zlib.crc32(repr(list(KeyedPermutation(n, (5, 6)))).encode()))
        for n in (10**6 + 3, 10**9, 2**32, 2**32 + 1, 2**53 + 1, 2**63 - 1):
            p = KeyedPermutation(n, 5)
            print(n, zlib.crc32(repr([*p[:300], *p[-300:], *p[:: n // 300]]).encode()))
        print(*DistributedKeyedSampler(50, rank=1, world_size=3, seed=3, epoch=2))
        assert ("numpy" in sys.modules) and ((sys.modules["numpy"] is None) == {blocked})
    """
    pytest.importorskip("numpy")
    with_numpy = run_child(script.format(blocked=False).replace("import sys\n", "import sys, numpy\n", 1))
    without = run_child(script.format(blocked=True))
    with_numpy.check(with_numpy.stdout)
    without.check(with_numpy.stdout)


def test_keys_choose_different_orders() -> None:
    """Near ones too; what a tuple says is not what its sum says."""
    keys: list[Any] = [0, 1, 2, -1, 2**64, 2**64 + 1, 2**128, (0,), (0, 0), (1, 2), (2, 1), (3,), (1, 2, 0)]
    orders = {tuple(itertools.islice(KeyedPermutation(1000, key), 20)) for key in keys}
    assert len(orders) >= len(keys) - 1  # 0 and (0,) may be one key


def test_equal_ones_are_equal() -> None:
    """By size and key; a copy, deep or pickled, equals the original."""
    permutation = KeyedPermutation(100, (1, 2))
    assert permutation == KeyedPermutation(100, (1, 2))
    assert permutation != KeyedPermutation(101, (1, 2))
    assert permutation != KeyedPermutation(100, (2, 1))
    assert permutation != list(permutation)
    for again in (pickle.loads(pickle.dumps(permutation)), copy.copy(permutation), copy.deepcopy(permutation)):
        assert again == permutation
        assert list(again) == list(permutation)
    view = permutation[3:50:7]
    assert list(pickle.loads(pickle.dumps(view))) == list(view)
    assert "100" in repr(permutation)
    assert repr(view)
    assert len(pickle.dumps(KeyedPermutation(10**9, 5))) < 500


def test_two_iterators_are_independent() -> None:
    """Read in turns."""
    permutation = KeyedPermutation(50, 1)
    assert [(value, value) for value in permutation] == list(zip(iter(permutation), iter(permutation), strict=True))


def test_a_billion_costs_no_memory() -> None:
    """Neither made, nor sliced, nor read from, nor inverted."""
    list(itertools.islice(KeyedPermutation(10**6, 0), 5000))  # imports what it imports
    tracemalloc.start()
    try:
        permutation = KeyedPermutation(10**9, 7)
        view = permutation[5::3]
        for each in (permutation, view):
            list(itertools.islice(each, 20000))
            each[len(each) - 1]
        permutation.index_of(12345)
        sampler = DistributedKeyedSampler(10**9, rank=3, world_size=64, seed=1)
        list(itertools.islice(sampler, 20000))
        sampler.set_epoch(1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20, peak


# -- uniform


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_orders_are_equally_likely(n: int) -> None:
    """Over consecutive integer keys, as epochs are."""
    orders = list(itertools.permutations(range(n)))
    num_keys = 60 * len(orders)
    counts = Counter(tuple(KeyedPermutation(n, key)) for key in range(num_keys))
    assert chi_square([counts[order] for order in orders]) > 1e-6


@pytest.mark.parametrize("n", [2, 3, 4])
def test_all_orders_are_equally_likely_over_pairs(n: int) -> None:
    """Keys of (seed, epoch), where one of the two counts up."""
    orders = list(itertools.permutations(range(n)))
    for keys in ([(7, epoch) for epoch in range(2400)], [(seed, 0) for seed in range(2400)]):
        counts = Counter(tuple(KeyedPermutation(n, key)) for key in keys)
        assert chi_square([counts[order] for order in orders]) > 1e-6


@pytest.mark.parametrize("n", [13, 64, 100])
def test_every_value_is_equally_likely_at_every_position(n: int) -> None:
    """Positions against values, over keys."""
    counts = Counter(
        (position, value) for key in range(1000) for position, value in enumerate(KeyedPermutation(n, key))
    )
    assert chi_square([counts[position, value] for position in range(n) for value in range(n)]) > 1e-6


@pytest.mark.parametrize("n", [8, 16, 64, 256, 1000])
def test_even_and_odd_orders_are_equally_likely(n: int) -> None:
    """Rounds of a Feistel network are even permutations of more than four values: half of all would never come."""
    num_odd = sum(is_odd(list(KeyedPermutation(n, key))) for key in range(400))
    assert chi_square([num_odd, 400 - num_odd]) > 1e-6


def is_odd(order: list[int]) -> bool:
    """The parity of a permutation: that of its length less its number of cycles."""
    seen: set[int] = set()
    num_cycles = 0
    for start in order:
        num_cycles += start not in seen
        while start not in seen:
            seen.add(start)
            start = order[start]
    return (len(order) - num_cycles) % 2 == 1


@pytest.mark.parametrize("n", [1000, 1024, 10**9, 2**62 + 5])
def test_neighbours_are_independent(n: int) -> None:
    """Where one lies says nothing about the next: 8 by 8 cells of consecutive values."""
    cells: Counter[tuple[int, int]] = Counter()
    for key in range(4):
        values = list(itertools.islice(KeyedPermutation(n, key), 1000))
        cells.update((a * 8 // n, b * 8 // n) for a, b in itertools.pairwise(values))
    assert chi_square([cells[a, b] for a in range(8) for b in range(8)]) > 1e-6


@pytest.mark.parametrize("n", [997, 1024, 10**9])
def test_epochs_are_independent(n: int) -> None:
    """Where a value lies in one epoch says nothing about the next."""
    cells: Counter[tuple[int, int]] = Counter()
    fixed = 0
    for epoch in range(6):
        this = list(itertools.islice(KeyedPermutation(n, (3, epoch)), 900))
        following = list(itertools.islice(KeyedPermutation(n, (3, epoch + 1)), 900))
        cells.update((a * 8 // n, b * 8 // n) for a, b in zip(this, following, strict=True))
        fixed += sum(a == b for a, b in zip(this, following, strict=True))
    assert chi_square([cells[a, b] for a in range(8) for b in range(8)]) > 1e-6
    assert fixed < 40  # about one in n would be equal by chance


def test_low_and_high_bits_are_fair() -> None:
    """Each bit of the first values, over keys."""
    n, num_keys = 2**40, 2000
    counts = [0] * 40
    for key in range(num_keys):
        value = KeyedPermutation(n, key)[0]
        for bit in range(40):
            counts[bit] += value >> bit & 1
    for bit, count in enumerate(counts):
        assert chi_square([count, num_keys - count]) > 1e-8, bit


# -- the sampler


def split(n: int, world_size: int, **options: Any) -> list[list[int]]:
    return [list(DistributedKeyedSampler(n, rank=rank, world_size=world_size, **options)) for rank in range(world_size)]


@pytest.mark.parametrize(("n", "world_size"), [(1, 1), (64, 64), (100, 64), (1000, 3), (5000, 7)])
def test_ranks_are_disjoint_and_of_one_length(n: int, world_size: int) -> None:
    """With drop: equal step counts."""
    parts = split(n, world_size)
    assert {len(part) for part in parts} == {n // world_size}
    taken = [index for part in parts for index in part]
    assert len(set(taken)) == len(taken)
    assert set(taken) <= set(range(n))


@pytest.mark.parametrize(("n", "world_size"), [(1, 1), (3, 5), (64, 64), (100, 64), (1000, 3)])
def test_ranks_are_complete_without_drop(n: int, world_size: int) -> None:
    """All of it, once; lengths differ by one at most, and ``len`` tells them."""
    parts = split(n, world_size, ddp_drop_last_distributed_round=False)
    assert sorted(index for part in parts for index in part) == list(range(n))
    assert [len(part) for part in parts] == [len(range(rank, n, world_size)) for rank in range(world_size)]
    last = DistributedKeyedSampler(n, rank=0, world_size=world_size, ddp_drop_last_distributed_round=False)
    assert len(last) == len(parts[0])


@pytest.mark.parametrize("world_size", [2, 3, 64])
def test_one_order_whatever_the_number_of_ranks(world_size: int) -> None:
    """Dealt in turns, the ranks give what a single one gives."""
    n = 640
    (whole,) = split(n, 1, seed=4, epoch=2)
    parts = split(n, world_size, seed=4, epoch=2, ddp_drop_last_distributed_round=False)
    assert [whole[rank::world_size] for rank in range(world_size)] == parts
    kept = split(n, world_size, seed=4, epoch=2)
    assert [whole[: n // world_size * world_size][rank::world_size] for rank in range(world_size)] == kept


def test_epochs_and_seeds_differ_and_come_again() -> None:
    """(seed, epoch) decide; history does not."""
    sampler = DistributedKeyedSampler(100, seed=1)
    orders = {}
    for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 5)]:
        sampler.shuffle(seed=seed)
        sampler.set_epoch(epoch)
        orders[seed, epoch] = list(sampler)
        assert list(sampler) == orders[seed, epoch]
        assert orders[seed, epoch] == list(DistributedKeyedSampler(100, seed=seed, epoch=epoch))
        assert sorted(orders[seed, epoch]) == list(range(100))
    assert len({tuple(order) for order in orders.values()}) == 5


def test_it_is_a_sampler_like_the_others() -> None:
    """Sized, shuffled, pickled; it gives Python integers."""
    sampler = DistributedKeyedSampler(100, rank=1, world_size=3, seed=5, epoch=6)
    assert isinstance(sampler, SizedIterableWithShuffle)
    assert list(pickle.loads(pickle.dumps(sampler))) == list(sampler)
    assert all(type(index) is int for index in sampler)
    assert list(DistributedKeyedSampler(5)) == list(DistributedKeyedSampler(5, rank=0, world_size=1, seed=0, epoch=0))


def test_an_iterator_keeps_the_order_it_began_with() -> None:
    """Whoever sets the next epoch while one is read does not mix the two."""
    sampler = DistributedKeyedSampler(5000, seed=1)
    expected = list(sampler)
    iterator = iter(sampler)
    first = next(iterator)
    sampler.set_epoch(3)
    assert [first, *iterator] == expected


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (0, {}),
        (-1, {}),
        (4, {"world_size": 0}),
        (4, {"world_size": -1}),
        (4, {"rank": -1, "world_size": 2}),
        (4, {"rank": 2, "world_size": 2}),
        (4, {"world_size": 5}),
    ],
)
def test_impossible_ranks_are_refused(n: int, options: dict[str, Any]) -> None:
    """As by the other samplers."""
    with pytest.raises(ValueError):
        DistributedKeyedSampler(n, **options)
