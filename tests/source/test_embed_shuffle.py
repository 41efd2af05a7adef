"""``embed_shuffle``: when it shuffles, with which epoch, and what its result can do."""

import copy
import gc
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.source import DistributedKeyedSampler, DistributedRandomSampler, SizedIterable
from spdl.source.utils import embed_shuffle
from tests.strategies.profiles import cases


class Stream:
    """A source without a length that notes what is asked of it."""

    def __init__(self, size: int = 3) -> None:
        self.size = size
        self.seed = -1
        self.calls: list[object] = []

    def shuffle(self, seed: int) -> None:
        self.seed = seed
        self.calls.append(f"shuffle {seed}")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self.calls.append("iterate")
        for place in range(self.size):
            yield self.seed, place


class Listed(Stream):
    """The same with a length."""

    def __len__(self) -> int:
        return self.size


@cases(50)
@given(
    lengths=st.lists(st.none() | st.integers(0, 4), max_size=6),
    shuffle_last=st.booleans(),
    epoch=st.integers(-3, 10),
)
def test_every_iteration_has_the_next_epoch(lengths: list[int | None], shuffle_last: bool, epoch: int) -> None:
    """One shuffle per iteration, read to its end, left early, or never begun (which does not count)."""
    src = Stream()
    source = embed_shuffle(src, shuffle_last=shuffle_last, epoch=epoch)
    expected: list[object] = []
    for length in lengths:
        iterator = iter(source)
        for _ in range(4 if length is None else length):
            next(iterator, None)
        del iterator
        if length != 0:
            expected += ["iterate", f"shuffle {epoch}"] if shuffle_last else [f"shuffle {epoch}", "iterate"]
            epoch += 1
    assert src.calls == expected


def test_shuffle_is_at_the_first_next() -> None:
    """``iter()`` alone does nothing."""
    src = Stream()
    iterator = iter(embed_shuffle(src))
    assert src.calls == []
    assert next(iterator) == (0, 0)


def test_break_shuffles_for_the_next_iteration() -> None:
    """With ``shuffle_last``, an iteration that is left early shuffles when its iterator goes."""
    src = Stream()
    source = embed_shuffle(src, shuffle_last=True, epoch=5)
    for _ in source:
        break
    gc.collect()
    assert src.calls == ["iterate", "shuffle 5"]
    assert list(source) == [(5, 0), (5, 1), (5, 2)]
    iterator = iter(source)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert src.calls[-1] == "shuffle 7"


def test_an_iterator_that_is_lost_in_a_cycle_shuffles() -> None:
    """Also when only the garbage collector finds it."""
    src = Stream()
    holder: list[Any] = [iter(embed_shuffle(src, shuffle_last=True))]
    holder.append(holder)
    next(holder[0])
    del holder
    gc.collect()
    assert src.calls == ["iterate", "shuffle 0"]


def test_failing_source_is_shuffled_as_well() -> None:
    """With ``shuffle_last``, the source's own exception comes out, and the next iteration has the next epoch."""

    class Failing(Stream):
        def __iter__(self) -> Iterator[tuple[int, int]]:
            yield from super().__iter__()
            raise OSError("gone")

    src = Failing()
    with pytest.raises(OSError, match="gone"):
        list(embed_shuffle(src, shuffle_last=True))
    assert src.calls == ["iterate", "shuffle 0"]


def test_failing_shuffle_is_tried_again() -> None:
    """An epoch counts when its shuffle has worked."""

    class Failing(Stream):
        fails = True

        def shuffle(self, seed: int) -> None:
            if self.fails:
                raise OSError("gone")
            super().shuffle(seed)

    src = Failing()
    source = embed_shuffle(src)
    with pytest.raises(OSError, match="gone"):
        list(source)
    src.fails = False
    assert next(iter(source)) == (0, 0)


def test_length_is_that_of_the_source() -> None:
    """Only if the source has one; without, the result is not sized either."""
    listed, stream = embed_shuffle(Listed(7)), embed_shuffle(Stream())
    assert len(listed) == 7
    assert isinstance(listed, SizedIterable)
    assert not isinstance(stream, SizedIterable)
    with pytest.raises(TypeError):
        len(stream)  # type: ignore[arg-type]  # that is the point
    assert len(list(stream)) == 3


def test_sequences_of_the_old_kind_have_their_length() -> None:
    """A source that is iterated over by ``__getitem__`` alone."""

    class Indexed:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, place: int) -> int:
            return [10, 11][place]

        def shuffle(self, seed: int) -> None:
            pass

    src: Any = Indexed()
    assert len(embed_shuffle(src)) == 2
    assert list(embed_shuffle(src)) == [10, 11]


@pytest.mark.parametrize("shuffle_last", [False, True])
def test_copy_goes_on_with_the_epoch(shuffle_last: bool) -> None:
    """Pickled in the middle of use, the copy has its own source and counts on from there."""
    source = embed_shuffle(Listed(), shuffle_last=shuffle_last, epoch=4)
    list(source)
    clone = pickle.loads(pickle.dumps(source))
    assert clone.src is not source.src
    assert list(clone) == list(copy.deepcopy(source)) == list(source)
    assert list(clone) == list(source)
    assert repr(clone).startswith("embed_shuffle(")


@pytest.mark.parametrize("sampler", [DistributedRandomSampler, DistributedKeyedSampler])
def test_samplers_have_another_order_each_time(sampler: Any) -> None:
    """The epoch is the seed of a sampler."""
    src = sampler(50, rank=0, world_size=1)
    source = embed_shuffle(src, epoch=3)
    orders = [list(source) for _ in range(3)]
    assert orders == [list(sampler(50, rank=0, world_size=1, seed=seed)) for seed in (3, 4, 5)]
    assert source.src is src


def test_wrong_arguments_are_refused() -> None:
    """At once, not when it is iterated."""
    with pytest.raises(TypeError, match=r"src must have a method shuffle\(seed\), got an object of type list"):
        embed_shuffle([1, 2])  # type: ignore[call-overload]  # that is the point
    wrong: Any
    for wrong in (True, 1.0, "1"):
        with pytest.raises(TypeError, match="epoch must be an int"):
            embed_shuffle(Stream(), epoch=wrong)
    of_numpy: Any = np.int64(2)
    assert next(iter(embed_shuffle(Stream(), epoch=of_numpy))) == (2, 0)
