"""``ShuffleBuffer``: each item once, how far items move, and states."""

import copy
import itertools
import json
import math
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.resume import ResumeError
from spdl.source import DistributedKeyedSampler, ShuffleBuffer
from tests.strategies.profiles import cases


class Stateful:
    """Numbers, with a state; counts how many were read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.epoch = 0
        self.at = self.start = self.num_read = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self.at, self.start = self.start, 0
        while self.at < self.count:
            self.at += 1
            self.num_read += 1
            yield self.at - 1

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.start = state["at"]


@cases(200)
@given(count=st.integers(0, 100), size=st.integers(1, 30), seed=st.integers(), epoch=st.integers())
def test_each_item_comes_once_and_not_far_ahead(count: int, size: int, seed: int, epoch: int) -> None:
    """At most ``size`` places too early; the same again, and of an equal buffer."""
    buffer = ShuffleBuffer(range(count), size, seed=seed, epoch=epoch)
    items = list(buffer)
    assert sorted(items) == list(range(count))
    assert all(item - place <= size for place, item in enumerate(items))
    assert list(buffer) == list(ShuffleBuffer(range(count), size, seed=seed, epoch=epoch)) == items


@cases(200)
@given(
    count=st.integers(0, 120),
    size=st.integers(1, 20),
    taken=st.lists(st.integers(0, 60), min_size=1, max_size=3),
    has_state=st.booleans(),
)
def test_states_go_on_exactly(count: int, size: int, taken: list[int], has_state: bool) -> None:
    """One after the other, at any place, from sources with a state and without."""

    def make() -> ShuffleBuffer[int]:
        return ShuffleBuffer(Stateful(count) if has_state else range(count), size, seed=1)

    expected, found, buffer = list(make()), list[int](), make()
    for number in taken:
        found += list(itertools.islice(buffer, number))
        state = json.loads(json.dumps(buffer.state_dict()))
        assert buffer.state_dict() == state
        buffer = make()
        buffer.load_state_dict(state)
        assert buffer.state_dict() == state
    assert found + list(buffer) == expected
    assert list(buffer) == expected, "only the next iteration goes on from a state"


def test_little_is_read_again() -> None:
    """Going on reads from the state that the source had before the oldest item of the buffer, not from the start."""
    source = Stateful(100_000)
    buffer = ShuffleBuffer(source, 50, seed=0)
    next(itertools.islice(buffer, 90_000, None))
    state = buffer.state_dict()
    again = Stateful(100_000)
    other = ShuffleBuffer(again, 50)
    other.load_state_dict(state)
    next(iter(other))
    assert again.num_read < 2000
    assert len(json.dumps(state)) < 300


def test_items_are_mixed() -> None:
    """The first item that comes is each of the buffer's equally often: chi-square."""
    tries, size = 4000, 20
    counts = Counter(next(iter(ShuffleBuffer(range(100), size, seed=seed))) for seed in range(tries))
    value = sum((counts[item] - tries / size) ** 2 / (tries / size) for item in range(size))
    assert value < size - 1 + 5 * math.sqrt(2 * (size - 1))
    assert sum(counts.values()) == tries


def test_numbers_are_golden() -> None:
    """The same on every machine and in every release."""
    assert list(ShuffleBuffer(range(12), 4, seed=1)) == [2, 3, 1, 4, 0, 5, 7, 8, 10, 9, 6, 11]


def test_epochs_have_other_orders() -> None:
    """And the source is told, on loading a state too."""
    source = Stateful(50)
    buffer = ShuffleBuffer(source, 10, seed=3)
    first = list(buffer)
    buffer.set_epoch(2)
    assert list(buffer) != first
    assert (buffer.epoch, buffer.seed, buffer.size, source.epoch) == (2, 3, 10, 2)
    other = Stateful(50)
    ShuffleBuffer(other, 10).load_state_dict(buffer.state_dict())
    assert other.epoch == 2


def test_copies_begin_at_the_start() -> None:
    """Pickled and copied, also in the middle of an iteration."""
    buffer = ShuffleBuffer(range(30), 7)
    items = list(buffer)
    next(iter(buffer))
    assert list(pickle.loads(pickle.dumps(buffer))) == list(copy.copy(buffer)) == items


def test_the_share_is_that_of_the_source() -> None:
    """What knows its rank says it."""
    buffer = ShuffleBuffer(DistributedKeyedSampler(20, rank=1, world_size=2), 4)
    assert (buffer.rank, buffer.world_size) == (1, 2)
    assert not hasattr(ShuffleBuffer([1], 4), "rank")


def test_wrong_arguments_and_states_are_refused() -> None:
    """By name, with what is accepted."""
    with pytest.raises(ValueError, match="size must be >= 1, got 0"):
        ShuffleBuffer([1], 0)
    with pytest.raises(TypeError, match="seed must be an int"):
        ShuffleBuffer([1], 1, seed=0.5)  # type: ignore[arg-type]
    state = ShuffleBuffer([1, 2], 2).state_dict()
    with pytest.raises(ResumeError, match="size was 2 and is 3"):
        ShuffleBuffer([1], 3).load_state_dict(state)
    shorter = ShuffleBuffer([1], 2)
    shorter.load_state_dict({**state, "read": 2})
    with pytest.raises(ResumeError, match="has only 1 items, and 2 had been read"):
        list(shorter)
