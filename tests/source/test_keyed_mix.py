"""``KeyedMix``: proportions, ends, and items that are found from their positions and back."""

import copy
import json
import math
import pickle
import threading
from collections import Counter
from itertools import chain, islice, pairwise
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.resume import ResumeError
from spdl.source import DistributedKeyedSampler, KeyedMix, KeyedPermutation, SizedIterableWithShuffle
from spdl.source._mixture import MixedPosition
from tests.strategies.profiles import cases


def labelled(sizes: list[int]) -> list[list[tuple[int, int]]]:
    """Lists of these lengths, of which each item says where it is from."""
    return [[(source, item) for item in range(size)] for source, size in enumerate(sizes)]


SOURCES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 6)), min_size=1, max_size=4)


@cases(200)
@given(sources=SOURCES, shuffle=st.booleans(), seed=st.integers(), epoch=st.integers())
def test_every_block_has_the_proportions(sources: list[tuple[int, int]], shuffle: bool, seed: int, epoch: int) -> None:
    """Exactly, over blocks of the sum of the weights; no item comes twice before all of its source have come."""
    sizes, weights = [max(pair) for pair in sources], [weight for _, weight in sources]
    options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "epoch": epoch}
    for at_end in ("stop", "repeat"):
        mix = KeyedMix(labelled(sizes), weights, at_end=at_end, **options)
        items, block = list(mix), sum(weights)
        assert len(items) == len(mix) == mix.num_global
        for start in range(0, len(items), block):
            counts = Counter(source for source, _ in items[start : start + block])
            assert counts == dict(enumerate(weights))
        for source, size in enumerate(sizes):
            own = sorted(
                (mix.locate(position).pass_number, item)
                for position, (from_, item) in enumerate(items)
                if from_ == source
            )
            passes = [[item for number, item in own if number == each] for each in range(own[-1][0] + 1)]
            assert all(items == list(range(size)) for items in passes[:-1])
            assert len(set(passes[-1])) == len(passes[-1])
            if at_end == "stop":
                assert len(passes) == 1


@cases(200)
@given(sources=SOURCES, at_end=st.sampled_from(["stop", "repeat"]), shuffle=st.booleans(), seed=st.integers())
def test_positions_and_items_are_found_from_each_other(
    sources: list[tuple[int, int]], at_end: Literal["stop", "repeat"], shuffle: bool, seed: int
) -> None:
    """Each position has one item, each item one position in each pass."""
    sizes, weights = [max(pair) for pair in sources], [weight for _, weight in sources]
    mix = KeyedMix(labelled(sizes), weights, at_end=at_end, shuffle=shuffle, seed=seed)
    for position, item in enumerate(mix):
        found = mix.locate(position)
        assert (found.source, found.item) == item == mix[position] == mix.at_global(position)
        assert mix.position_of(*found) == position


def test_numbers_are_golden() -> None:
    """They are part of the contract: the same on every machine and in every release."""
    mix = KeyedMix([range(100), range(1000, 1010), range(2000, 2100)], [5, 1, 2], at_end="stop", seed=1)
    assert len(mix) == 80
    assert list(mix)[:16] == [2030, 1007, 2011, 12, 3, 69, 83, 52, 1, 2070, 74, 2077, 30, 53, 1004, 76]
    large = KeyedMix([range(10**9), range(10**8)], [7, 3], at_end="repeat", seed=1)
    assert len(large) == 1_428_571_430
    assert [large[position] for position in (0, 1, 2, 5 * 10**8, -1)] == [
        708292482,
        4156687,
        35364103,
        625960069,
        430419053,
    ]
    assert large.locate(5 * 10**8) == MixedPosition(0, 625960069, 0)
    assert large.locate(5 * 10**8 + 3) == MixedPosition(1, 82365573, 1)
    assert large.locate(len(large) - 2) == MixedPosition(0, 167557856, 0)


def test_order_is_what_the_algorithm_says() -> None:
    """By the permutations that the docstring names."""
    sizes, weights, key = [50, 2000], [3, 2], (7, 4)
    mix = KeyedMix(labelled(sizes), weights, at_end="repeat", seed=7, epoch=4)
    for position in range(0, len(mix), 7):
        block, place = divmod(position, 5)
        value = KeyedPermutation(5, (*key, -1, block))[place]
        source, number = (0, value) if value < 3 else (1, value - 3)
        pass_number, at = divmod(block * weights[source] + number, sizes[source])
        assert mix[position] == (source, KeyedPermutation(sizes[source], (*key, source, pass_number))[at])


@pytest.mark.parametrize("position", [0, 5 * 10**8])
def test_any_position_of_a_billion_is_near(position: int) -> None:
    """The first item there reads one item of one source, and nothing else."""
    read = []

    class Recorded:
        def __len__(self) -> int:
            return 10**9

        def __getitem__(self, index: int) -> int:
            read.append(index)
            return index

    mix: KeyedMix[int] = KeyedMix([Recorded(), Recorded()], [1, 1], at_end="stop", rank=1, world_size=2)
    mix.load_state_dict({**mix.state_dict(), "position": position})
    assert next(iter(mix)) == mix[position]
    assert len(read) == 2


