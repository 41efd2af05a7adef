"""``Aggregator.deadline``: an aggregate is flushed in time, also if no item comes any more."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure
from spdl.pipeline.batching import ManualClock, MaxWait
from spdl.pipeline.defs import Aggregate as aggregate
from spdl.pipeline.defs import Aggregator, Outputs
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left
from tests.support.gated import Gated
from tests.support.running import TIMEOUT, await_event, build_of, drain, fail, run, running
from tests.support.watching import Log, hooked

from .aggregators import AtOnce


class Noting(MaxWait[Any]):
    """``MaxWait`` that tells when an item is in, and counts the flushes."""

    def __init__(self, max_items: int, seconds: float, clock: ManualClock) -> None:
        super().__init__(max_items, seconds, clock=clock)
        self.taken = threading.Semaphore(0)
        self.num_flushes = 0

    def flush(self) -> Any:
        self.num_flushes += 1
        return super().flush()

    def deadline(self) -> float | None:
        self.taken.release()
        return super().deadline()

    def await_items(self, number: int) -> None:
        for _ in range(number):
            assert self.taken.acquire(timeout=TIMEOUT)


@contextmanager
def gated(source: Gated, aggregator: Any, **options: Any) -> Iterator[Pipeline[Any]]:
    """A running pipeline; the source is let go before it is stopped."""
    with nothing_left(), running(build_of(source, lambda b: b.aggregate(aggregator)), **options) as pipeline:
        try:
            yield pipeline
        finally:
            source.open()


def failure_of(source: Gated, aggregator: Any, **options: Any) -> BaseException:
    """What the stage fails with while the source is at its second item.

    Who fails opens the source: the pipeline then ends without waiting for it.
    """
    with gated(source, aggregator, **options) as pipeline:
        source.open(0)
        with pytest.raises(PipelineFailure) as failure:
            pipeline.get_item(timeout=TIMEOUT)
    (error,) = failure.value.exceptions
    return error


@pytest.mark.parametrize("has_hooks", [False, True])
@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_list_leaves_when_its_oldest_item_has_waited(has_hooks: bool, num_threads: int) -> None:
    """Not before, and although no further item comes; the wait of the next list starts with its first item."""
    clock, source = ManualClock(100.0), Gated(4)
    aggregator = Noting(8, 5.0, clock)
    options: Any = {"task_hook_factory": hooked(Log())} if has_hooks else {}
    with gated(source, aggregator, num_threads=num_threads, **options) as pipeline:
        source.open(0)
        aggregator.await_items(1)
        clock.advance(3.0)
        source.open(1)
        aggregator.await_items(1)
        clock.advance(1.9)
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        clock.advance(0.1)
        assert pipeline.get_item(timeout=TIMEOUT) == [0, 1]
        clock.advance(60.0)
        source.open(2)
        aggregator.await_items(1)
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        clock.advance(5.0)
        assert pipeline.get_item(timeout=TIMEOUT) == [2]
        source.open()
        assert pipeline.get_item(timeout=TIMEOUT) == [3]
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=TIMEOUT)
        stats = pipeline.stats().stages[1]
    assert aggregator.num_flushes == 3
    assert (stats.num_calls, stats.num_emitted) == (4 + 3, 3)


def test_a_clock_that_stands_still_flushes_nothing() -> None:
    """However long it takes: only full lists, and the rest at the end."""
    aggregator = MaxWait[int](4, 1e-9, clock=ManualClock())
    assert run(build_of(range(10), lambda b: b.aggregate(aggregator))) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_real_time_goes_by_itself() -> None:
    """With the clock that is the default, a list of one item leaves although the source gives no more."""
    source = Gated(2)
    with gated(source, MaxWait[int](8, 1e-3)) as pipeline:
        source.open(0)
        assert pipeline.get_item(timeout=TIMEOUT) == [0]


def test_the_clock_is_asked_when_it_should_be_time() -> None:
    """A clock that goes slower than the engine's is not outrun: each early look finds that it is not time yet."""
    looks = threading.Semaphore(0)
    now = 0.0

    def slow() -> float:
        looks.release()
        return now

    source = Gated(1)
    with gated(source, MaxWait[int](8, 1e-3, clock=slow)) as pipeline:
        source.open(0)
        for _ in range(5):
            assert looks.acquire(timeout=TIMEOUT)
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        now = 1.0
        assert pipeline.get_item(timeout=TIMEOUT) == [0]


class Slow(Noting):
    """``Noting`` whose call for item 1 lasts until its gate is open."""

    def __init__(self, max_items: int, seconds: float, clock: ManualClock) -> None:
        super().__init__(max_items, seconds, clock)
        self.entered, self.gate = threading.Event(), threading.Event()

    def accumulate(self, item: Any) -> Any:
        if item == 1:
            self.entered.set()
            await_event(self.gate)
        return super().accumulate(item)


