"""``DataLoader``: source, preprocessing, batches, transfer, again and again."""

import gc
import itertools
import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from spdl.dataloader import DataLoader, PipelineBuilder
from spdl.pipeline import Pipeline, PipelineFailure
from spdl.pipeline.defs import Aggregator
from tests.support.running import TIMEOUT, await_event


def double(item: int) -> int:
    return 2 * item


def loaded(*args: Any, **options: Any) -> list[Any]:
    """All that a loader gives; reads that hang fail."""
    return list(DataLoader(*args, **{"timeout": TIMEOUT, "num_threads": 2, **options}))


def test_the_builder_is_offered_here_too() -> None:
    """It is that of the pipeline."""
    from spdl import pipeline

    assert PipelineBuilder is pipeline.PipelineBuilder


def test_parts_that_are_not_given_are_left_out() -> None:
    """Down to the bare source."""
    assert loaded(range(5)) == [0, 1, 2, 3, 4]
    assert loaded(range(5), preprocessor=double, output_order="input") == [0, 2, 4, 6, 8]
    assert loaded(range(5), batch_size=2) == [[0, 1], [2, 3], [4]]
    assert loaded(range(5), batch_size=2, drop_last=True) == [[0, 1], [2, 3]]
    assert loaded(range(5), aggregator=double, output_order="input") == [0, 2, 4, 6, 8]
    assert loaded(range(5), batch_size=2, aggregator=sum, output_order="input") == [1, 5, 4]
    assert loaded(range(5), transfer_fn=double) == [0, 2, 4, 6, 8]
    assert loaded(
        range(5), preprocessor=double, batch_size=2, aggregator=sum, transfer_fn=str, output_order="input"
    ) == ["2", "10", "8"]


def test_async_sources_and_functions_work() -> None:
    """As in any pipeline."""

    class Source:
        async def __aiter__(self) -> AsyncIterator[int]:
            for item in range(5):
                yield item

    async def increase(item: int) -> int:
        return item + 1

    async def add(items: list[int]) -> int:
        return sum(items)

    loader: Any = DataLoader(
        Source(), preprocessor=increase, batch_size=2, aggregator=add, output_order="input", timeout=TIMEOUT
    )
    assert list(loader) == [3, 7, 5]
    assert list(loader) == [3, 7, 5]


def test_a_generator_as_preprocessor_gives_many() -> None:
    """Then there is no telling the number of outputs from the source, but it runs."""

    def twice(item: int) -> Iterator[int]:
        yield item
        yield item

    assert sorted(loaded(range(3), preprocessor=twice)) == [0, 0, 1, 1, 2, 2]


def test_preprocessing_is_concurrent() -> None:
    """As many calls at once as there are threads, and each stage in the order it is told."""
    barrier = threading.Barrier(3)

    def meet(item: int) -> int:
        barrier.wait(TIMEOUT)
        return item

    assert loaded(range(6), preprocessor=meet, num_threads=3, output_order="input") == list(range(6))
    assert sorted(loaded(range(6), aggregator=meet, num_threads=3)) == list(range(6))


def test_completion_order_lets_the_quick_pass() -> None:
    """The first item waits for the others, which is only possible if they overtake."""
    others = threading.Semaphore(0)

    def slow_first(item: int) -> int:
        if item == 0:
            assert others.acquire(timeout=TIMEOUT)
        else:
            others.release()
        return item

    assert loaded(range(3), preprocessor=slow_first) != [0, 1, 2]


def test_transfer_is_never_concurrent() -> None:
    """One call at a time, whatever the number of threads; order is kept."""
    inside = threading.Lock()

    def transfer(item: int) -> int:
        assert inside.acquire(blocking=False)
        inside.release()
        return item

    assert loaded(range(50), transfer_fn=transfer, num_threads=4) == list(range(50))


@pytest.mark.parametrize("stage", ["preprocessor", "aggregator", "transfer_fn"])
def test_items_that_fail_are_dropped(stage: str, caplog: pytest.LogCaptureFixture) -> None:
    """They are logged; the others come."""

    def refuse_odd(item: int) -> int:
        if item % 2:
            raise ValueError("odd one out")
        return item

    assert sorted(loaded(range(6), **{stage: refuse_odd})) == [0, 2, 4]
    assert "odd one out" in caplog.text


