"""Seeds for augmentation: ``sample_seeds``, from the run's seed, the epoch and the index, and checks of the user's."""

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex

from spdl._numbers import as_int
from spdl._random import MASK, STEP, absorb, mix, words_of


def sample_seeds(seed: SupportsIndex, epoch: SupportsIndex, indices: Iterable[SupportsIndex]) -> list[int]:
    """Compute one seed per sample, for ``load_image_batch``.

    A sample's seed depends only on the run's seed, the epoch and the sample's index. So augmentation does not depend on
    batch size, order, or the number of threads, workers or machines. A resumed run continues exactly where it
    stopped::

        seeds = sample_seeds(seed=0, epoch=epoch, indices=[3, 1, 2])

    Args:
        seed: Seed of the run: any integer, also negative or longer than 64 bits; all bits are used.
        epoch: Number of the epoch, in ``[0, 2**64)``.
        indices: Indices of the samples in the dataset, in ``[0, 2**64)``, in any order.

    Returns:
        Integers in ``[0, 2**64)``, in the order of ``indices``. In one epoch, different samples have different seeds;
        across epochs and runs, seeds collide no more often than random numbers.

    Raises:
        TypeError: A number is not an integer.
        ValueError: The epoch or an index is negative or too large.

    Algorithm: the seed of sample ``i`` is output ``i`` of SplitMix64 (Steele, Lea and Flood, "Fast splittable
    pseudorandom number generators", OOPSLA 2014, with the finaliser of Vigna's reference implementation). Its initial
    state is ``mix(mix(seed + step) + epoch + step)``, where ``mix`` is that finaliser and ``step`` the generator's
    increment. A seed that does not fit into a signed 64-bit integer is split into 64-bit words, which are mixed in one
    at a time, lowest first. The result is the same on every machine and will not change.
    """
    state = 0
    for word in words_of(as_int("seed", seed)):
        state = absorb(state, word)
    state = absorb(state, _as_word("epoch", as_int("epoch", epoch)))
    try:
        numbers = [operator.index(index) for index in indices]
    except TypeError as exc:
        raise TypeError(f"indices must be integers: {exc}") from None
    if numbers:
        _as_word("indices", min(numbers))
        _as_word("indices", max(numbers))
    return [mix(state + (number + 1) * STEP) for number in numbers]


def as_seed(name: str, value: Any) -> int:
    """The value as a seed of 64 bits for native code. Raises ``TypeError`` or ``ValueError``."""
    seed = as_int(name, value)
    if not 0 <= seed < 2**64:
        raise ValueError(f"{name} must be >= 0 and < 2**64, got {seed}; sample_seeds makes such seeds from any integer")
    return seed


def seeds_of_sources(seeds: Iterable[SupportsIndex], count: int) -> list[int]:
    """The user's seeds, one per source, for native code. Raises ``TypeError`` or ``ValueError``."""
    try:
        numbers = [operator.index(each) for each in seeds]
    except TypeError as exc:
        raise TypeError(f"seeds must be integers, one per source: {exc}") from None
    if len(numbers) != count:
        raise ValueError(f"seeds must have one seed per source: {count}, got {len(numbers)}")
    as_seed("seeds", min(numbers))
    as_seed("seeds", max(numbers))
    return numbers


def _as_word(name: str, number: int) -> int:
    if not 0 <= number <= MASK:
        raise ValueError(f"{name} must be {'>= 0' if number < 0 else '< 2**64'}, got {number}")
    return number
