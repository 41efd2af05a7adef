"""Continuous sources that cannot be iterated again, and ``epochs=N``: nothing is read that nobody asked for."""

import io
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, build_pipeline, run_pipeline_in_subprocess
from spdl.pipeline.defs import Merge, PipelineConfig, SinkConfig, SourceConfig
from spdl.source import DistributedKeyedSampler
from tests.support.running import TIMEOUT


def epochs_of(pipeline: Pipeline[Any], number: int) -> list[list[Any]]:
    with pipeline.auto_stop():
        return [list(pipeline.get_iterator(timeout=TIMEOUT)) for _ in range(number)]


def limited(source: Any, number: Any, **options: Any) -> Pipeline[Any]:
    return PipelineBuilder().add_source(source, epochs=number).add_sink(3).build(**options)


async def give_async() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: (item for item in "ab"),
        lambda: map(str, "ab"),
        lambda: zip("ab", "cd", strict=True),
        lambda: filter(None, "ab"),
        lambda: enumerate("ab"),
        lambda: iter("ab"),
        lambda: iter([1]),
        lambda: iter({1: 2}),
        lambda: reversed([1]),
        lambda: iter(int, 1),
        lambda: itertools.islice("ab", 1),
        lambda: itertools.chain("ab"),
        lambda: itertools.repeat(1, 3),
        lambda: io.StringIO("a"),
        lambda: io.BytesIO(b"a"),
        give_async,
    ],
)
def test_an_iterator_of_python_is_refused_at_once(make: Callable[[], Any]) -> None:
    """All epochs after the first would be empty. For a single epoch it does."""
    arguments: Any
    for arguments in ({"continuous": True}, {"epochs": 2}):
        with pytest.raises(ValueError, match=r"can be iterated only once.*makes a new iterator for each"):
            PipelineBuilder().add_source(make(), **arguments)
        with pytest.raises(ValueError, match="can be iterated only once"):
            SourceConfig(make(), **arguments)
    PipelineBuilder().add_source(make())
    PipelineBuilder().add_source(make(), epochs=1)


def test_an_iterator_that_never_ends_is_a_source() -> None:
    """Its first epoch is all there is."""
    pipeline = PipelineBuilder().add_source(itertools.count(), continuous=True).add_sink().build()
    with pipeline.auto_stop():
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(3)] == [0, 1, 2]


class Once:
    """An iterator of a user: it cannot be seen whether ``iter`` begins anew."""

    def __init__(self) -> None:
        self.items = iter("ab")

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self.items)


class Again(Once):
    def __iter__(self) -> Iterator[str]:
        self.items = iter("ab")
        return self


class AsyncOnce:
    def __init__(self) -> None:
        self.items = iter("ab")

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        for item in self.items:
            return item
        raise StopAsyncIteration


@pytest.mark.parametrize("source", [Once, AsyncOnce])
@pytest.mark.parametrize("arguments", [{"continuous": True}, {"epochs": 2}, {"epochs": 7}], ids=str)
def test_an_iterator_that_is_exhausted_fails(source: Any, arguments: Any) -> None:
    """The second epoch of one of a user's class has nothing."""
    pipeline = PipelineBuilder().add_source(source(), **arguments).add_sink().build()
    with pytest.raises(PipelineFailure) as caught:
        epochs_of(pipeline, 2)
    assert "gave no item in epoch 1: it is an iterator" in str(caught.value.exceptions[0])


def test_an_iterator_that_begins_anew_is_a_source() -> None:
    """A dataset that is its own iterator."""
    assert epochs_of(limited(Again(), 3), 3) == [["a", "b"]] * 3


class Counted:
    """Counts its passes and the items that were taken of it."""

    def __init__(self, size: int = 5) -> None:
        self.size = size
        self.passes: list[int] = []

    def __iter__(self) -> Iterator[int]:
        self.passes.append(0)
        for item in range(self.size):
            self.passes[-1] += 1
            yield item


