"""How far a pipeline runs ahead: two items between stages, ``buffer_size`` in the sink, one more per call in flight."""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from tests.support.running import TIMEOUT, await_event, build_of, drain, running


class Taken:
    """An endless source of 0, 1, 2 …, that tells how many items it was asked for, and when it was asked for many."""

    def __init__(self, num_items: int) -> None:
        self.num_items = num_items
        self.num_taken = 0
        self.reached = threading.Event()

    def __iter__(self) -> Iterator[int]:
        for item in itertools.count():
            self.num_taken = item + 1
            if self.num_taken == self.num_items:
                self.reached.set()
            yield item


class Called:
    """A sync or async op that counts its calls."""

    def __init__(self, num_calls: int) -> None:
        self.expected = num_calls
        self.num_calls = 0
        self.reached = threading.Event()
        self.lock = threading.Lock()

    def count(self) -> None:
        with self.lock:
            self.num_calls += 1
            if self.num_calls == self.expected:
                self.reached.set()

    def sync(self, item: Any) -> Any:
        self.count()
        return item

    async def asynchronous(self, item: Any) -> Any:
        self.count()
        await asyncio.sleep(0)
        return item

    def generator(self, item: Any) -> Iterator[Any]:
        self.count()
        yield item


@pytest.mark.parametrize("size", [1, 2, 5, 50])
def test_the_sink_holds_its_buffer_size(size: int) -> None:
    """Of a pipeline that nobody read from, that many items stay readable after ``stop``."""
    called = Called(size + 1)  # that call runs when the one before it has put its item into the sink
    with running(build_of(itertools.count(), lambda b: b.pipe(called.sync), sink=size)) as pipeline:
        await_event(called.reached)
    assert list(pipeline) == list(range(size))


def test_a_sink_of_one_holds_exactly_one_item() -> None:
    """After ``auto_stop`` of a pipeline nobody read from; what calls in flight held is discarded."""
    called = Called(2)  # the second call runs when the first has put its item into the sink
    pipeline = build_of(itertools.count(), lambda b: b.pipe(called.sync), sink=1).build(num_threads=1)
    with pipeline.auto_stop():
        await_event(called.reached)
    assert pipeline.get_item(timeout=0) == 0
    for _ in range(2):
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=0)


@pytest.mark.parametrize("kind", ["sync", "async", "ordered", "generator"])
@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("size", [1, 4])
def test_calls_run_ahead_by_the_sink_and_one_each(kind: str, concurrency: int, size: int) -> None:
    """With nobody reading, a stage is called for the sink's size and once more per allowed call, and no more."""
    called = Called(size + concurrency)
    op: Any = {"async": called.asynchronous, "generator": called.generator}.get(kind, called.sync)
    source = Taken(size + concurrency + 2 + 1)
    builder = build_of(
        source,
        lambda b: b.pipe(op, concurrency=concurrency, output_order="input" if kind == "ordered" else "completion"),
        sink=size,
    )
    with running(builder, num_threads=2):
        await_event(called.reached)
        await_event(source.reached)  # two wait between the stages, one is held by the source
    assert called.num_calls == size + concurrency
    assert source.num_taken == size + concurrency + 3


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_two_items_wait_between_stages(kind: str) -> None:
    """Behind a blocked call, the stage before it runs ahead by two waiting items and its own call."""
    release = threading.Event()
    ahead = Called(1 + 2 + 1)  # in the blocked call, between the stages, held by its own call

    def blocked(item: int) -> int:
        await_event(release)
        return item

    async def blocked_async(item: int) -> int:
        return await asyncio.to_thread(blocked, item)

    source = Taken(1 + 2 + 1 + 2 + 1)
    builder = build_of(
        source,
        lambda b: b.pipe(ahead.sync if kind == "sync" else ahead.asynchronous),
        lambda b: b.pipe(blocked if kind == "sync" else blocked_async),
        sink=1,
    )
    with running(builder, num_threads=3) as pipeline:
        await_event(ahead.reached)
        await_event(source.reached)
        assert ahead.num_calls == 4
        assert source.num_taken == 7
        release.set()
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(5)] == list(range(5))


def test_a_source_alone_runs_ahead_by_the_sink_and_one() -> None:
    """It holds the item that has no room."""
    source = Taken(4 + 1)
    with running(build_of(source, sink=4)) as pipeline:
        await_event(source.reached)
        assert source.num_taken == 5
        assert pipeline.get_item(timeout=TIMEOUT) == 0
    assert source.num_taken <= 6
    assert list(pipeline) == [1, 2, 3, 4]


def test_reading_one_item_lets_one_more_in() -> None:
    """The look-ahead is the same at every moment."""
    steps = [Called(k) for k in range(3, 8)]
    counts: list[int] = []

    def op(item: int) -> int:
        for step in steps:
            step.count()
        return item

    with running(build_of(itertools.count(), lambda b: b.pipe(op), sink=2), num_threads=1) as pipeline:
        for k, step in enumerate(steps):
            await_event(step.reached)
            counts.append(step.num_calls)
            assert pipeline.get_item(timeout=TIMEOUT) == k
    assert counts == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("size", [0, -1, True, 1.0, "1", None])
def test_other_sink_sizes_are_refused(size: Any) -> None:
    """An int of at least one, and the message says what was given."""
    with pytest.raises(ValueError):
        PipelineBuilder[Any, Any]().add_source([1]).add_sink(size)


def test_a_second_sink_is_refused() -> None:
    """One pipeline has one sink."""
    with pytest.raises(ValueError):
        PipelineBuilder[Any, Any]().add_source([1]).add_sink(1).add_sink(1)


def test_the_default_sink_holds_three() -> None:
    """As ``add_sink()`` says."""
    called = Called(4)
    builder: Any = PipelineBuilder[Any, Any]().add_source(itertools.count()).pipe(called.sync).add_sink()
    with running(builder) as pipeline:
        await_event(called.reached)
    assert called.num_calls == 4
    assert list(pipeline) == [0, 1, 2]


def test_small_buffers_lose_nothing() -> None:
    """Stages of every kind with the smallest sink, on one thread."""
    builder = build_of(
        range(60),
        lambda b: b.pipe(Called(0).sync, concurrency=3, output_order="input").pipe(Called(0).asynchronous),
        lambda b: b.aggregate(7).disaggregate().pipe(Called(0).generator).aggregate(1).disaggregate(),
        sink=1,
    )
    assert drain(builder.build(num_threads=1)) == (list(range(60)), None)