def test_items_look_drawn_at_random() -> None:
    """Sources at each place, pairs of neighbours, and items at the first position, over many keys: chi-square."""
    weights, tries = [3, 1, 2], 3000
    places: list[Counter[int]] = [Counter() for _ in range(6)]
    pairs: Counter[tuple[int, int]] = Counter()
    items: Counter[int] = Counter()
    for seed in range(tries // 10):
        mix = KeyedMix(labelled([60, 20, 40]), weights, at_end="stop", seed=seed)
        sources = [source for source, _ in mix]
        for block in range(0, 60, 6):
            for place, source in enumerate(sources[block : block + 6]):
                places[place][source] += 1
            pairs.update(pairwise(sources[block : block + 6]))
        items.update(item for source, item in islice(mix, 20) if source == 0)
    for counts in places:
        check(counts, {source: weight / 6 for source, weight in enumerate(weights)})
    chances = {
        (one, other): weights[one] * (weights[other] - (one == other)) / 30 for one in range(3) for other in range(3)
    }
    check(pairs, chances)
    check(items, dict.fromkeys(range(60), 1 / 60))


def check(counts: Counter[Any], chances: dict[Any, float]) -> None:
    """Within five standard deviations of the chi-square distribution; what has no chance does not come."""
    total = counts.total()
    possible = {key: chance for key, chance in chances.items() if chance}
    assert set(counts) <= set(possible)
    value = sum((counts[key] - total * chance) ** 2 / (total * chance) for key, chance in possible.items())
    freedom = len(possible) - 1
    assert value < freedom + 5 * math.sqrt(2 * freedom)


@cases(60)
@given(sources=SOURCES, world_size=st.integers(1, 5), drops=st.booleans(), data=st.data())
def test_ranks_deal_one_order(
    sources: list[tuple[int, int]], world_size: int, drops: bool, data: st.DataObject
) -> None:
    """As other samplers: every rank has every ``world_size``-th, and the order does not depend on them."""
    sizes, weights = [max(pair) for pair in sources], [weight for _, weight in sources]
    length = data.draw(st.integers(world_size, 100))
    made = [
        KeyedMix(
            labelled(sizes),
            weights,
            at_end="repeat",
            length=length,
            rank=rank,
            world_size=world_size,
            ddp_drop_last_distributed_round=drops,
        )
        for rank in range(world_size)
    ]
    whole = list(KeyedMix(labelled(sizes), weights, at_end="repeat", length=length))
    assert len(whole) == length
    stop = length - length % world_size if drops else length
    assert [list(rank) for rank in made] == [whole[rank:stop:world_size] for rank in range(world_size)]
    assert [made[0].at_global(position) for position in range(length)] == whole


def test_epochs_and_passes_have_other_orders() -> None:
    """Of blocks, and of the items of a source each time it begins again."""
    mix = KeyedMix([range(30), range(100, 160)], [1, 1], at_end="repeat")
    first = list(mix)
    passes = [[item for item in part if item < 100] for part in (first[:60], first[60:])]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(30))
    assert passes[0] != passes[1]
    mix.set_epoch(1)
    second = list(mix)
    assert first != second
    assert [item < 100 for item in first] != [item < 100 for item in second]
    mix.shuffle(seed=5)
    assert list(mix) not in (first, second)
    mix.shuffle(seed=0)
    mix.set_epoch(0)
    assert list(mix) == first
    assert (mix.seed, mix.epoch, mix.weights, mix.sources) == (0, 0, [1, 1], [range(30), range(100, 160)])


def test_an_iteration_keeps_its_epoch() -> None:
    """``set_epoch`` is for the iterations that begin after it."""
    mix = KeyedMix([range(30), range(100, 160)], [1, 1], at_end="stop")
    expected = list(mix)
    iterator = iter(mix)
    first = next(iterator)
    mix.set_epoch(1)
    assert [first, *iterator] == expected


def test_without_shuffle_sources_keep_their_order() -> None:
    """But for the order within a block."""
    mix = KeyedMix([range(12), range(100, 104)], [3, 1], at_end="stop", shuffle=False)
    blocks = [sorted(list(mix)[start : start + 4]) for start in range(0, 16, 4)]
    assert blocks == [[3 * block, 3 * block + 1, 3 * block + 2, 100 + block] for block in range(4)]


def test_sources_of_all_kinds_mix() -> None:
    """Whatever has a length and an index: text, permutations, samplers, other mixtures."""
    inner = KeyedMix(["ab", "cd"], [1, 1], at_end="stop")
    mix: KeyedMix[Any] = KeyedMix([inner, DistributedKeyedSampler(8), KeyedPermutation(4, 1)], [1, 2, 1], at_end="stop")
    assert sorted(map(str, mix)) == sorted([*map(str, range(8)), *map(str, range(4)), *"abcd"])
    assert isinstance(mix, SizedIterableWithShuffle)


