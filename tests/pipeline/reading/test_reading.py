"""Reading a pipeline: ``for``, ``get_item``, ``get_iterator``, timeouts and epochs."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineFailure, PipelineStateError
from spdl.pipeline._engine._engine import Wait
from tests.support.gated import Gated, of
from tests.support.running import TIMEOUT, await_event

# -- get_item


def test_get_item_starts_the_pipeline_and_ends_with_eoferror_for_ever() -> None:
    """Items in order, then EOFError on every call, whatever its timeout."""
    pipeline = of(range(3))
    assert [pipeline.get_item() for _ in range(3)] == [0, 1, 2]
    for timeout in (None, 0, 1.5, None):
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=timeout)


def test_get_item_of_an_empty_source() -> None:
    """No items: EOFError at once and for ever; an iterator is empty."""
    pipeline = of([])
    for _ in range(2):
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=TIMEOUT)
    assert list(pipeline) == []


def test_none_from_the_source_is_an_item() -> None:
    """None passes from source to sink as any value does, and ends nothing."""
    pipeline = of([None, 1, None])
    assert pipeline.get_item(timeout=TIMEOUT) is None
    assert list(pipeline) == [1, None]


@pytest.mark.parametrize("item", [0, "", [], False, EOFError(), StopIteration(), Ellipsis, NotImplemented])
def test_values_that_look_like_signals_are_items(item: Any) -> None:
    """No value ends or disturbs the stream."""
    pipeline = of([item, 1])
    assert pipeline.get_item(timeout=TIMEOUT) is item
    assert list(pipeline) == [1]


def test_items_with_odd_comparisons_are_items() -> None:
    """An item is never compared: one that refuses == and bool passes."""

    class Prickly:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        def __bool__(self) -> bool:
            raise AssertionError("asked for its truth")

    item = Prickly()
    pipeline = of([item])
    assert pipeline.get_item(timeout=TIMEOUT) is item
    with pytest.raises(EOFError):
        pipeline.get_item(timeout=TIMEOUT)


def test_timeout_of_zero_polls() -> None:
    """timeout=0 returns what is there and raises TimeoutError where nothing is, as often as asked; nothing is lost."""
    source = Gated(2)
    pipeline = of(source)
    for _ in range(3):
        with pytest.raises(TimeoutError, match="0"):
            pipeline.get_item(timeout=0)
    source.open(0)
    await_event(source.asked[1])
    assert pipeline.get_item(timeout=0) == 0
    with pytest.raises(TimeoutError):
        pipeline.get_item(timeout=0)
    source.open()
    assert pipeline.get_item(timeout=TIMEOUT) == 1
    with pytest.raises(EOFError):
        pipeline.get_item(timeout=TIMEOUT)


def test_passed_timeout_loses_nothing() -> None:
    """Reads that time out while items are on their way do not cost an item."""
    source = Gated(20)
    pipeline = of(source, sink=1)
    items: list[int] = []
    for index in range(20):
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=1e-4)
        source.open(index)
        while True:
            try:
                items.append(pipeline.get_item(timeout=1e-5))
            except TimeoutError:
                continue
            break
    source.open()
    assert items == list(range(20))
    with pytest.raises(EOFError):
        pipeline.get_item(timeout=TIMEOUT)


def test_timeout_larger_than_the_platform_allows_is_none_at_all() -> None:
    """An enormous timeout waits and returns the item."""
    assert of(range(1)).get_item(timeout=1e18) == 0


# -- iterators


def test_for_gives_everything_once() -> None:
    """A for loop gives each item once and in order, and a second loop says that it gives nothing."""
    pipeline = of(range(50))
    assert list(pipeline) == list(range(50))
    for _ in range(2):
        with pytest.raises(PipelineStateError, match=r"has ended.*Build another pipeline.*continuous=True"):
            list(pipeline)
    with pytest.raises(EOFError):
        pipeline.get_item()
    pipeline.stop()


def test_new_iterator_goes_on_where_the_last_stopped() -> None:
    """Iterators and get_item read one stream; dropping an iterator loses nothing."""
    pipeline = of(range(8))
    first = iter(pipeline)
    assert [next(first), next(first)] == [0, 1]
    del first
    assert pipeline.get_item() == 2
    second = pipeline.get_iterator(timeout=TIMEOUT)
    assert next(second) == 3
    for item in pipeline:
        assert item == 4
        break
    iter(pipeline)  # made and dropped without a read
    assert list(second) == [5, 6, 7]


def test_iterator_is_its_own_iterator() -> None:
    """iter() of an iterator is that iterator."""
    pipeline = of(range(2))
    iterator = iter(pipeline)
    assert iter(iterator) is iterator
    assert list(itertools.islice(iterator, 1)) == [0]
    assert list(iterator) == [1]


def test_making_an_iterator_reads_nothing() -> None:
    """Neither iter nor get_iterator starts the pipeline; the first next does."""
    pipeline = of(range(2))
    iterator = pipeline.get_iterator(timeout=TIMEOUT)
    assert pipeline.stats().state == "new"
    assert next(iterator) == 0
    assert next(iterator) == 1


def test_timeout_of_an_iterator_is_per_item_and_breaks_nothing() -> None:
    """next raises TimeoutError, and the same iterator goes on with the item that was late."""
    source = Gated(3)
    pipeline = of(source)
    iterator = pipeline.get_iterator(timeout=0)
    items = []
    for index in range(3):
        for _ in range(2):
            with pytest.raises(TimeoutError):
                next(iterator)
        source.open(index)
        await_event(source.asked[index + 1])
        items.append(next(iterator))
    with pytest.raises(TimeoutError):
        next(iterator)
    source.open()
    assert items == [0, 1, 2]
    assert list(pipeline) == []


def test_exhausted_iterator_stays_exhausted() -> None:
    """After StopIteration every further next raises it again."""
    iterator = iter(of(range(1)))
    assert next(iterator) == 0
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


# -- epochs


def test_exhausted_iterator_stays_exhausted_although_the_next_epoch_has_items() -> None:
    """An iterator that has ended its epoch gives nothing of the next, which a new iterator gets whole."""
    pipeline = of(range(3), continuous=True)
    with pipeline.auto_stop():
        first = iter(pipeline)
        assert list(first) == [0, 1, 2]
        assert list(first) == []
        second = iter(pipeline)
        assert next(second) == 0
        assert list(first) == []
        assert list(second) == [1, 2]
        assert list(second) == []


def test_get_item_raises_eoferror_once_per_epoch() -> None:
    """EOFError marks the end of an epoch; the next call starts the next one."""
    pipeline = of(range(2), continuous=True)
    with pipeline.auto_stop():
        for _ in range(3):
            assert [pipeline.get_item(), pipeline.get_item()] == [0, 1]
            with pytest.raises(EOFError):
                pipeline.get_item()


def test_iterator_goes_on_inside_an_epoch() -> None:
    """A loop left in the middle of an epoch is continued by the next one, up to the end of that epoch."""
    pipeline = of(range(4), continuous=True)
    with pipeline.auto_stop():
        for item in pipeline:
            if item == 1:
                break
        assert list(pipeline) == [2, 3]
        assert list(pipeline) == [0, 1, 2, 3]


def test_poll_at_the_end_of_an_epoch_does_not_skip_it() -> None:
    """A timeout in front of the epoch's end leaves the end where it is."""
    gate, asked = threading.Event(), threading.Event()

    class Source:
        def __iter__(self) -> Iterator[int]:
            yield 0
            asked.set()
            await_event(gate)

    pipeline = of(Source(), continuous=True)
    with pipeline.auto_stop():
        assert pipeline.get_item() == 0
        await_event(asked)
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        gate.set()
        with pytest.raises(EOFError):
            pipeline.get_item()
        assert pipeline.get_item() == 0