@pytest.mark.parametrize("max_items", [2, 8])
def test_a_deadline_that_passes_during_a_call_waits_for_its_end(max_items: int) -> None:
    """The item goes first. If that completes the list, there is nothing left to flush; else the list leaves with it."""
    clock, source = ManualClock(), Gated(3)
    aggregator = Slow(max_items, 5.0, clock)
    with gated(source, aggregator, num_threads=3) as pipeline:
        source.open(0, 1)
        await_event(aggregator.entered)
        clock.advance(5.0)
        aggregator.gate.set()
        assert pipeline.get_item(timeout=TIMEOUT) == [0, 1]
        source.open()
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [[2]]
    assert aggregator.num_flushes == (1 if max_items == 2 else 2)


def test_a_deadline_that_passes_without_room_waits_for_it() -> None:
    """What could not leave in time leaves as soon as it can, also if nothing comes any more."""
    clock, source = ManualClock(), Gated(3)

    class Chatty(Noting):
        """Gives three outputs for item 0 at once, and keeps it."""

        def accumulate(self, item: Any) -> Any:
            kept = super().accumulate(item)
            return Outputs("abc") if item == 0 else kept

    aggregator = Chatty(8, 5.0, clock)
    pipeline = build_of(source, lambda b: b.aggregate(aggregator), sink=1).build(num_threads=2)
    with pipeline.auto_stop():
        source.open(0)
        aggregator.await_items(1)
        clock.advance(5.0)
        outputs = [pipeline.get_item(timeout=TIMEOUT) for _ in range(4)]
        assert outputs == ["a", "b", "c", [0]]
        source.open()
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [[1, 2]]


@cases(60)
@given(
    numbers=st.lists(st.integers(0, 3), max_size=15),
    num_threads=st.integers(1, 3),
    has_hooks=st.booleans(),
    drop_last=st.booleans(),
    sink=st.integers(1, 2),
)
def test_a_deadline_in_the_past_is_now(
    numbers: list[int], num_threads: int, has_hooks: bool, drop_last: bool, sink: int
) -> None:
    """A deadline that has passed when it is asked for comes before the next item, and before the end."""
    aggregator = AtOnce(lambda held: bool(held) and held[-1] == 0)
    options: Any = {"task_hook_factory": hooked(Log())} if has_hooks else {}
    builder = build_of(numbers, lambda b: b.aggregate(aggregator, drop_last=drop_last), sink=sink)
    with nothing_left(), running(builder, num_threads=num_threads, **options) as pipeline:
        lists = list(pipeline.get_iterator(timeout=TIMEOUT))
        stats = pipeline.stats().stages[1]
    expected: list[list[int]] = [[]]
    for number in numbers:
        expected[-1].append(number)
        if number == 0:
            expected.append([])
    rest = expected.pop()
    assert lists == (expected if drop_last or not rest else [*expected, rest])
    assert (stats.num_emitted, stats.num_dropped) == (len(lists), len(rest) if drop_last else 0)
    assert stats.num_in_flight == 0


def test_a_flush_by_deadline_is_no_end() -> None:
    """With ``drop_last`` its list is emitted all the same; only what is open at the end is dropped."""
    clock, source = ManualClock(), Gated(3)
    aggregator = Noting(8, 5.0, clock)
    pipeline = build_of(source, lambda b: b.aggregate(aggregator, drop_last=True)).build(num_threads=2)
    with pipeline.auto_stop():
        source.open(0)
        aggregator.await_items(1)
        clock.advance(5.0)
        assert pipeline.get_item(timeout=TIMEOUT) == [0]
        source.open()
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=TIMEOUT)
        assert pipeline.stats().stages[1].num_dropped == 2


def test_a_deadline_that_never_goes_flushes_once_per_item() -> None:
    """An aggregator that always says "now" is flushed after an item, and not over and over."""

    class Insisting(AtOnce):
        def deadline(self) -> float:
            return 0.0

    source = Gated(2)
    aggregator = Insisting()
    with gated(source, aggregator) as pipeline:
        source.open(0)
        assert pipeline.get_item(timeout=TIMEOUT) == [0]
        source.open(1)
        assert pipeline.get_item(timeout=TIMEOUT) == [1]
        await_event(source.asked[2])
        assert aggregator.num_flushes == 2