def test_mixture_goes_on_from_every_item() -> None:
    """From its state, which fits other ranks too, and no other mixture."""

    def make(rank: int = 0, world_size: int = 1, weights: tuple[int, int] = (3, 1)) -> KeyedMix[int]:
        sources = [range(12), range(100, 104)]
        return KeyedMix(sources, weights, at_end="stop", seed=3, rank=rank, world_size=world_size)

    expected = list(make())
    for taken in range(17):
        mix, again = make(), make()
        list(islice(mix, taken))
        state = json.loads(json.dumps(mix.state_dict()))
        again.load_state_dict(state)
        assert again.state_dict() == state
        assert list(again) == expected[taken:]
        if taken % 2 == 0:
            ranks = [make(rank, 2) for rank in range(2)]
            for rank in ranks:
                rank.load_state_dict(state)
            assert list(chain.from_iterable(zip(*ranks, strict=True))) == expected[taken:]
    with pytest.raises(ResumeError, match=r"weights was \[3, 1\] and is \[6, 2\]"):
        make(weights=(6, 2)).load_state_dict(state)


def test_copies_give_the_same() -> None:
    """Also those made in the middle of an iteration."""
    mix = KeyedMix([range(30), range(100, 160)], [1, 1], at_end="stop", seed=4, epoch=2)
    next(iter(mix))
    for clone in (pickle.loads(pickle.dumps(mix)), copy.deepcopy(mix)):
        assert list(clone) == list(mix)
        assert repr(clone) == repr(mix)
    assert repr(mix) == (
        "KeyedMix(2 sources, weights=[1, 1], at_end='stop', rank=0, world_size=1, seed=4, epoch=2, total=60)"
    )


def test_threads_share_one() -> None:
    """Any number of them may ask for positions at once."""
    mix = KeyedMix([range(3000), range(10**6, 10**6 + 1000)], [3, 1], at_end="stop")
    expected = list(mix)
    wrong: list[int] = []

    def ask(start: int) -> None:
        wrong.extend(place for place in range(start, len(mix), 8) if mix[place] != expected[place])

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("sources", "weights", "options", "error", "message"),
    [
        ([], [], {}, ValueError, "sources must have at least one, got none"),
        ([[1]], [], {}, ValueError, "weights must be one for each of the 1 sources, got 0"),
        ([[1]], [0], {}, ValueError, "weights must be >= 1, got 0 for source 0"),
        ([[1]], [0.5], {}, TypeError, "weights must be an int, got 0.5"),
        ([[1]], [2**63], {}, ValueError, r"weights must have a sum <= 2\*\*63 - 1"),
        ([iter([1])], [1], {}, TypeError, "source 0 must have len.*MergeIterator"),
        ([[1], []], [1, 1], {}, ValueError, "source 1 must have items, got none"),
        (
            [[1, 2], [1]],
            [2, 2],
            {},
            ValueError,
            "source 1 must have as many items as its weight, 2, with at_end='stop'",
        ),
        ([[1]], [1], {"at_end": "again"}, ValueError, "at_end must be 'stop' or 'repeat', got 'again'"),
        ([[1]], [1], {"length": 3}, ValueError, "length must be None with at_end='stop'"),
        ([[1]], [1], {"at_end": "repeat", "length": 0}, ValueError, "length must be >= 1, got 0"),
        ([[1]], [1], {"at_end": "repeat", "length": 2**63}, ValueError, r"must be <= 2\*\*63 - 1"),
        ([[1]], [1], {"rank": 1}, ValueError, r"rank must be in range \[0, 1\), got 1"),
        ([[1]], [1], {"world_size": 2}, ValueError, "world_size must be <= the number of positions, got 2 for 1"),
        ([[1]], [1], {"seed": "1"}, TypeError, "seed must be an int, got '1'"),
    ],
)
def test_wrong_arguments_are_refused(
    sources: Any, weights: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The message names the argument, what is accepted and what was given."""
    with pytest.raises(error, match=message):
        KeyedMix(sources, weights, **{"at_end": "stop", **options})


def test_items_that_do_not_come_are_refused() -> None:
    """By their number, source or pass."""
    mix = KeyedMix([range(12), range(4)], [3, 1], at_end="stop")
    for arguments in ((0, 5, 1), (0, 5, -1)):
        with pytest.raises(ValueError, match="item 5 of source 0 does not come in pass"):
            mix.position_of(*arguments)
    with pytest.raises(IndexError, match="source 2 is out of range for 2 sources"):
        mix.position_of(2, 0)
    with pytest.raises(IndexError, match="item 4 is out of range for 4 items of source 1"):
        mix.position_of(1, 4)
    with pytest.raises(IndexError, match="position 16 is out of range for 16 items"):
        mix.locate(16)