def test_a_failing_source_fails_the_loop() -> None:
    """After what it gave."""

    def source() -> Iterator[int]:
        yield from range(3)
        raise KeyError("gone")

    iterator: Any = iter(DataLoader(source(), timeout=TIMEOUT))
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(PipelineFailure) as caught:
        next(iterator)
    assert [type(each) for each in caught.value.exceptions] == [KeyError]


def test_a_read_that_takes_too_long_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the pipeline is ended with it."""
    gate = threading.Event()
    stop = Pipeline.stop

    def let_go_and_stop(pipeline: Any) -> None:  # or stopping would wait for the op
        gate.set()
        stop(pipeline)

    def wait(item: int) -> int:
        gate.wait(TIMEOUT)
        return item

    monkeypatch.setattr(Pipeline, "stop", let_go_and_stop)
    iterator: Any = iter(DataLoader(range(3), preprocessor=wait, timeout=0.01))
    with pytest.raises(TimeoutError):
        next(iterator)
    assert gate.is_set()


def test_each_iteration_is_a_new_pipeline_over_the_same_source() -> None:
    """The state of the source carries over."""

    class Counting:
        epoch = -1

        def __iter__(self) -> Iterator[int]:
            self.epoch += 1
            return iter([self.epoch] * 2)

    loader: Any = DataLoader(Counting(), timeout=TIMEOUT)
    assert [list(loader) for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]
    once: Any = DataLoader(iter(range(4)), timeout=TIMEOUT)
    assert [list(once), list(once)] == [[0, 1, 2, 3], []]


def test_nothing_starts_before_it_is_iterated() -> None:
    """A loader that nobody reads costs no thread."""
    before = threading.active_count()
    loader: Any = DataLoader(itertools.count(), preprocessor=double)
    assert threading.active_count() == before
    del loader


def test_break_at_any_moment_ends_the_pipeline() -> None:
    """Threads are gone when the loop is left, not some time later."""
    before = set(threading.enumerate())
    for num_read in range(6):
        loader: Any = DataLoader(itertools.count(), preprocessor=double, batch_size=2, aggregator=sum, timeout=TIMEOUT)
        for _, _item in zip(range(num_read), loader, strict=False):
            pass
        gc.collect()
        assert set(threading.enumerate()) <= before


def test_iterators_at_once_are_independent() -> None:
    """Each has a pipeline of its own."""
    loader: Any = DataLoader(range(20), preprocessor=double, output_order="input", num_threads=2, timeout=TIMEOUT)
    assert list(zip(loader, loader, strict=True)) == [(2 * k, 2 * k) for k in range(20)]


def test_an_exhausted_iterator_stays_exhausted() -> None:
    """It does not begin again."""
    iterator: Any = iter(DataLoader(range(2), timeout=TIMEOUT))
    assert list(iterator) == [0, 1]
    assert [next(iterator, None) for _ in range(3)] == [None] * 3


def test_hundred_epochs_leave_nothing() -> None:
    """Neither descriptors nor threads, whether read to the end or left."""
    loader: Any = DataLoader(range(4), preprocessor=double, batch_size=2, num_threads=2, timeout=TIMEOUT)
    list(loader)
    descriptors, threads = os.listdir("/dev/fd"), set(threading.enumerate())
    for epoch in range(100):
        for _ in loader:
            if epoch % 2:
                break
    gc.collect()
    assert len(os.listdir("/dev/fd")) == len(descriptors)
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize(
    ("num_items", "batch_size", "drop_last"),
    [(10, None, False), (10, None, True), (10, 3, False), (10, 3, True), (9, 3, False), (2, 3, True), (2, 3, False)],
)
def test_length_is_the_number_of_outputs(num_items: int, batch_size: int | None, drop_last: bool) -> None:
    """Counted from the source."""
    loader: Any = DataLoader(range(num_items), batch_size=batch_size, drop_last=drop_last, timeout=TIMEOUT)
    assert len(loader) == len(list(loader))


def test_length_follows_the_source() -> None:
    """It is asked each time."""
    source = [1, 2, 3]
    loader: Any = DataLoader(source, batch_size=2)
    assert len(loader) == 2
    source.extend([4, 5])
    assert len(loader) == 3


def test_no_length_without_that_of_the_source() -> None:
    """A TypeError, as of anything without one; so ``list`` still works."""
    loader: Any = DataLoader(iter(range(3)), timeout=TIMEOUT)
    with pytest.raises(TypeError):
        len(loader)
    assert list(loader) == [0, 1, 2]
    assert bool(DataLoader(iter(())))


class Pairs(Aggregator[Any, Any]):
    """Two items at a time."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def accumulate(self, item: int) -> Any:
        self.held.append(item)
        return self.flush() if len(self.held) == 2 else None

    def flush(self) -> Any:
        held, self.held = self.held, []
        return held or None


