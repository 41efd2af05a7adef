"""``repeat_source``: epochs without an end, and what it refuses."""

import copy
import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import DistributedKeyedSampler
from spdl.source.utils import embed_shuffle, repeat_source
from tests.strategies.profiles import cases


@cases(50)
@given(items=st.lists(st.integers(), min_size=1, max_size=5), count=st.integers(0, 20))
def test_it_repeats(items: list[int], count: int) -> None:
    """The items in order, then again."""
    assert list(itertools.islice(repeat_source(items), count)) == list(itertools.islice(itertools.cycle(items), count))


@pytest.mark.parametrize("epoch", [0, 5, -1])
def test_each_epoch_is_shuffled_with_its_number(epoch: int) -> None:
    """The first seed is the given epoch."""
    expected = [index for seed in range(3) for index in DistributedKeyedSampler(9, seed=epoch + seed)]
    repeated = repeat_source(DistributedKeyedSampler(9, seed=77), epoch)
    assert list(itertools.islice(repeated, 27)) == expected
    assert list(itertools.islice(repeat_source(DistributedKeyedSampler(9), epoch=epoch), 27)) == expected


def test_epoch_begins_when_it_is_wanted() -> None:
    """Nothing is shuffled or read before the first ``next``, nor the next epoch before the last item is taken."""
    calls: list[object] = []

    class Source:
        def shuffle(self, seed: int) -> None:
            calls.append(seed)

        def __iter__(self) -> Iterator[int]:
            return iter([10, 11])

    repeated = repeat_source(Source())
    assert iter(repeated) is repeated
    assert calls == []
    assert [next(repeated), next(repeated)] == [10, 11]
    assert calls == [0]
    assert next(repeated) == 10
    assert calls == [0, 1]


def test_source_that_shuffles_itself_keeps_its_epochs() -> None:
    """``embed_shuffle`` counts by itself."""
    repeated = repeat_source(embed_shuffle(DistributedKeyedSampler(9), epoch=5), 100)
    assert list(itertools.islice(repeated, 9, 18)) == list(DistributedKeyedSampler(9, seed=6))


@pytest.mark.parametrize("items", [[], (), {}, range(0)])
def test_empty_source_is_an_error(items: Any) -> None:
    """It would be a loop without end or output."""
    with pytest.raises(RuntimeError, match="epoch 3 gave no item"):
        next(repeat_source(items, 3))


def test_source_that_can_be_read_once_is_an_error() -> None:
    """A generator gives its items, and then the message says why no more come."""
    repeated = repeat_source(number for number in range(3))
    assert list(itertools.islice(repeated, 3)) == [0, 1, 2]
    with pytest.raises(RuntimeError, match=r"of type generator: epoch 1 gave no item.*iterated over only once"):
        next(repeated)
    assert next(repeated, "over") == "over"


def test_failure_of_the_source_comes_out() -> None:
    """Unchanged, at the item where it happened."""

    def failing() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    repeated = repeat_source(failing())
    assert next(repeated) == 1
    with pytest.raises(OSError, match="gone"):
        next(repeated)


def test_it_pickles_until_it_begins() -> None:
    """Then it goes to another process as it is; after the first ``next``, its place in the source would be lost."""
    repeated = repeat_source(DistributedKeyedSampler(5), 2)
    clones = [pickle.loads(pickle.dumps(repeated)), copy.deepcopy(repeated)]
    expected = list(itertools.islice(repeated, 8))
    for clone in clones:
        assert list(itertools.islice(clone, 8)) == expected
        with pytest.raises(ValueError, match="cannot pickle an iterator of repeat_source that has begun"):
            pickle.dumps(clone)


@pytest.mark.parametrize("epoch", [True, 1.0, None])
def test_epoch_is_a_whole_number(epoch: Any) -> None:
    """What is none is refused at once."""
    with pytest.raises(TypeError, match="epoch must be an int"):
        repeat_source([1], epoch)