def test_stopped_continuous_pipeline_ends_for_ever() -> None:
    """After stop, reads return what is in the sink, marks included, and then the end, however often they ask."""
    pipeline = of(range(2), continuous=True, sink=10)
    assert pipeline.get_item() == 0
    pipeline.stop()
    rest: list[Any] = []
    for _ in range(20):
        try:
            rest.append(pipeline.get_item(timeout=0))
        except EOFError:
            rest.append("end")
    assert rest[-1] == "end"
    assert rest[-2] == "end"
    assert list(pipeline) == []


# -- threads


@pytest.mark.parametrize("read", [list, lambda p: [p.get_item(timeout=TIMEOUT) for _ in range(5)]])
def test_pipeline_built_in_one_thread_is_read_in_another(read: Callable[[Pipeline[Any]], list[Any]]) -> None:
    """A pipeline is bound to no thread: built here, started and read there, stopped here."""
    pipeline = of(range(5))
    results: list[Any] = []
    reader = threading.Thread(target=lambda: results.extend(read(pipeline)))
    reader.start()
    reader.join(TIMEOUT)
    assert results == [0, 1, 2, 3, 4]
    pipeline.stop()


def test_threads_may_take_turns() -> None:
    """One thread at a time, a new thread for each item: the stream is one."""
    pipeline = of(range(10))
    items: list[int] = []
    for _ in range(10):
        reader = threading.Thread(target=lambda: items.append(pipeline.get_item(timeout=TIMEOUT)))
        reader.start()
        reader.join(TIMEOUT)
    assert items == list(range(10))
    assert list(pipeline) == []


