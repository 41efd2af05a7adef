"""``Pipeline.stats()`` counts the time of calls that have not returned, and of a consumer that still waits."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineStats
from spdl.pipeline._engine._counts import take_calls
from tests.support.running import TIMEOUT, await_event, build_of


class Gate:
    """An op, and a source, that are stuck until the gate opens."""

    def __init__(self) -> None:
        self.is_inside = threading.Event()
        self.may_leave = threading.Event()

    def wait(self, item: int) -> int:
        self.is_inside.set()
        self.may_leave.wait(TIMEOUT)
        return item

    async def wait_async(self, item: int) -> int:
        self.is_inside.set()
        await asyncio.to_thread(self.may_leave.wait, TIMEOUT)
        return item

    def __iter__(self) -> Iterator[int]:
        yield 0
        self.wait(1)


@contextmanager
def waiting_reader(pipeline: Pipeline[Any]) -> Iterator[None]:
    reader = threading.Thread(target=lambda: list(pipeline.get_iterator(timeout=TIMEOUT)))
    reader.start()
    try:
        yield
    finally:
        reader.join(TIMEOUT)


def until(pipeline: Pipeline[Any], holds: Callable[[PipelineStats], bool]) -> PipelineStats:
    """The statistics, when they are so. Time passes by itself."""
    while not holds(stats := pipeline.stats()):
        threading.Event().wait(0.001)
    return stats


def is_mostly_in(index: int) -> Callable[[PipelineStats], bool]:
    def holds(stats: PipelineStats) -> bool:
        least = 0.8 * stats.elapsed
        return stats.consumer_wait > least and stats.stages[index].busy > least

    return holds


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("where", ["pool", "loop", "executor"])
def test_a_stuck_call_is_busy_and_limits(where: str, concurrency: int) -> None:
    """The stage of a call that does not return is the bottleneck, with and without free slots, not the sink."""
    gate = Gate()
    op = gate.wait_async if where == "loop" else gate.wait
    with ThreadPoolExecutor(1) as executor:
        options: dict[str, Any] = {"executor": executor} if where == "executor" else {}
        pipeline = build_of(
            [1],
            lambda b: b.pipe(lambda item: item, name="before"),
            lambda b: b.pipe(op, name="stuck", concurrency=concurrency, **options),
        ).build(num_threads=4)
        with waiting_reader(pipeline):
            await_event(gate.is_inside)
            stats = until(pipeline, is_mostly_in(2))
            later = until(pipeline, lambda now: now.stages[2].busy > stats.stages[2].busy)
            gate.may_leave.set()
        assert stats.stages[2].busy > 0
        assert stats.stages[2].num_in_flight == 1
        assert stats.limiting_stage is stats.stages[2]
        assert pipeline.stats().stages[2].busy >= later.stages[2].busy


def test_a_stuck_source_is_busy_and_limits() -> None:
    """A source that is blocked in next() is the bottleneck."""
    gate = Gate()
    pipeline = build_of(gate, lambda b: b.pipe(lambda item: item, name="op")).build(num_threads=1)
    with waiting_reader(pipeline):
        await_event(gate.is_inside)
        stats = until(pipeline, is_mostly_in(0))
        gate.may_leave.set()
    assert stats.limiting_stage is stats.stages[0]


def test_a_source_that_waits_for_room_is_not_busy() -> None:
    """Time without room is not time inside next()."""
    pipeline = build_of(range(100), lambda b: b.pipe(lambda item: item, name="op")).build(num_threads=1)
    with pipeline.auto_stop():
        pipeline.get_item(timeout=TIMEOUT)
        stats = until(pipeline, lambda now: now.stages[0].blocked > 0.8 * now.elapsed)
        assert stats.stages[0].busy < 0.2 * stats.elapsed


class Fed:
    """A source that gives what it gets, and ends at ``None``. ``what`` says how its waits count."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.items: SimpleQueue[int | None] = SimpleQueue()

    def __iter__(self) -> Iterator[int]:
        while True:
            with getattr(threading.current_thread(), f"waiting_for_{self.what}")():
                item = self.items.get()
            if item is None:
                return
            yield item


@pytest.mark.parametrize(("what", "state"), [("consumer", "blocked"), ("input", "starved")])
def test_a_source_that_waits_for_others_is_not_busy(what: str, state: str) -> None:
    """Its time in next() is then lack of room or of input, and not that of a call in flight, and it does not limit."""
    source = Fed(what)
    pipeline = build_of(source, lambda b: b.pipe(lambda item: item, name="op")).build(num_threads=1)
    with pipeline.auto_stop():
        source.items.put(7)
        assert pipeline.get_item(timeout=TIMEOUT) == 7
        stats = until(pipeline, lambda now: getattr(now.stages[0], state) > 0.8 * now.elapsed)
        assert stats.stages[0].busy < 0.2 * stats.elapsed
        assert stats.limiting_stage is not stats.stages[0]
        assert take_calls(pipeline._engine) == ()
        source.items.put(8)
        assert pipeline.get_item(timeout=TIMEOUT) == 8
        later = until(pipeline, lambda now: now.elapsed > 2 * stats.elapsed)
        assert later.stages[0].busy >= stats.stages[0].busy
        source.items.put(None)
        assert list(pipeline) == []
    ended = pipeline.stats().stages[0]
    assert 0 <= ended.busy < 0.2 * ended.elapsed
    assert getattr(later.stages[0], state) <= getattr(ended, state) <= ended.elapsed


def test_a_source_that_waits_for_the_consumer_can_be_stopped() -> None:
    """What it does after the stop is no longer counted."""
    source = Fed("consumer")
    pipeline = build_of(source, lambda b: b.pipe(lambda item: item, name="op")).build(num_threads=1)
    pipeline.start()
    until(pipeline, lambda now: now.stages[0].blocked > 0)
    stopping = threading.Thread(target=pipeline.stop)
    stopping.start()
    until(pipeline, lambda now: now.state == "stopping")
    before = pipeline.stats().stages[0]
    source.items.put(None)
    stopping.join(TIMEOUT)
    after = pipeline.stats().stages[0]
    assert after.blocked == before.blocked
    assert after.busy < 0.5 * after.elapsed
