"""``Rng``: its numbers are those of the seed, whoever had the generator before, and whoever keeps it."""

import copy
import gc
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._random import ItemPosition, StageSeeds
from spdl.pipeline import Rng, RngKey
from tests.strategies.profiles import cases

SEEDS = st.integers(0, 2**64 - 1)


def fresh(seed: int) -> np.random.Generator:
    """What NumPy makes of a seed."""
    return np.random.Generator(np.random.Philox(key=seed))


def draws(generator: np.random.Generator) -> list[Any]:
    """Some numbers of all kinds, of which some leave half a word behind."""
    return [
        generator.random(),
        *generator.integers(0, 10, 3, dtype=np.uint32),
        *generator.normal(size=3),
        generator.integers(2**60),
    ]


def test_values_do_not_change() -> None:
    """They are part of what makes a run reproducible, on every machine and from version to version."""
    rng = Rng(2**64 - 1)
    assert rng.seed == 2**64 - 1
    assert rng.python().getrandbits(64) == GOLDEN_PYTHON
    assert rng.numpy().integers(0, 2**63, 3).tolist() == GOLDEN_NUMPY


GOLDEN_PYTHON = 4589153898531806846
GOLDEN_NUMPY = [2166953674393202173, 6616023899027637099, 3792441506570696130]


@cases(200)
@given(seeds=st.lists(SEEDS, max_size=6), data=st.data())
def test_numbers_are_those_of_the_seed(seeds: list[int], data: st.DataObject) -> None:
    """Whatever was drawn for the items before, and from whichever generators."""
    for seed in seeds:
        rng = Rng(seed)
        if data.draw(st.booleans()):
            assert draws(rng.numpy()) == draws(fresh(seed))
        rng.numpy().random(data.draw(st.integers(0, 9)), dtype=np.float32)
        assert rng.python().random() == random.Random(seed).random()


def test_a_generator_goes_on_within_an_item() -> None:
    """It is the same object each time it is asked for."""
    rng, expected = Rng(5), fresh(5)
    assert [rng.numpy().random() for _ in range(3)] == [expected.random() for _ in range(3)]
    assert rng.python() is rng.python()
    assert rng.numpy() is rng.numpy()


def test_a_generator_is_used_again() -> None:
    """By the same thread, once the item is done: making one costs ten times as much."""
    first = id(Rng(1).numpy())
    assert id(Rng(2).numpy()) == first
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: id(Rng(3).numpy()) != id(Rng(4).numpy())).result() is False
    assert id(Rng(5).numpy()) == first


KEPT: dict[str, Any] = {
    "rng": lambda rng: (rng, lambda kept: kept.numpy()),
    "generator": lambda rng: (rng.numpy(), lambda kept: kept),
    "method": lambda rng: (rng.numpy().random, lambda kept: kept.__self__),
    "bit generator": lambda rng: (rng.numpy().bit_generator, np.random.Generator),
    "method of the bit generator": lambda rng: (
        rng.numpy().bit_generator.random_raw,
        lambda kept: np.random.Generator(kept.__self__),
    ),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_is_kept_is_left_alone(what: str) -> None:
    """Somebody keeps a generator, or what has it: no later item gets it, and its numbers go on."""
    rng = Rng(11)
    expected = fresh(11)
    assert rng.numpy().random() == expected.random()
    kept, generator_of = KEPT[what](rng)
    del rng
    for seed in range(20):
        assert draws(Rng(seed).numpy()) == draws(fresh(seed))
    assert draws(generator_of(kept)) == draws(expected)


def test_what_was_kept_may_be_let_go() -> None:
    """The generator that took its place is used from then on."""
    kept = Rng(1).numpy()
    other = Rng(2).numpy()
    assert other is not kept
    del kept
    identity = id(other)
    del other
    gc.collect()
    assert id(Rng(3).numpy()) == identity


def test_items_that_overlap_have_their_own() -> None:
    """Coroutines on one thread, say: several items are under way at once."""
    rngs = [Rng(seed) for seed in range(5)]
    expected = [fresh(seed) for seed in range(5)]
    for _ in range(3):
        assert [rng.numpy().random() for rng in rngs] == [each.random() for each in expected]


def test_threads_have_their_own() -> None:
    """Items of different threads, all at once."""
    barrier = threading.Barrier(4)

    def work(worker: int) -> bool:
        barrier.wait()
        return all(draws(Rng(seed).numpy()) == draws(fresh(seed)) for seed in range(worker, 400, 4))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4


def test_a_generator_may_go_to_another_thread() -> None:
    """Which uses it while the thread that made it has the next item."""
    rng, expected = Rng(7), fresh(7)
    handed = rng.numpy()
    del rng
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(draws, handed)
        del handed
        assert draws(Rng(8).numpy()) == draws(fresh(8))
        assert later.result() == draws(expected)


def test_global_generators_are_left_alone() -> None:
    """Neither read nor changed."""
    random.seed(3)
    np.random.seed(3)
    expected = random.random(), np.random.random()
    random.seed(3)
    np.random.seed(3)
    draws(Rng(1).numpy())
    Rng(1).python().random()
    assert (random.random(), np.random.random()) == expected


@pytest.mark.slow
def test_torch_has_its_generator() -> None:
    """Which is that of the seed, and the same object each time."""
    torch = pytest.importorskip("torch")
    for seed in (0, 5, 2**63, 2**64 - 1):
        rng = Rng(seed)
        expected = torch.Generator().manual_seed(seed)
        assert torch.equal(torch.rand(3, generator=rng.torch()), torch.rand(3, generator=expected))
        assert torch.equal(torch.rand(3, generator=rng.torch()), torch.rand(3, generator=expected))


def test_copies_begin_again() -> None:
    """In another process, or for another attempt."""
    key = RngKey(0, "augment", ItemPosition(1, 7, item=42))
    rng = Rng(StageSeeds(0, "augment").of(key.place), key)
    first = rng.numpy().random()
    for clone in (pickle.loads(pickle.dumps(rng)), copy.copy(rng), copy.deepcopy(rng)):
        assert (clone.seed, clone.key) == (rng.seed, key)
        assert clone.numpy().random() == first


def test_a_key_says_where_the_seed_is_from() -> None:
    """The run, the stage and the place of the item, with what the source gave there."""
    key = RngKey(0, "augment", ItemPosition(1, 7, item=42))
    rng = Rng(5, key)
    assert rng.key is key
    assert "stage='augment'" in repr(rng)
    assert "position=7" in repr(rng)
    assert Rng(5).key is None
    assert repr(Rng(5)) == "Rng(5)"


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (-1, ValueError, r"seed must be in range \[0, 2\*\*64\), got -1"),
        (2**64, ValueError, r"seed must be in range \[0, 2\*\*64\), got 18446744073709551616"),
        (1.0, TypeError, "seed must be an int, got 1.0 of type float"),
        ("1", TypeError, "seed must be an int, got '1' of type str"),
    ],
)
def test_wrong_seeds_are_refused(seed: Any, error: type[Exception], message: str) -> None:
    """The message names the argument, what is accepted and what was given."""
    with pytest.raises(error, match=message):
        Rng(seed)
