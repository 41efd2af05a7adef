"""What ``Pipeline.stats()`` says of each stage agrees with what happened."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Aggregator, Pipe
from tests.pipeline.observe.counting import ended, named, odd_fails, passed_async
from tests.support.running import TIMEOUT, await_event, build_of

# -- counts


def test_counts_of_a_chain() -> None:
    """Every stage: calls, failures, drops and what it emitted are what happened."""

    def drop_zero(item: int) -> int | None:
        return item or None

    stats = ended(lambda b: b.pipe(odd_fails), lambda b: b.pipe(drop_zero))
    source, first, second, sink = stats.stages
    assert (source.num_emitted, source.num_failures) == (10, 0)
    assert (first.num_calls, first.num_failures, first.num_dropped, first.num_emitted) == (10, 5, 0, 5)
    assert (second.num_calls, second.num_failures, second.num_dropped, second.num_emitted) == (5, 0, 1, 4)
    assert sink.num_emitted == stats.num_items == 4
    assert all(stage.num_in_flight == 0 and stage.queue_len == 0 for stage in stats.stages)


def twice(item: int) -> Iterator[int | None]:
    yield item
    yield None
    yield item


async def twice_async(item: int) -> AsyncIterator[int | None]:
    yield item
    yield None
    yield item


@pytest.mark.parametrize("op", [twice, twice_async])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_counts_of_a_generator(op: Any, concurrency: int) -> None:
    """Each yield is a call, the end is none; a yielded None is dropped."""
    stage = ended(lambda b: b.pipe(op, name="op", concurrency=concurrency)).stages[1]
    assert (stage.num_calls, stage.num_failures, stage.num_dropped, stage.num_emitted) == (30, 0, 10, 20)


def breaking(item: int) -> Iterator[int]:
    yield item
    raise ValueError(item)


def test_counts_of_a_generator_that_fails_after_a_yield() -> None:
    """What it had yielded stays; the failing step is a failed call."""
    stage = ended(lambda b: b.pipe(breaking)).stages[1]
    assert (stage.num_calls, stage.num_failures, stage.num_emitted) == (20, 10, 10)


def test_counts_of_disaggregate() -> None:
    """One emission per element, one failure per item that cannot be iterated."""
    stage = ended(lambda b: b.disaggregate(), source=[[1, 2], [], 3, [4]]).stages[1]
    assert (stage.num_emitted, stage.num_failures) == (3, 1)


class Sum(Aggregator[int, int]):
    def __init__(self) -> None:
        self.total = 0

    def accumulate(self, item: int) -> None:
        self.total += item

    def flush(self) -> int:
        return self.total


@pytest.mark.parametrize(("aggregator", "num_emitted"), [(4, 3), (Sum(), 1)])
def test_counts_of_an_aggregate(aggregator: Any, num_emitted: int) -> None:
    """Ten items and the flush are eleven calls."""
    stage = ended(lambda b: b.aggregate(aggregator)).stages[1]
    assert (stage.num_calls, stage.num_failures, stage.num_emitted) == (11, 0, num_emitted)


def test_counts_of_path_variants() -> None:
    """The router emits what it is given; the merge what the paths emit."""
    stats = ended(
        lambda b: b.path_variants(lambda item: item % 2, [[Pipe(int, name="even")], [Pipe(odd_fails, name="odd")]])
    )
    assert named(stats, "path_variants").num_emitted == 10
    assert (named(stats, "even").num_emitted, named(stats, "odd").num_failures) == (5, 5)
    assert named(stats, "path_variants_merge").num_emitted == 5
    assert stats.num_items == 5


def test_counts_of_an_executor_stage() -> None:
    """A stage on a user's executor is counted as any other."""
    with ThreadPoolExecutor(2) as executor:
        stage = ended(lambda b: b.pipe(odd_fails, executor=executor, concurrency=2)).stages[1]
    assert (stage.num_calls, stage.num_failures, stage.num_emitted) == (10, 5, 5)


