"""Seeds of samples: what they depend on, and that they differ."""

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.io import sample_seeds

INDICES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20)


def test_values_do_not_change() -> None:
    """They are part of what makes a run reproducible, on every machine and from version to version."""
    assert sample_seeds(0, 0, [0, 1, 1_281_166]) == [2558736989570252433, 17913671590881668180, 17286965282160961531]
    assert sample_seeds(-1, 7, [0, 1, 1_281_166]) == [2448907953716138021, 3900799118260666419, 12028758030644572277]
    assert sample_seeds(2**200 + 1, 2**64 - 1, [0, 1, 2**64 - 1]) == [
        13362939510209829387,
        17657055102137578255,
        17229661812932062207,
    ]


def test_seeds_are_outputs_of_splitmix64() -> None:
    """Of the generator as its reference implementation writes it, stepped from sample to sample."""
    mask = 2**64 - 1

    def outputs(state: int) -> Any:
        while True:
            state = (state + 0x9E3779B97F4A7C15) & mask
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
            yield z ^ (z >> 31)

    # The outputs for the seed 1234567 that are published with implementations of it.
    assert list(itertools.islice(outputs(1234567), 2)) == [6457827717110365317, 3203168211198807973]
    start = next(outputs((next(outputs(42)) + 3) & mask))
    assert sample_seeds(42, 3, range(5)) == list(itertools.islice(outputs(start), 5))


def test_hundreds_of_thousands_are_all_different() -> None:
    """For seeds, epochs and indices next to each other, as they are in practice."""
    runs = [sample_seeds(seed, epoch, range(1500)) for seed in range(-8, 8) for epoch in range(16)]
    seeds = [seed for run in runs for seed in run]
    assert len(set(seeds)) == len(seeds) == 384_000
    assert 0 <= min(seeds) < 2**50
    assert 2**64 - 2**50 < max(seeds) < 2**64


def test_bits_of_neighbours_are_independent() -> None:
    """Each bit is set in half of the seeds, and changes in half of the steps to the next index, epoch or seed."""
    base = np.array(sample_seeds(1, 1, range(20_000)), np.uint64)
    for other in (
        sample_seeds(1, 1, range(1, 20_001)),
        sample_seeds(1, 2, range(20_000)),
        sample_seeds(2, 1, range(20_000)),
    ):
        changed = np.unpackbits((base ^ np.array(other, np.uint64)).view(np.uint8).reshape(-1, 8), axis=1)
        # Six standard deviations of a share of 20000 coins.
        assert np.abs(changed.mean(axis=0) - 0.5).max() < 6 * 0.5 / 20_000**0.5


@given(indices=INDICES, seed=st.integers(), epoch=st.integers(0, 1000), order=st.randoms(use_true_random=False))
def test_order_and_company_do_not_matter(indices: list[int], seed: int, epoch: int, order: random.Random) -> None:
    """A sample has its seed in whatever batch it comes."""
    alone = {index: sample_seeds(seed, epoch, [index])[0] for index in indices}
    order.shuffle(indices)
    assert sample_seeds(seed, epoch, indices) == [alone[index] for index in indices]


@pytest.mark.parametrize(
    ("one", "other"),
    [(0, 2**64), (1, 2**64 + 1), (-1, 2**64 - 1), (5, 5 + 2**128), (2**63, -(2**63)), (3 + (7 << 64), 3)],
)
def test_every_bit_of_a_large_seed_counts(one: int, other: int) -> None:
    """Seeds that agree in their lowest 64 bits are still two seeds."""
    assert sample_seeds(one, 7, range(4)) != sample_seeds(other, 7, range(4))


@pytest.mark.parametrize(
    "indices",
    [np.array([3, 1, 4]), (np.int32(3), np.uint64(1), np.int8(4)), iter([3, 1, 4]), [np.array(3), 1, 4]],
    ids=["array", "scalars", "iterator", "mixed"],
)
def test_integers_of_numpy_are_integers(indices: Any) -> None:
    """Of every width; the seeds are Python's."""
    seeds = sample_seeds(np.int64(9), np.uint8(2), indices)
    assert seeds == sample_seeds(9, 2, [3, 1, 4])
    assert {type(seed) for seed in seeds} == {int}


def test_no_index_no_seed() -> None:
    """An empty batch has none."""
    assert sample_seeds(0, 0, []) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, [3, -1, 4]), "indices must be >= 0, got -1"),
        ((0, 0, [2**64]), r"indices must be < 2\*\*64, got 18446744073709551616"),
        ((0, -1, [0]), "epoch must be >= 0, got -1"),
        ((0, 2**64, [0]), r"epoch must be < 2\*\*64"),
    ],
)
def test_numbers_out_of_range_are_refused(arguments: Any, message: str) -> None:
    """The message has the number."""
    with pytest.raises(ValueError, match=message):
        sample_seeds(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.5, 0, [0]), "seed must be an int, got 0.5"),
        (("7", 0, [0]), "seed must be an int, got '7'"),
        ((0, None, [0]), "epoch must be an int, got None"),
        ((0, 0, [1.0]), "indices must be integers: 'float'"),
        ((0, 0, 5), "indices must be integers: 'int' object is not iterable"),
    ],
)
def test_what_is_no_integer_is_refused(arguments: Any, message: str) -> None:
    """Nothing is rounded or parsed."""
    with pytest.raises(TypeError, match=message):
        sample_seeds(*arguments)
