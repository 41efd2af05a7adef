"""How random keyed permutations are: over the keys, as if each order were drawn with the same probability.

Keys and so results are fixed. What is tested is a chi-square or a mean of which only one in 100 000 would be so far
off; a change of the algorithm that fails here is worse than what was there.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from spdl.source import KeyedPermutation

#: Of a normal distribution, beyond which one in 100 000 lies on one side.
LIMIT = 4.27


def excess(observed: Iterable[float], expected: Sequence[float] | float, *, num_constraints: int = 1) -> float:
    """How many standard deviations chi-square is above what chance gives (Wilson and Hilferty, PNAS 1931)."""
    counts = np.asarray(list(observed), dtype=np.float64)
    wanted = np.broadcast_to(np.asarray(expected, dtype=np.float64), counts.shape)
    freedom = counts.size - num_constraints
    chi_square = float(((counts - wanted) ** 2 / wanted).sum())
    scale = 2 / (9 * freedom)
    return float(((chi_square / freedom) ** (1 / 3) - (1 - scale)) / math.sqrt(scale))


@pytest.mark.parametrize(("n", "num_keys"), [(2, 4000), (3, 4000), (4, 6000), (5, 8000)])
def test_all_orders_of_few_come_as_often(n: int, num_keys: int) -> None:
    """Each of the ``n!`` permutations is as likely as any other."""
    orders = Counter(tuple(KeyedPermutation(n, (11, epoch))) for epoch in range(num_keys))
    assert len(orders) == math.factorial(n)
    assert excess(orders.values(), num_keys / len(orders)) < LIMIT


@pytest.mark.parametrize("n", [17, 1024, 1025, 2048, 3000, 10**6, 10**9, 2**63 - 1])
def test_values_at_a_position_are_uniform(n: int) -> None:
    """Over the keys, the first, last and middle position each hold every value alike; so do positions of values."""
    num_keys, num_bins = 600, min(n, 32)
    permutations = [KeyedPermutation(n, key) for key in range(num_keys)]
    expected = _sizes_of_bins(n, num_bins, num_keys)
    for position in (0, n // 2, n - 1):
        values = [permutation[position] for permutation in permutations]
        places = [permutation.index_of(position) for permutation in permutations]
        for found in (values, places):
            counts = Counter(value * num_bins // n for value in found)
            assert excess([counts[place] for place in range(num_bins)], expected) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("n", [17, 1025, 2048, 2049, 5000, 10**9])
@pytest.mark.parametrize("distance", ["next", "half of the bits", "last"])
def test_pairs_of_positions_are_independent(n: int, distance: str) -> None:
    """Over the keys, the difference of the values at two positions is uniform: what too few rounds break first."""
    bits = (n - 1).bit_length()
    other = {"next": 1, "half of the bits": 1 << (bits - bits // 2), "last": n - 1}[distance]
    num_keys, num_bins = 5000, min(n - 1, 256)
    counts: Counter[int] = Counter()
    for key in range(num_keys):
        permutation = KeyedPermutation(n, (key, 2))
        difference = (permutation[other % n] - permutation[0]) % n
        counts[(difference - 1) * num_bins // (n - 1)] += 1
    assert excess([counts[place] for place in range(num_bins)], _sizes_of_bins(n - 1, num_bins, num_keys)) < LIMIT


def _sizes_of_bins(n: int, num_bins: int, total: int) -> list[float]:
    bounds = [-(-place * n // num_bins) for place in range(num_bins + 1)]
    return [total * (stop - start) / n for start, stop in itertools.pairwise(bounds)]


@pytest.mark.parametrize("n", [1025, 65536, 100_000, 2**17 + 1])
def test_one_order_looks_drawn(n: int) -> None:
    """Within one order, values follow neither positions nor the values before, and rise as often as they fall."""
    values = np.array(list(KeyedPermutation(n, 3)))
    grid = 16
    rows = np.arange(n) * grid // n
    expected = np.outer(np.bincount(rows, minlength=grid), np.bincount(rows, minlength=grid)) / n
    for one, other in ((np.arange(n), values), (values[:-1], values[1:])):
        table = np.bincount((one * grid // n) * grid + other * grid // n, minlength=grid * grid)
        assert excess(table, expected.ravel().tolist(), num_constraints=2 * grid - 1) < LIMIT
    # Descents of a random permutation: mean (n - 1) / 2, variance (n + 1) / 12.
    descents = int((np.diff(values) < 0).sum())
    assert abs(descents - (n - 1) / 2) < LIMIT * math.sqrt((n + 1) / 12)


@pytest.mark.parametrize("n", [1025, 65536, 100_000])
def test_epochs_are_independent(n: int) -> None:
    """Where an item is in one epoch says nothing of where it is in the next, nor with the next seed."""
    grid = 16
    first = np.array(list(KeyedPermutation(n, (5, 0))))
    rows = np.arange(n) * grid // n
    expected = np.outer(np.bincount(rows), np.bincount(rows)) / n
    for key in ((5, 1), (6, 0), (0, 5), 5):
        other = np.array(list(KeyedPermutation(n, key)))
        table = np.bincount((first * grid // n) * grid + other * grid // n, minlength=grid * grid)
        assert excess(table, expected.ravel().tolist(), num_constraints=2 * grid - 1) < LIMIT


@pytest.mark.parametrize("n", [30, 1500])
def test_items_that_stay_are_as_many_as_by_chance(n: int) -> None:
    """How many items keep their position from one epoch to the next is a Poisson distribution of mean 1."""
    num_epochs = 400
    orders = [np.array(list(KeyedPermutation(n, (1, epoch)))) for epoch in range(num_epochs)]
    fixed = [int((one == other).sum()) for one, other in itertools.pairwise(orders)]
    counts = Counter(min(number, 4) for number in fixed)
    chances = [math.exp(-1) / math.factorial(number) for number in range(4)]
    chances.append(1 - sum(chances))
    assert excess([counts[number] for number in range(5)], [chance * (num_epochs - 1) for chance in chances]) < LIMIT


@pytest.mark.parametrize("n", [64, 2048])
def test_even_and_odd_orders_come_as_often(n: int) -> None:
    """Feistel networks over powers of two with exclusive or alone give even permutations only; this one does not."""
    num_keys = 300
    odd = sum(_is_odd(list(KeyedPermutation(n, (key, 4)))) for key in range(num_keys))
    assert abs(odd - num_keys / 2) < LIMIT * math.sqrt(num_keys / 4)


def _is_odd(values: list[int]) -> bool:
    num_cycles, seen = 0, [False] * len(values)
    for start in range(len(values)):
        if seen[start]:
            continue
        num_cycles += 1
        place = start
        while not seen[place]:
            seen[place] = True
            place = values[place]
    return (len(values) - num_cycles) % 2 == 1


def test_cycles_are_as_many_as_by_chance() -> None:
    """The number of cycles has mean H(n) and variance H(n) - sum of 1/k**2 (Goncharov, 1944)."""
    n, num_keys = 2000, 300
    mean = sum(1 / k for k in range(1, n + 1))
    variance = mean - sum(1 / k**2 for k in range(1, n + 1))
    total = 0
    for key in range(num_keys):
        values, seen = list(KeyedPermutation(n, (key, 5))), [False] * n
        for start in range(n):
            total += not seen[start]
            while not seen[start]:
                seen[start] = True
                start = values[start]
    assert abs(total - num_keys * mean) < LIMIT * math.sqrt(num_keys * variance)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_all_orders_are_equally_likely_over_pairs(n: int) -> None:
    """Keys of (seed, epoch), where one of the two counts up."""
    orders = list(itertools.permutations(range(n)))
    for keys in ([(7, epoch) for epoch in range(2400)], [(seed, 0) for seed in range(2400)]):
        counts = Counter(tuple(KeyedPermutation(n, key)) for key in keys)
        assert excess([counts[order] for order in orders], len(keys) / len(orders)) < LIMIT


def test_low_and_high_bits_are_fair() -> None:
    """Each bit of the first values, over keys."""
    n, num_keys = 2**40, 2000
    counts = [0] * 40
    for key in range(num_keys):
        value = KeyedPermutation(n, key)[0]
        for bit in range(40):
            counts[bit] += value >> bit & 1
    assert all(abs(count - num_keys / 2) < LIMIT * math.sqrt(num_keys / 4) for count in counts), counts