class Readers:
    """Threads that read one pipeline, each until it is told of the end, and what each of them saw."""

    def __init__(self, pipeline: Pipeline[Any], num: int) -> None:
        self.pipeline = pipeline
        self.taken: list[list[Any]] = [[] for _ in range(num)]
        self.endings: list[BaseException | None] = [None] * num
        self.threads = [threading.Thread(target=self.read, args=(index,)) for index in range(num)]
        for thread in self.threads:
            thread.start()

    def read(self, index: int) -> None:
        try:
            while True:
                self.taken[index].append(self.pipeline.get_item(timeout=TIMEOUT))
        except (EOFError, TimeoutError, PipelineFailure) as exc:
            self.endings[index] = exc

    def join(self) -> list[Any]:
        for thread in self.threads:
            thread.join(TIMEOUT)
        return sorted(item for taken in self.taken for item in taken)


def wait_for_readers(pipeline: Pipeline[Any], num: int) -> None:
    """Until that many wait for an item."""
    done = threading.Event()
    while pipeline._engine.sink.num_waits < num:
        assert not done.wait(0.001)


def test_all_readers_are_told_of_the_end() -> None:
    """Four threads wait as the source ends: none waits on, and each item was for one of them."""
    source = Gated(5)
    pipeline = of(source)
    readers = Readers(pipeline, 4)
    wait_for_readers(pipeline, 4)
    source.open()
    assert readers.join() == [0, 1, 2, 3, 4]
    assert [type(ending) for ending in readers.endings] == [EOFError] * 4


def test_all_readers_are_told_of_a_failure() -> None:
    """Each gets a PipelineFailure of its own."""
    gate = threading.Event()

    def give() -> Iterator[int]:
        yield 0
        await_event(gate)
        raise LookupError("source")

    pipeline = of(give())
    readers = Readers(pipeline, 3)
    wait_for_readers(pipeline, 3)
    gate.set()
    assert readers.join() == [0]
    assert [type(ending) for ending in readers.endings] == [PipelineFailure] * 3
    assert len(set(map(id, readers.endings))) == 3


def test_all_readers_are_told_of_a_stop() -> None:
    """A stop from yet another thread ends all reads."""
    source = Gated(5)
    pipeline = of(source)
    readers = Readers(pipeline, 3)
    wait_for_readers(pipeline, 3)
    source.open(0, 1)
    pipeline.stop()
    source.open()
    readers.join()
    assert [type(ending) for ending in readers.endings] == [EOFError] * 3


def test_a_pipeline_is_started_once_by_readers_that_are_all_the_first() -> None:
    """Whoever comes second reads what the first has started."""
    for _ in range(20):
        pipeline = of(range(8))
        assert Readers(pipeline, 4).join() == list(range(8))


def test_an_item_for_a_reader_that_has_given_up_is_for_the_next() -> None:
    """Woken for an item, and gone before it could take it: somebody else who waits gets it."""
    source = Gated(1)
    pipeline = of(source)
    pipeline.start()
    sink, lock = pipeline._engine.sink, pipeline._engine.lock
    gone = threading.Event()
    first = Wait(gone.set, 0.0)
    with lock:
        sink.begin_wait(first)
    readers = Readers(pipeline, 1)
    wait_for_readers(pipeline, 2)
    source.open(0)
    await_event(gone)
    with lock:
        sink.end_wait(first, 0.0)
    source.open()
    assert readers.join() == [0]


def test_waits_of_several_readers_are_all_counted() -> None:
    """``consumer_wait`` is the time of all of them, and nobody is counted for ever."""
    source = Gated(3)
    pipeline = of(source)
    readers = Readers(pipeline, 2)
    wait_for_readers(pipeline, 2)
    source.open()
    assert readers.join() == [0, 1, 2]
    stats = pipeline.stats()
    assert stats.stages[-1].starved > 0
    assert stats.consumer_wait > 0
    assert pipeline._engine.sink.num_waits == 0
