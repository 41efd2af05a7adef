"""States of sources: an iteration that goes on gives what it would have given."""

import copy
import json
import pickle
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.resume import ResumeError
from spdl.source import DistributedDeterministicSampler, DistributedKeyedSampler, DistributedRandomSampler
from spdl.source.utils import MergeIterator, embed_shuffle, repeat_source
from tests.strategies.profiles import cases

SAMPLERS: list[Any] = [DistributedDeterministicSampler, DistributedRandomSampler, DistributedKeyedSampler]
RANDOM: list[Any] = [DistributedRandomSampler, DistributedKeyedSampler]


def quiet(sampler: Any, n: int, **options: Any) -> Any:
    """A sampler made without its warning of what is dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sampler(n, **options)


def saved(source: Any) -> Any:
    """The state of a source, as it comes back from a file."""
    return json.loads(json.dumps(source.state_dict()))


class Lines:
    """A source that cannot be indexed, has no state, and can be shuffled."""

    def __init__(self, count: int) -> None:
        self.lines = list(range(count))

    def __iter__(self) -> Iterator[int]:
        return iter(self.lines)

    def shuffle(self, seed: int) -> None:
        self.lines = [(line * 7 + seed) % len(self.lines) for line in range(len(self.lines))]


@pytest.mark.parametrize("sampler", SAMPLERS)
@cases(60)
@given(data=st.data(), n=st.integers(1, 80), world_size=st.integers(1, 5), drops=st.booleans())
def test_samplers_are_indexed(sampler: Any, data: st.DataObject, n: int, world_size: int, drops: bool) -> None:
    """By local and by global positions, which are those of the iteration of all ranks."""
    n = max(n, world_size)
    options = {"world_size": world_size, "ddp_drop_last_distributed_round": drops}
    ranks = [quiet(sampler, n, rank=rank, **options) for rank in range(world_size)]
    own = ranks[data.draw(st.integers(0, world_size - 1))]
    items = list(own)
    assert [own[position] for position in range(-len(own), len(own))] == items + items
    part = data.draw(st.slices(len(own)))
    assert list(own[part]) == items[part]
    whole = {own.global_position(position): own[position] for position in range(len(own))}
    for rank in ranks:
        assert (rank.world_size, rank.drop_last) == (world_size, drops)
        assert [rank.global_position(position) for position in range(len(rank))] == [
            rank.rank + world_size * position for position in range(len(rank))
        ]
        for position, item in whole.items():
            assert rank.at_global(position) == item
    everything = sorted(own.at_global(position) for position in range(own.num_global))
    assert everything == sorted(set(everything))
    if sampler is not DistributedRandomSampler:  # which draws only what is not dropped
        assert everything == list(range(n))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_positions_have_limits(sampler: Any) -> None:
    """Those of the rank, and those of all."""
    made = quiet(sampler, 10, rank=1, world_size=4)
    for bad in (2, -3):
        with pytest.raises(IndexError, match=f"position {bad} is out of range for 2 items of this rank"):
            made[bad]
    with pytest.raises(IndexError, match=r"out of range for [0-9]+ items of all ranks"):
        made.at_global(10)


def test_any_position_of_a_billion_is_near() -> None:
    """An item in the middle is computed from its position, and so is the rest of the epoch."""
    sampler = DistributedKeyedSampler(10**9, rank=3, world_size=8, seed=1)
    middle = 5 * 10**8 // 8
    sampler.load_state_dict({**sampler.state_dict(), "position": middle})
    assert list(islice(sampler, 3)) == [sampler[middle], sampler[middle + 1], sampler[middle + 2]]
    assert sampler[middle] == sampler.at_global(3 + 8 * middle)


def continued(make: Callable[[], Any], taken: int, total: int) -> list[Any]:
    """What a new source gives that goes on from the state of one that has given some items."""
    first = make()
    iterator = iter(first)
    for _ in range(taken):
        next(iterator)
    state = saved(first)
    assert saved(first) == state
    second = make()
    second.load_state_dict(state)
    assert saved(second) == state, "a state that is loaded is the state"
    second.load_state_dict(saved(second))
    return list(islice(second, total - taken))


MERGED: dict[str, Callable[[], Any]] = {
    "round-robin": lambda: MergeIterator([range(7), iter(range(100, 103)), Lines(5)]),
    "first exhausted": lambda: MergeIterator([range(7), Lines(3), range(9)], stop_after=-1),
    "limited": lambda: MergeIterator([range(7), Lines(9)], stop_after=11),
    "weights": lambda: MergeIterator([range(30), Lines(9), range(50, 90)], weights=[1, 3, 0.5], seed=4),
    "weights, limited": lambda: MergeIterator([range(30), Lines(9)], weights=[1, 3], stop_after=20),
    "samplers": lambda: MergeIterator(
        [DistributedKeyedSampler(9, seed=2), DistributedRandomSampler(8, rank=1, world_size=2)], weights=[2, 1]
    ),
    "one twice": lambda: MergeIterator([DistributedKeyedSampler(5)] * 2),
    "nested": lambda: MergeIterator([MergeIterator([range(4), range(9)]), range(3)]),
    "shuffled": lambda: MergeIterator([embed_shuffle(Lines(5)), repeat_source([1, 2, 3])], stop_after=20),
}
SOURCES: dict[str, Callable[[], Any]] = {
    **{sampler.__name__: partial(sampler, 40, rank=1, world_size=2) for sampler in SAMPLERS},
    "embed_shuffle": lambda: embed_shuffle(Lines(12), epoch=3),
    "embed_shuffle, last": lambda: embed_shuffle(Lines(12), epoch=3, shuffle_last=True),
    "embed_shuffle, sampler": lambda: embed_shuffle(DistributedRandomSampler(12, rank=0, world_size=1)),
    "repeat_source": lambda: repeat_source(Lines(5), epoch=2),
    "repeat_source, list": lambda: repeat_source([1, 2, 3]),
    "repeat_source, sampler": lambda: repeat_source(DistributedKeyedSampler(6)),
    **MERGED,
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources_go_on_from_every_item(name: str) -> None:
    """With exactly the items that are left: none after the last, before the end was seen."""
    make = SOURCES[name]
    expected = list(islice(make(), 40))
    for taken in range(len(expected) + 1):
        assert continued(make, taken, len(expected)) == expected[taken:], taken


#: Those that end, and of which no part is an iterator: they can be iterated over again.
AGAIN = [name for name in SOURCES if not name.startswith("repeat") and name not in ("round-robin", "shuffled")]


@pytest.mark.parametrize("name", AGAIN)
def test_the_iteration_after_a_continued_one_is_whole(name: str) -> None:
    """As the second of a source that was never stopped."""
    first = SOURCES[name]()
    whole = [list(first), list(first)]
    again = SOURCES[name]()
    iterator = iter(again)
    next(iterator)
    second = SOURCES[name]()
    second.load_state_dict(saved(again))
    assert [list(second), list(second)] == [whole[0][1:], whole[1]]


@pytest.mark.parametrize("name", AGAIN)
def test_the_state_after_the_end_is_that_of_the_next_iteration(name: str) -> None:
    """Except of samplers, whose next iteration somebody else chooses: there, nothing is left of this one."""
    first, second = SOURCES[name](), SOURCES[name]()
    list(first)
    second.load_state_dict(saved(first))
    if "Sampler" in name:
        assert list(second) == []
        assert list(second) == list(first)
    else:
        assert list(second) == list(first)


@pytest.mark.parametrize("sampler", RANDOM)
def test_a_loaded_position_is_of_its_order(sampler: Any) -> None:
    """Choosing the same seed or epoch keeps it, choosing another one begins at the start."""
    made = sampler(20, rank=0, world_size=1, seed=3)
    items = list(made)
    state = {**made.state_dict(), "position": 15}
    for choose, rest in (((3,), items[15:]), ((4,), None), ((), items[15:])):
        other = sampler(20, rank=0, world_size=1, seed=9)
        other.load_state_dict(state)
        for seed in choose:
            other.shuffle(seed=seed)
        assert list(other) == (rest or list(sampler(20, rank=0, world_size=1, seed=4)))
        assert len(list(other)) == len(other) == 20
    keyed = DistributedKeyedSampler(20)
    keyed.load_state_dict({**keyed.state_dict(), "epoch": 5, "position": 15})
    keyed.set_epoch(5)
    assert len(list(copy.deepcopy(keyed))) == 5
    keyed.set_epoch(6)
    assert len(list(keyed)) == 20


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_state_fits_other_ranks(sampler: Any) -> None:
    """Of the same world, since all have taken as many; of another one, where what all have taken divides."""
    old = [quiet(sampler, 24, rank=rank, world_size=4) for rank in range(4)]
    iterator = iter(old[0])
    taken = {next(iterator) for _ in range(3)} | {rank[place] for rank in old[1:] for place in range(3)}
    state = saved(old[0])
    assert len(taken) == 12
    for world in (4, 3, 2, 1):
        rest = []
        for rank in range(world):
            made = quiet(sampler, 24, rank=rank, world_size=world)
            made.load_state_dict(state)
            rest += list(made)
        assert sorted([*taken, *rest]) == list(range(24))
    with pytest.raises(ResumeError, match="4 ranks had taken 12 items, which do not divide among 8"):
        quiet(sampler, 24, rank=0, world_size=8).load_state_dict(state)


@pytest.mark.parametrize("name", SOURCES)
def test_other_states_are_refused(name: str) -> None:
    """And nothing is changed."""
    source = SOURCES[name]()
    before = saved(source)
    kind = before["kind"]
    for state, message in (
        (None, f"cannot load a state into {kind}: a state is a dictionary .*, got an object of type NoneType"),
        ({}, f"cannot load a state into {kind}: it is the state of something else"),
        ({"kind": "spam"}, "it is the state of spam"),
        ({**before, "version": 2}, "it has version 2, and this release of SPDL reads version 1"),
    ):
        with pytest.raises(ResumeError, match=message):
            source.load_state_dict(state)
    for key in ("position", "epoch", "seed", "world_size", "order"):
        if key in before:
            for bad in ("1", True, 1.5):
                with pytest.raises(ResumeError, match=f"{key}"):
                    source.load_state_dict({**before, key: bad})
    assert saved(source) == before


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ("DistributedKeyedSampler", lambda: DistributedKeyedSampler(41), "num_global was 40 and is 41"),
        ("round-robin", lambda: MergeIterator([[1], [2]]), "iterables was 3 and is 2"),
        (
            "weights",
            lambda: MergeIterator([[1], [2], [3]], weights=[1, 3, 1], seed=4),
            r"weights was \[2, 6, 1\] and is \[1, 3, 1\]",
        ),
        ("limited", lambda: MergeIterator([[1], [2]], stop_after=12), "stop_after was 11 and is 12"),
        ("weights, limited", lambda: MergeIterator([[1], [2]], weights=[1, 3], stop_after=20, seed=1), "seed was 0"),
    ],
)
def test_states_of_other_arguments_are_refused(one: str, other: Callable[[], Any], message: str) -> None:
    """With the argument that differs."""
    with pytest.raises(ResumeError, match=message):
        other().load_state_dict(saved(SOURCES[one]()))


def test_positions_behind_the_end_are_refused() -> None:
    """Where they are known, when the state is loaded; else when the source turns out to be shorter."""
    sampler = DistributedKeyedSampler(4)
    with pytest.raises(ResumeError, match="it is at position 5, and there are 4 items"):
        sampler.load_state_dict({**sampler.state_dict(), "position": 5})
    for source in ([1, 2, 3], Lines(3)):
        repeated = repeat_source(source)
        repeated.load_state_dict({**repeated.state_dict(), "position": 4})
        with pytest.raises(ResumeError, match=r"cannot resume at item 4 of a source of type .*: it has only 3 items"):
            next(repeated)
        merged = MergeIterator([source])
        iterator = iter(merged)
        next(iterator)
        state = saved(merged)
        state["progress"]["taken"] = [[4, None]]
        merged.load_state_dict(state)
        with pytest.raises(ResumeError, match="it has only 3 items"):
            iter(merged)


@pytest.mark.parametrize(
    "change", [{"alive": [3]}, {"turn": -1}, {"taken": []}, {"taken": 3}, {"draw": "x"}, {"draw": 1}]
)
def test_damaged_progress_is_refused(change: dict[str, Any]) -> None:
    """Of a merge, when it is loaded."""
    merged = SOURCES["weights"]()
    next(iter(merged))
    state = saved(merged)
    merged.load_state_dict(state)
    with pytest.raises(ResumeError, match="its 'progress' is damaged"):
        merged.load_state_dict({**state, "progress": {**state["progress"], **change}})


def test_state_of_a_part_needs_the_part() -> None:
    """The state of a sampler cannot be loaded by a list."""
    merged = MergeIterator([DistributedKeyedSampler(5)])
    next(iter(merged))
    other = MergeIterator([[1, 2, 3]])
    other.load_state_dict(saved(merged))
    with pytest.raises(ResumeError, match=r"of type list: the state belongs to a source that has state_dict\(\)"):
        iter(other)


@pytest.mark.parametrize("name", AGAIN)
def test_copies_in_use_begin_at_the_start(name: str) -> None:
    """Pickling and copying are not states."""
    source = SOURCES[name]()
    expected = list(SOURCES[name]()) if "embed" not in name else None
    iterator = iter(source)
    next(iterator)
    for clone in (pickle.loads(pickle.dumps(source)), copy.deepcopy(source)):
        items = list(clone)
        assert items == expected if expected is not None else len(items) == 12


def test_an_iteration_left_early_is_over() -> None:
    """The next one of embed_shuffle is of the next epoch; so says the state."""
    source = embed_shuffle(Lines(12))
    for _ in source:
        break
    state = saved(source)
    assert (state["epoch"], state["position"]) == (1, None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning:torchdata", "ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_go_on_within_torchdata(sampler: Any) -> None:
    """Its ``StatefulDataLoader`` asks a sampler for its state, and goes on behind the batches that were taken."""
    module = pytest.importorskip("torchdata.stateful_dataloader")

    def make() -> Any:
        return module.StatefulDataLoader(range(100, 140), batch_size=4, sampler=sampler(40, rank=0, world_size=1))

    expected = [batch.tolist() for batch in make()]
    for taken in (0, 1, 9, 10):
        first, second = make(), make()
        batches = [batch.tolist() for batch in islice(first, taken)]
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert batches + [batch.tolist() for batch in second] == expected