@pytest.mark.parametrize("has_hooks", [False, True])
def test_a_deadline_that_raises_fails_the_stage(has_hooks: bool) -> None:
    """The note names the item and the aggregator."""
    source = Gated(2)

    class Broken(AtOnce):
        def deadline(self) -> float | None:
            source.open()
            raise OSError("deadline")

    options: Any = {"task_hook_factory": hooked(Log())} if has_hooks else {}
    error = failure_of(source, Broken(), **options)
    assert isinstance(error, OSError)
    assert any("item 0, aggregator" in note and "Broken" in note for note in error.__notes__)


@pytest.mark.parametrize("value", ["soon", float("nan"), [1.0]])
def test_a_deadline_must_be_a_time(value: Any) -> None:
    """Anything else fails the stage."""

    class Wrong(AtOnce):
        def deadline(self) -> Any:
            return value

    _, error = fail(build_of([1], lambda b: b.aggregate(Wrong())))
    assert isinstance(error, TypeError)
    assert "deadline() must return a number or None" in str(error)


def test_a_flush_by_deadline_that_raises_fails_the_stage() -> None:
    """As any flush that does."""
    source = Gated(2)

    class Broken(AtOnce):
        def flush(self) -> Any:
            source.open()
            raise OSError("flush")

    error = failure_of(source, Broken())
    assert isinstance(error, OSError)
    assert any("flush, aggregator" in note for note in error.__notes__)


@pytest.mark.parametrize("fails_from", [1, 2, 3])
def test_a_clock_that_raises_fails_the_stage(fails_from: int) -> None:
    """Where the aggregator reads it, and where the engine does."""
    source, num_reads = Gated(2), 0

    def clock() -> float:
        nonlocal num_reads
        num_reads += 1
        if num_reads >= fails_from:
            source.open()
            raise OSError("clock")
        return 0.0

    assert isinstance(failure_of(source, MaxWait[int](8, 1e-3, clock=clock)), OSError)


@pytest.mark.parametrize("num_read", [0, 1])
def test_a_stop_while_a_list_waits_leaves_nothing(num_read: int) -> None:
    """Neither a thread nor a flush: what is open is discarded, and time that passes later does nothing."""
    clock, source = ManualClock(), Gated(4)
    aggregator = Noting(2, 5.0, clock)
    with gated(source, aggregator) as pipeline:
        source.open(0, 1, 2)
        aggregator.await_items(3)
        if num_read:
            assert pipeline.get_item(timeout=TIMEOUT) == [0, 1]
        source.open()
        pipeline.stop()
    num_flushes = aggregator.num_flushes
    clock.advance(60.0)
    assert aggregator.num_flushes == num_flushes


def test_epochs_end_what_waits() -> None:
    """The rest of an epoch leaves at its end; its deadline does not reach into the next."""
    clock = ManualClock()
    aggregator = Noting(2, 5.0, clock)
    builder = PipelineBuilder[Any, Any]().add_source([1, 2, 3], continuous=True)
    pipeline = builder.aggregate(aggregator).add_sink(3).build(num_threads=2)
    with pipeline.auto_stop():
        for _ in range(3):
            assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [[1, 2], [3]]
            clock.advance(0.0)


def test_in_path_variants_and_twice_in_one_pipeline() -> None:
    """Each aggregate waits by its own clock."""
    clocks = [ManualClock(), ManualClock()]
    aggregators = [Noting(8, 5.0, clock) for clock in clocks]
    source = Gated(5)
    paths = [[aggregate(each)] for each in aggregators]
    pipeline = build_of(source, lambda b: b.path_variants(lambda item: item % 2, paths)).build(num_threads=2)
    with pipeline.auto_stop():
        source.open(0, 1, 2, 3)
        for each in aggregators:
            each.await_items(2)
        clocks[1].advance(5.0)
        assert pipeline.get_item(timeout=TIMEOUT) == [1, 3]
        clocks[0].advance(5.0)
        assert pipeline.get_item(timeout=TIMEOUT) == [0, 2]
        source.open()
        assert pipeline.get_item(timeout=TIMEOUT) == [4]


def test_nobody_watches_aggregates_without_a_deadline() -> None:
    """There is no thread for it, and no other class of stage."""

    class Plain(Aggregator[int, int]):
        def accumulate(self, item: int) -> int:
            assert not any(thread.name.endswith("-deadlines") for thread in threading.enumerate())
            return item

        def flush(self) -> None:
            return None

    pipeline = build_of(range(3), lambda b: b.aggregate(Plain())).build(num_threads=1)
    assert type(pipeline._engine.nodes[1]).__name__ == "AggregateStage"
    assert drain(pipeline) == ([0, 1, 2], None)


def test_the_default_is_no_deadline_by_the_monotonic_clock() -> None:
    """For every aggregator."""
    assert AtOnce().clock is time.monotonic
    assert Aggregator.deadline(AtOnce()) is None