def test_each_item_is_emitted_dropped_or_failed() -> None:
    """in = out + dropped + failed, at every 1:1 stage."""

    def op(item: int) -> int | None:
        return None if item % 4 == 0 else odd_fails(item)

    stats = ended(*[lambda b: b.pipe(op, concurrency=2)] * 3, source=range(100))
    for before, stage in zip(stats.stages, stats.stages[1:-1], strict=False):
        assert before.num_emitted == stage.num_calls == stage.num_emitted + stage.num_dropped + stage.num_failures


def test_num_items_counts_what_the_consumer_was_given() -> None:
    """Not what waits in the sink, and not the end."""
    second = threading.Event()

    def source() -> Iterator[int]:
        yield 0
        yield 1
        second.set()
        yield 2

    pipeline = build_of(source()).build(num_threads=1)
    pipeline.start()
    await_event(second)
    assert pipeline.stats().num_items == 0
    pipeline.get_item()
    assert pipeline.stats().num_items == 1
    list(pipeline)
    with pytest.raises(EOFError):
        pipeline.get_item()
    assert pipeline.stats().num_items == 3


def test_epochs_add_up() -> None:
    """A continuous pipeline counts over all of its epochs; marks are no items."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    pipeline = builder.add_source(range(4), continuous=True).pipe(int).add_sink(1).build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline) == list(pipeline) == [0, 1, 2, 3]
        stats = pipeline.stats()
        assert stats.num_items == 8
        assert stats.stages[1].num_calls >= 8


# -- calls in flight


def test_calls_in_flight_are_counted_while_they_run() -> None:
    """Two calls are inside the op: num_in_flight is two, and they are not yet calls that ended."""
    inside, gate = threading.Barrier(3), threading.Event()

    def op(item: int) -> int:
        inside.wait(TIMEOUT)
        await_event(gate)
        return item

    pipeline = build_of(range(2), lambda b: b.pipe(op, concurrency=2)).build(num_threads=2)
    pipeline.start()
    inside.wait(TIMEOUT)
    stage = pipeline.stats().stages[1]
    gate.set()
    assert (stage.num_in_flight, stage.num_calls, stage.num_emitted) == (2, 0, 0)
    assert sorted(pipeline) == [0, 1]
    assert pipeline.stats().stages[1].num_in_flight == 0


def test_async_calls_in_flight_are_counted_while_they_run() -> None:
    """The same on the loop."""
    inside = threading.Semaphore(0)
    opened: list[Callable[[], object]] = []

    async def op(item: int) -> int:
        gate, loop = asyncio.Event(), asyncio.get_running_loop()
        opened.append(lambda: loop.call_soon_threadsafe(gate.set))
        inside.release()
        await gate.wait()
        return item

    pipeline = build_of(range(2), lambda b: b.pipe(op, concurrency=2)).build(num_threads=1)
    pipeline.start()
    for _ in range(2):
        assert inside.acquire(timeout=TIMEOUT)
    stage = pipeline.stats().stages[1]
    for let in opened:
        let()
    assert (stage.num_in_flight, stage.num_calls) == (2, 0)
    assert sorted(pipeline) == [0, 1]


def test_queue_is_the_output_channel() -> None:
    """A full sink shows in the length of the last stage's queue; capacities are two and the sink's size."""
    fourth = threading.Event()

    def source() -> Iterator[int]:
        for item in range(9):
            if item == 3:
                fourth.set()
            yield item

    pipeline = build_of(source(), sink=3).build(num_threads=1)
    pipeline.start()
    await_event(fourth)
    stats = pipeline.stats()
    assert (stats.stages[0].queue_len, stats.stages[0].queue_capacity) == (3, 3)
    assert 0 < stats.stages[0].occupancy <= 1
    assert list(pipeline) == list(range(9))
    pipeline = build_of(range(3), lambda b: b.pipe(int), sink=5).build(num_threads=1)
    assert [stage.queue_capacity for stage in pipeline.stats().stages][:2] == [2, 5]


# -- times


def test_times_are_never_negative_and_shares_never_above_one() -> None:
    """Whatever was measured makes sense."""
    stats = ended(lambda b: b.pipe(odd_fails, concurrency=2), lambda b: b.pipe(passed_async), lambda b: b.aggregate(2))
    assert stats.elapsed > 0
    assert 0 <= stats.consumer_wait <= stats.elapsed
    for stage in stats.stages:
        assert stage.busy >= 0
        assert 0 <= stage.starved <= stats.elapsed
        assert 0 <= stage.blocked <= stats.elapsed
        assert 0 <= stage.occupancy <= 1
        assert stage.rate == pytest.approx(stage.num_emitted / stats.elapsed)


def test_mean_time_is_over_successful_calls() -> None:
    """A stage whose every call fails has a mean of 0; one with successes has a positive one."""

    def refuse(item: int) -> int:
        raise ValueError

    stats = ended(lambda b: b.pipe(int, name="good"), lambda b: b.pipe(refuse, max_failures=-1))
    assert named(stats, "good").wall_per_call > 0
    assert named(stats, "refuse").wall_per_call == 0


def test_cpu_time_is_told_for_threads_and_not_for_the_loop() -> None:
    """Thread CPU time of sync ops; None for async ops, where it cannot be measured."""

    def work(item: int) -> int:
        return sum(range(2000)) + item

    stats = ended(lambda b: b.pipe(work), lambda b: b.pipe(passed_async), source=range(200))
    cpu = named(stats, "work").cpu_per_call
    assert cpu is not None
    assert cpu > 0
    assert named(stats, "passed_async").cpu_per_call is None


def test_cpu_time_of_an_executor_is_none_or_measured() -> None:
    """Where the CPU time of a call is not known it is None, never a wrong number."""
    with ThreadPoolExecutor(1) as executor:
        stats = ended(lambda b: b.pipe(int, executor=executor))
    cpu = stats.stages[1].cpu_per_call
    assert cpu is None or cpu >= 0


def test_waiting_of_the_consumer_is_counted() -> None:
    """A read that had to wait shows in consumer_wait."""
    gate = threading.Event()

    def source() -> Iterator[int]:
        await_event(gate)
        yield 1

    pipeline = build_of(source()).build(num_threads=1)
    with pytest.raises(TimeoutError):
        pipeline.get_item(timeout=0.001)
    gate.set()
    assert pipeline.get_item(timeout=TIMEOUT) == 1
    assert pipeline.stats().consumer_wait >= 0.001
    pipeline.stop()


def test_open_waits_are_in_the_record() -> None:
    """A stage that starves, and one that is blocked, right now show it before the wait is over."""
    first, gate = threading.Event(), threading.Event()

    def source() -> Iterator[int]:
        yield 0
        first.set()
        await_event(gate)

    pipeline = build_of(source(), lambda b: b.pipe(int)).build(num_threads=1)
    assert pipeline.get_item(timeout=TIMEOUT) == 0
    await_event(first)
    a = pipeline.stats()
    b = pipeline.stats()
    assert b.stages[1].starved >= a.stages[1].starved > 0
    gate.set()
    assert list(pipeline) == []


# -- failures


def test_failures_name_item_origin_and_error() -> None:
    """Each failed item is there with its source position, a short repr and the very exception."""
    stats = ended(lambda b: b.pipe(odd_fails))
    failures = stats.stages[1].failures
    assert [failure.origin for failure in failures] == [1, 3, 5, 7, 9]
    assert [failure.item_repr for failure in failures] == ["1", "3", "5", "7", "9"]
    assert [str(failure.error) for failure in failures] == [f"odd {k}" for k in (1, 3, 5, 7, 9)]
    assert {failure.stage for failure in failures} == {str(stats.stages[1].info)}


def test_only_the_newest_failures_are_kept() -> None:
    """At most sixteen, the newest, oldest first; the count is of all."""
    stage = ended(lambda b: b.pipe(odd_fails), source=range(100)).stages[1]
    assert stage.num_failures == 50
    assert [failure.origin for failure in stage.failures] == list(range(69, 100, 2))


def test_repr_of_a_failed_item_is_short_and_cannot_fail() -> None:
    """A huge item and one whose repr raises do not hurt."""

    class Prickly:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    def refuse(item: Any) -> Any:
        raise ValueError

    stage = ended(lambda b: b.pipe(refuse, max_failures=-1), source=["x" * 100_000, Prickly()]).stages[1]
    assert [len(failure.item_repr) < 1000 for failure in stage.failures] == [True, True]
    assert "Prickly" in stage.failures[1].item_repr
