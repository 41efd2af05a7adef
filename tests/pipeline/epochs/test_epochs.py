"""Continuous sources: what an epoch is for a source and for its reader."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure, PipelineStateError
from tests.pipeline.epochs.epoching import Counting, continuous, epochs, same
from tests.support.running import TIMEOUT, await_event, build_of


class AsyncCounting:
    """The same, asynchronous."""

    def __init__(self, *sizes: int) -> None:
        self.counting = Counting(*sizes)

    def __aiter__(self) -> AsyncIterator[tuple[int, int]]:
        items = iter(self.counting)

        async def give() -> AsyncIterator[tuple[int, int]]:
            for item in items:
                await asyncio.sleep(0)
                yield item

        return give()


@pytest.mark.parametrize("sizes", [(3,), (1,), (0, 2, 0), (5, 0, 0, 1), (7, 3)])
@pytest.mark.parametrize("source", [Counting, AsyncCounting])
def test_each_iterator_covers_one_epoch(source: Any, sizes: tuple[int, ...]) -> None:
    """Also empty ones, first, last or several in a row."""
    sizes = (*sizes, 2)
    expected = [[(epoch, k) for k in range(size)] for epoch, size in enumerate(sizes)]
    assert epochs(continuous(source(*sizes)), len(sizes)) == expected


def test_get_item_raises_eof_once_per_epoch() -> None:
    """The next call starts the next epoch."""
    pipeline = continuous(Counting(1, 0, 2))
    read: list[Any] = []
    with pipeline.auto_stop():
        for _ in range(8):
            try:
                read.append(pipeline.get_item(timeout=TIMEOUT))
            except EOFError:
                read.append("end")
    assert read == [(0, 0), "end", "end", (2, 0), (2, 1), "end", (3, 0), (3, 1)]


def test_an_exhausted_iterator_stays_exhausted() -> None:
    """A new one covers the next epoch."""
    pipeline = continuous(Counting(2))
    with pipeline.auto_stop():
        iterator = pipeline.get_iterator(timeout=TIMEOUT)
        assert list(iterator) == [(0, 0), (0, 1)]
        assert list(iterator) == []
        assert next(iterator, "exhausted") == "exhausted"
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [(1, 0), (1, 1)]


def test_a_break_leaves_the_rest_of_the_epoch_to_the_next_iterator() -> None:
    """A new iterator goes on where the last one stopped, and ends with that epoch."""
    pipeline = continuous(Counting(4))
    with pipeline.auto_stop():
        for item in pipeline:
            if item == (0, 1):
                break
        assert list(pipeline) == [(0, 2), (0, 3)]
        assert list(pipeline) == [(1, k) for k in range(4)]


def test_an_iterator_dropped_at_the_last_item_leaves_an_empty_rest() -> None:
    """The mark has not been read yet: the next iterator gets it."""
    pipeline = continuous(Counting(2))
    with pipeline.auto_stop():
        assert [next(iter(pipeline)) for _ in range(2)] == [(0, 0), (0, 1)]
        assert list(pipeline) == []
        assert list(pipeline) == [(1, 0), (1, 1)]


def test_the_source_is_iterated_once_per_epoch() -> None:
    """``__iter__`` is called again for each."""
    source = Counting(2)
    epochs(continuous(source), 3)
    assert source.num_epochs >= 3


def test_the_next_epoch_is_prefetched() -> None:
    """While the consumer has read nothing of the first."""
    begun = threading.Event()

    class Source:
        num_epochs = 0

        def __iter__(self) -> Iterator[int]:
            self.num_epochs += 1
            if self.num_epochs == 2:
                begun.set()
            return iter([1])

    pipeline = continuous(Source(), sink=3)
    pipeline.start()
    await_event(begun)
    assert list(pipeline) == [1]
    pipeline.stop()


def test_threads_stay_warm_over_epochs() -> None:
    """One epoch's calls run on the same threads as the next one's, ops and source."""
    threads: dict[int, set[int]] = {}

    def op(item: tuple[int, int]) -> tuple[int, int]:
        threads.setdefault(item[0], set()).add(threading.get_ident())
        return item

    epochs(continuous(Counting(5), lambda b: b.pipe(op), num_threads=1), 4)
    assert len(set().union(*threads.values())) == 1


def test_a_source_that_raises_in_a_later_epoch_fails_after_all_earlier_items() -> None:
    """Earlier epochs are whole; the broken one gives what it had."""

    class Source:
        num_epochs = 0

        def __iter__(self) -> Iterator[tuple[int, int]]:
            epoch = self.num_epochs
            self.num_epochs += 1
            yield epoch, 0
            if epoch == 1:
                raise OSError("source")
            yield epoch, 1

    pipeline = continuous(Source(), lambda b: b.pipe(same))
    with pipeline.auto_stop():
        assert list(pipeline) == [(0, 0), (0, 1)]
        iterator = iter(pipeline)
        assert next(iterator) == (1, 0)
        for _ in range(2):
            with pytest.raises(PipelineFailure):
                next(iterator)


def test_a_limit_counts_over_epochs() -> None:
    """Failures of all epochs add up."""

    def op(item: tuple[int, int]) -> tuple[int, int]:
        if item[1] == 1:
            raise ValueError(item)
        return item

    pipeline = continuous(Counting(2), lambda b: b.pipe(op), num_threads=1, max_failures=2)
    with pipeline.auto_stop():
        assert [list(pipeline), list(pipeline)] == [[(0, 0)], [(1, 0)]]
        iterator = iter(pipeline)
        assert next(iterator) == (2, 0)
        with pytest.raises(PipelineFailure):
            next(iterator)


@pytest.mark.parametrize("source", [Counting, AsyncCounting])
def test_stop_in_the_middle_of_an_epoch_ends(source: Any) -> None:
    """What is in the sink stays readable; then it is the end for good."""
    pipeline = continuous(source(5), lambda b: b.pipe(same), sink=2)
    with pipeline.auto_stop():
        assert next(iter(pipeline)) == (0, 0)
    rest = list(pipeline)
    assert rest == [(0, k) for k in range(1, 1 + len(rest))]
    for _ in range(2):
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=0)


def test_endless_empty_epochs_can_be_stopped() -> None:
    """A source that is always empty gives empty epochs, as many as are asked for."""
    assert epochs(continuous([], lambda b: b.pipe(same).aggregate(2)), 5) == [[]] * 5


def test_every_iterator_of_a_continuous_source_is_new() -> None:
    """An iterator is closed on early end only: those of whole epochs are not."""
    made: list[Any] = []

    class Source:
        def __iter__(self) -> Iterator[int]:
            from tests.support.running import Recorder

            made.append(Recorder(range(2)) if len(made) < 2 else Recorder(itertools.count()))
            return iter(made[-1])

    with (pipeline := continuous(Source(), sink=1)).auto_stop():
        assert [list(pipeline), list(pipeline)] == [[0, 1], [0, 1]]
        assert pipeline.get_item(timeout=TIMEOUT) == 0
    assert [recorder.num_closed for recorder in made] == [0, 0, 1]


def test_builds_of_one_continuous_builder_are_independent() -> None:
    """Each counts its own epochs."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder().add_source(range(2), continuous=True).add_sink(3)
    assert [epochs(builder.build(num_threads=1), 2) for _ in range(2)] == [[[0, 1], [0, 1]]] * 2


def test_ordinary_sources_have_no_epochs() -> None:
    """After the end there is nothing more, and who iterates again is told so."""
    pipeline = build_of(range(2)).build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline) == [0, 1]
        with pytest.raises(PipelineStateError, match="continuous=True"):
            list(pipeline)