class AsyncCounted:
    def __init__(self, size: int) -> None:
        self.counted = Counted(size)
        self.passes = self.counted.passes

    async def __aiter__(self) -> AsyncIterator[int]:
        for item in self.counted:
            yield item


@pytest.mark.parametrize("make", [Counted, AsyncCounted])
@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_no_epoch_is_read_that_nobody_asked_for(make: Any, size: int, number: int) -> None:
    """After the last one the pipeline ends, as one of an ordinary source does."""
    source = make(size)
    pipeline = limited(source, number)
    assert epochs_of(pipeline, number) == [list(range(size))] * number
    assert source.passes == [size] * number
    assert pipeline.stats().state == "ended"
    with pytest.raises(EOFError):
        pipeline.get_item(timeout=TIMEOUT)


def test_calls_and_failures_are_those_of_the_epochs() -> None:
    """And not of the next one, however long the consumer takes."""
    calls: list[int] = []

    def op(item: int) -> int:
        calls.append(item)
        if item == 3:
            raise ValueError(item)
        return item

    builder = PipelineBuilder().add_source(range(30), epochs=2).pipe(op, concurrency=3).add_sink(100)
    pipeline = builder.build(num_threads=3)
    assert [len(epoch) for epoch in epochs_of(pipeline, 2)] == [29, 29]
    assert sorted(calls) == sorted([*range(30), *range(30)])
    assert pipeline.stats().stages[1].num_failures == 2


def test_a_number_of_epochs_is_a_positive_integer() -> None:
    """No epoch at all is no pipeline."""
    for given in (0, -1):
        with pytest.raises(ValueError, match="epochs must be >= 1"):
            PipelineBuilder().add_source(range(3), epochs=given)
    for wrong in (1.0, "2", True):
        with pytest.raises(TypeError, match="epochs must be an int"):
            PipelineBuilder().add_source(range(3), epochs=wrong)  # type: ignore[arg-type]
    assert "epochs=2" in repr(SourceConfig(range(3), epochs=2))


@pytest.mark.parametrize("make", [lambda: range(4), lambda: DistributedKeyedSampler(4, epoch=3), Counted])
@pytest.mark.filterwarnings("ignore:source Counted has neither:UserWarning")
def test_a_resumed_run_has_the_rest_of_the_epochs(make: Callable[[], Any]) -> None:
    """Wherever the run before was stopped: between epochs, inside of one, at the end."""

    def read(pipeline: Pipeline[Any], most: int) -> list[Any]:
        found: list[Any] = []
        with pipeline.auto_stop():
            while len(found) < most:
                try:
                    found.append(pipeline.get_item(timeout=TIMEOUT))
                except EOFError:
                    if found[-1:] == [None]:
                        break
                    found.append(None)
        return found

    whole = read(limited(make(), 3), 100)
    assert [item is None for item in whole].count(True) == 3
    for first in range(len(whole) + 1):
        pipeline = limited(make(), 3, resumable=True)
        head = read(pipeline, first)
        state = json.loads(json.dumps(pipeline.state_dict()))
        resumed = limited(make(), 3, resumable=True)
        resumed.load_state_dict(state)
        rest = read(resumed, 100)
        assert (head + rest)[: len(whole)] == whole, first
        assert rest[len(whole) - first :] in ([], [None])


def test_merged_sources_have_their_epochs() -> None:
    """The merged stream ends with the last of each."""
    parts: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig(items, epochs=2), [], SinkConfig(1)) for items in ("ab", "c")
    ]
    pipeline: Pipeline[Any] = build_pipeline(PipelineConfig(Merge(parts), [], SinkConfig(3)), num_threads=1)
    assert [sorted(epoch) for epoch in epochs_of(pipeline, 2)] == [["a", "b", "c"]] * 2


@pytest.mark.slow
def test_subprocesses_end_after_the_last_epoch() -> None:
    """Each iteration is an epoch."""
    builder = PipelineBuilder().add_source(range(3), epochs=2).add_sink()
    source = run_pipeline_in_subprocess(builder, timeout=TIMEOUT)
    assert [list(source) for _ in range(2)] == [[0, 1, 2], [0, 1, 2]]