def test_batches_may_be_made_by_an_aggregator() -> None:
    """Then nobody knows how many there are."""
    loader: Any = DataLoader(range(5), batch_size=Pairs(), aggregator=sum, output_order="input", timeout=TIMEOUT)
    assert list(loader) == [1, 5, 4]
    with pytest.raises(TypeError):
        len(loader)


@pytest.mark.parametrize("batch_size", [-1])
def test_batches_of_less_than_nothing_are_refused(batch_size: int) -> None:
    """At the latest when it is iterated."""
    with pytest.raises(ValueError):
        list(DataLoader(range(3), batch_size=batch_size, timeout=TIMEOUT))


# -- epochs


class WithEpochs:
    def __init__(self) -> None:
        self.epoch = -1

    def __iter__(self) -> Iterator[int]:
        return iter([self.epoch])

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class WithShuffle:
    def __init__(self) -> None:
        self.seeds: list[int] = []

    def __iter__(self) -> Iterator[int]:
        return iter(self.seeds)

    def shuffle(self, seed: int) -> None:
        self.seeds.append(seed)


def test_set_epoch_goes_to_the_source() -> None:
    """By its own ``set_epoch``, else as the seed of ``shuffle``, else nowhere."""

    class Both(WithEpochs, WithShuffle):
        def __init__(self) -> None:
            WithEpochs.__init__(self)
            WithShuffle.__init__(self)

        __iter__ = WithEpochs.__iter__

    both = Both()
    cases: list[tuple[Any, str, Any]] = [
        (WithEpochs(), "epoch", 5),
        (WithShuffle(), "seeds", [5]),
        (both, "epoch", 5),
    ]
    for source, attribute, expected in cases:
        loader: Any = DataLoader(source, timeout=TIMEOUT)
        loader.set_epoch(5)
        assert getattr(source, attribute) == expected
        assert list(loader) == [5]
    assert both.seeds == []
    plain: Any = DataLoader([1], timeout=TIMEOUT)
    plain.set_epoch(5)
    assert list(plain) == [1]


def test_set_epoch_leaves_a_source_that_shuffles_itself_alone() -> None:
    """It counts its epochs."""
    from spdl.source.utils import embed_shuffle

    source = WithShuffle()
    loader: Any = DataLoader(embed_shuffle(source), timeout=TIMEOUT)
    loader.set_epoch(9)
    assert source.seeds == []
    assert list(loader) == [0]
    assert list(loader) == [0, 1]


def test_a_sampler_is_a_source() -> None:
    """Epochs of a sampler through the loader: each the same as the sampler's own, and different from the others."""
    from spdl.source import DistributedKeyedSampler

    loader: Any = DataLoader(DistributedKeyedSampler(40, rank=1, world_size=2, seed=3), batch_size=8, timeout=TIMEOUT)
    orders = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        orders.append([index for batch in loader for index in batch])
        assert orders[-1] == list(DistributedKeyedSampler(40, rank=1, world_size=2, seed=3, epoch=epoch))
    assert len({tuple(order) for order in orders}) == 3
    assert len(loader) == 3


def test_a_consumer_that_fails_is_not_hidden() -> None:
    """Its own exception leaves the loop."""
    started = threading.Event()

    def note(item: int) -> int:
        started.set()
        return item

    def consume() -> None:
        for _ in DataLoader(itertools.count(), preprocessor=note, timeout=TIMEOUT):
            await_event(started)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        consume()
