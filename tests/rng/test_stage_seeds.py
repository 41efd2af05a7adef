"""Seeds of the calls of a stage: what they depend on, that they differ, and their values."""

import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._random import ItemPart, ItemPlace, ItemPosition, StageSeeds
from tests.strategies.profiles import cases

POSITIONS = st.builds(ItemPosition, st.integers(0, 5), st.integers(0, 2**62), st.integers(0, 3), st.none())
PLACES: st.SearchStrategy[Any] = st.recursive(
    POSITIONS,
    lambda inner: st.builds(ItemPart, inner, st.integers(0, 9)) | st.lists(inner, max_size=4).map(tuple),
    max_leaves=8,
)


def test_values_do_not_change() -> None:
    """They are part of what makes a run reproducible, on every machine and from version to version."""
    seeds = StageSeeds(0, "augment")
    one = ItemPosition(0, 0)
    places: list[ItemPlace] = [
        one,
        ItemPosition(0, 1),
        ItemPosition(1, 0),
        ItemPosition(0, 0, source=1),
        ItemPosition(3, 10**12),
        ItemPart(one, 0),
        ItemPart(one, 1),
        ItemPart(ItemPart(one, 0), 0),
        (one,),
        (one, ItemPosition(0, 1)),
        (ItemPosition(0, 1), one),
        (),
        ItemPart((one, ItemPart(one, 2)), 1),
    ]
    assert [seeds.of(place) for place in places] == GOLDEN
    assert [StageSeeds(seed, stage).at(0, 0) for seed, stage in STAGES] == GOLDEN_STAGES


STAGES = [(0, ""), (0, "crop"), (1, "augment"), (-1, "augment"), (2**200, "augment"), (0, "Ü\udc80")]
GOLDEN = [
    2657974252238861794,
    7317977801655599997,
    2411788588481516551,
    4038842743737969148,
    12701153570174693425,
    16699823479370424436,
    3793663552217968819,
    2717240557227019387,
    17198177597476448302,
    13777826564751367225,
    17769799258526384516,
    1376283091369227076,
    5807818282308014231,
]
GOLDEN_STAGES = [
    15412846060204108150,
    15123098403322108352,
    1105510743946082552,
    17157547876604090327,
    15108232353388044079,
    17077188143038114928,
]


def test_seeds_of_positions_are_outputs_of_splitmix64() -> None:
    """Of the generator as its reference implementation writes it, stepped from position to position."""
    mask = 2**64 - 1
    seeds = StageSeeds(7, "augment")
    # The generator's state, from the first output: the finaliser undone.
    state = seeds._generator(2, 0)
    for position in range(100):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        assert seeds.at(2, position) == z ^ (z >> 31)


@cases(80)
@given(one=PLACES, other=PLACES, seed=st.integers(), stage=st.text())
def test_a_seed_is_a_function_of_its_place(one: Any, other: Any, seed: int, stage: str) -> None:
    """Equal places have equal seeds, and others have others; whatever was asked before."""
    seeds = StageSeeds(seed, stage)
    first, second = seeds.of(one), seeds.of(other)
    assert (first == second) == (one == other)
    assert 0 <= first < 2**64
    copied = pickle.loads(pickle.dumps(seeds))
    assert (copied.of(other), copied.of(one)) == (second, first)
    assert seeds.of(one._replace(item=3)) == first if isinstance(one, ItemPosition) else True


def test_seeds_of_neighbours_differ() -> None:
    """In epochs, stages, runs, sources, positions and parts: nothing collides, as random numbers would not."""
    found = []
    for run in (0, 1, -1):
        for stage in ("augment", "crop"):
            seeds = StageSeeds(run, stage)
            for epoch in range(3):
                for source in range(2):
                    own = [seeds.at(epoch, position, source) for position in range(500)]
                    found += own
                    found += [seeds.part(seed, number) for seed in own[:100] for number in range(3)]
                    found += [seeds.joined(own[start : start + 4]) for start in range(0, 500, 4)]
                    found += [seeds.joined([seed]) for seed in own[:100]]
    assert len(set(found)) == len(found)


def test_bits_look_random() -> None:
    """Each is set in half of the seeds, and differs in half of those of neighbours, epochs, stages and parts."""
    count = 20_000
    seeds = StageSeeds(1, "augment")
    base = np.array([seeds.at(0, position) for position in range(count)], np.uint64)
    others = [
        np.array(list(each), np.uint64)
        for each in (
            (seeds.at(0, position + 1) for position in range(count)),
            (seeds.at(1, position) for position in range(count)),
            (seeds.at(0, position, 1) for position in range(count)),
            (StageSeeds(1, "Augment").at(0, position) for position in range(count)),
            (seeds.part(int(seed), 0) for seed in base),
            (seeds.joined([int(seed)]) for seed in base),
            (0 for _ in range(count)),
        )
    ]
    for other in others:
        shares = [float(((base ^ other) >> np.uint64(bit) & np.uint64(1)).mean()) for bit in range(64)]
        assert max(abs(share - 0.5) for share in shares) < 5 * 0.5 / count**0.5


def test_places_may_be_nested_deeply() -> None:
    """As deep as pipelines are long: no recursion."""
    place: Any = ItemPosition(0, 5)
    for number in range(20_000):
        place = ItemPart((place,), number % 3)
    assert 0 <= StageSeeds(0, "augment").of(place) < 2**64


def test_threads_share_one() -> None:
    """More epochs at once than are kept: each gets its own seeds."""
    seeds = StageSeeds(3, "augment")
    expected = {
        (epoch, position): StageSeeds(3, "augment").at(epoch, position) for epoch in range(100) for position in (0, 9)
    }
    wrong: list[Any] = []

    def ask(start: int) -> None:
        for epoch in (*range(start, 100), *range(start)):
            wrong.extend(place for place in ((epoch, 0), (epoch, 9)) if seeds.at(*place) != expected[place])

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(0, 100, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert repr(seeds) == "StageSeeds(3, 'augment')"


@pytest.mark.parametrize("epoch", [-1, 2**64, 2**64 - 1, 10**30])
def test_epochs_may_be_any_number(epoch: int) -> None:
    """Also those that 64 bits do not hold."""
    seeds = StageSeeds(0, "augment")
    assert seeds.at(epoch, 0) != seeds.at(0, 0)
    assert seeds.at(epoch, 0) == StageSeeds(0, "augment").at(epoch, 0)
