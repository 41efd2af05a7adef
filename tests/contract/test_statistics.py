"""``Pipeline.stats()``: numbers that agree with what happened and with each other, at any time, from any thread."""

import asyncio
import dataclasses
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, PipelineStats, StageStats
from spdl.pipeline.defs import Aggregator, Pipe

from .running import TIMEOUT, await_event, build_of, running

SUMS = ("num_calls", "num_failures", "num_dropped", "num_emitted", "busy", "starved", "blocked")


def odd_fails(item: int) -> int:
    if item % 2:
        raise ValueError(f"odd {item}")
    return item


def ended(*stages: Callable[[PipelineBuilder[Any, Any]], Any], source: Any = None, **options: Any) -> PipelineStats:
    """The statistics of a pipeline that was read to its end."""
    pipeline: Pipeline[Any] = build_of(range(10) if source is None else source, *stages).build(num_threads=2, **options)
    list(pipeline.get_iterator(timeout=TIMEOUT))
    return pipeline.stats()


def named(stats: PipelineStats, name: str) -> StageStats:
    (stage,) = [stage for stage in stats.stages if stage.info.stage_name == name]
    return stage


# -- moments


def test_statistics_of_a_new_pipeline_are_zero() -> None:
    """Before the start nothing has happened; all stages are there."""
    pipeline = build_of(range(10), lambda b: b.pipe(int)).build(num_threads=3)
    stats = pipeline.stats()
    assert (stats.state, stats.elapsed, stats.num_items, stats.consumer_wait) == ("new", 0, 0, 0)
    assert stats.num_threads == 3
    assert [stage.info.stage_name for stage in stats.stages] == ["src", "int", "sink"]
    for stage in stats.stages:
        assert [getattr(stage, name) for name in SUMS] == [0] * len(SUMS)
        assert (stage.queue_len, stage.occupancy, stage.rate, stage.failures) == (0, 0, 0, ())


def test_state_follows_the_life_of_the_pipeline() -> None:
    """new, running, ended."""
    pipeline = build_of(range(3)).build(num_threads=1)
    states = [pipeline.stats().state]
    pipeline.start()
    states.append(pipeline.stats().state)
    list(pipeline)
    states.append(pipeline.stats().state)
    pipeline.stop()
    states.append(pipeline.stats().state)
    assert states == ["new", "running", "ended", "ended"] or states == ["new", "ended", "ended", "ended"]


def test_state_while_a_stop_waits_is_stopping() -> None:
    """Between the stop and the return of the last op the state is stopping; then ended."""
    entered, gate = threading.Event(), threading.Event()

    def op(item: int) -> int:
        entered.set()
        await_event(gate)
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(op, name="op")).build(num_threads=1)
    pipeline.start()
    await_event(entered)
    with pytest.raises(TimeoutError):
        pipeline.stop(timeout=0)
    gate.set()
    assert pipeline.stats().state in ("stopping", "ended")


def test_state_of_a_failed_pipeline() -> None:
    """A pipeline of which a stage has failed says so, before and after stop."""
    pipeline = build_of(range(9), lambda b: b.pipe(odd_fails, max_failures=0)).build(num_threads=1)
    with pytest.raises(PipelineFailure):
        list(pipeline)
    assert pipeline.stats().state == "failed"
    pipeline.stop()
    assert pipeline.stats().state == "failed"


def test_statistics_of_an_ended_pipeline_stand_still() -> None:
    """Two records taken after the end are equal: no clock runs on."""
    pipeline = build_of(range(9), lambda b: b.pipe(odd_fails)).build(num_threads=1)
    list(pipeline)
    assert pipeline.stats() == pipeline.stats()


def test_statistics_of_a_stopped_pipeline_stand_still() -> None:
    """The same after a stop in the middle."""

    def source() -> Iterator[int]:
        while True:
            yield 1

    pipeline = build_of(source(), lambda b: b.pipe(int)).build(num_threads=1)
    assert pipeline.get_item(timeout=TIMEOUT) == 1
    pipeline.stop()
    first, second = pipeline.stats(), pipeline.stats()
    assert first.elapsed == second.elapsed
    assert [stage.starved for stage in first.stages] == [stage.starved for stage in second.stages]
    assert [stage.blocked for stage in first.stages] == [stage.blocked for stage in second.stages]


def test_record_is_frozen_and_pickles() -> None:
    """A record of one moment: it cannot be changed, and it travels."""
    stats = ended(lambda b: b.pipe(odd_fails))
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.num_items = 0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.stages[0].num_calls = 0  # type: ignore[misc]
    copy = pickle.loads(pickle.dumps(stats))
    assert [stage.num_failures for stage in copy.stages] == [stage.num_failures for stage in stats.stages]


def test_record_of_a_running_pipeline_does_not_change_later() -> None:
    """What was taken while it ran stays as it was."""
    with running(build_of(range(5), lambda b: b.pipe(int))) as pipeline:
        pipeline.get_item(timeout=TIMEOUT)
        stats = pipeline.stats()
        text = repr(stats)
        list(pipeline)
        assert repr(stats) == text


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


async def passed_async(item: int) -> int:
    await asyncio.sleep(0)
    return item


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

    stats = ended(lambda b: b.pipe(int, name="good"), lambda b: b.pipe(refuse))
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

    stage = ended(lambda b: b.pipe(refuse), source=["x" * 100_000, Prickly()]).stages[1]
    assert [len(failure.item_repr) < 1000 for failure in stage.failures] == [True, True]
    assert "Prickly" in stage.failures[1].item_repr


# -- intervals and the table


def test_difference_of_two_records_is_the_interval() -> None:
    """Sums are subtracted, moments are those of the later record."""
    with running(build_of(range(50), lambda b: b.pipe(odd_fails))) as pipeline:
        for _ in range(5):
            pipeline.get_item(timeout=TIMEOUT)
        a = pipeline.stats()
        list(pipeline)
        b = pipeline.stats()
    interval = b - a
    assert isinstance(interval, PipelineStats)
    assert interval.num_items == b.num_items - a.num_items == 20
    assert interval.elapsed == pytest.approx(b.elapsed - a.elapsed)
    assert interval.state == b.state
    for late, early, between in zip(b.stages, a.stages, interval.stages, strict=True):
        assert between.info == late.info
        for name in SUMS:
            assert getattr(between, name) == pytest.approx(getattr(late, name) - getattr(early, name))
        assert between.queue_len == late.queue_len
    assert interval.stages[1].rate == pytest.approx(interval.stages[1].num_emitted / interval.elapsed)


def test_difference_to_the_start_is_the_record_itself() -> None:
    """Subtracting the record of the new pipeline changes no sum."""
    pipeline = build_of(range(9), lambda b: b.pipe(int)).build(num_threads=1)
    a = pipeline.stats()
    list(pipeline)
    b = pipeline.stats()
    assert (b - a).num_items == b.num_items
    assert [s.num_calls for s in (b - a).stages] == [s.num_calls for s in b.stages]


def test_difference_of_two_pipelines_is_refused() -> None:
    """Records of different pipelines have no difference."""
    with pytest.raises(ValueError, match="different"):
        ended() - ended()


def test_table_has_a_line_per_stage_and_marks_the_limiting_one() -> None:
    """str(stats) names every stage once and says which one holds the pipeline back."""

    def work(item: int) -> int:
        return sum(range(20_000)) + item

    stats = ended(lambda b: b.pipe(int, name="light"), lambda b: b.pipe(work, name="heavy"), source=range(100))
    text = str(stats)
    for stage in stats.stages:
        assert sum(line.lstrip("* ").startswith(str(stage.info)) for line in text.splitlines()) == 1
    marked = [line for line in text.splitlines() if line.startswith("*") and "limiting" not in line]
    assert len(marked) == 1
    assert ":heavy" in marked[0]


@pytest.mark.parametrize("take", [str, repr])
def test_every_moment_can_be_shown(take: Callable[[object], str]) -> None:
    """A new, a running, and an ended pipeline have a table."""
    pipeline = build_of(range(3), lambda b: b.pipe(int)).build(num_threads=1)
    texts = [take(pipeline.stats())]
    pipeline.get_item(timeout=TIMEOUT)
    texts.append(take(pipeline.stats()))
    list(pipeline)
    texts.append(take(pipeline.stats()))
    assert all("int" in text for text in texts)


# -- from anywhere


def test_statistics_may_be_taken_from_any_thread_while_all_runs() -> None:
    """Threads that take records all the time see numbers that only grow and never contradict each other."""
    pipeline = build_of(range(2000), lambda b: b.pipe(odd_fails, concurrency=2), lambda b: b.pipe(int)).build(
        num_threads=2
    )
    pipeline.start()
    done, errors = threading.Event(), []

    def watch() -> None:
        try:
            before = pipeline.stats()
            while not done.is_set():
                now = pipeline.stats()
                first = now.stages[1]
                assert first.num_calls >= first.num_failures + first.num_dropped
                assert first.num_in_flight <= 2
                assert now.num_items <= now.stages[2].num_emitted <= now.stages[1].num_emitted
                assert all(getattr(s, name) >= -1e-9 for s in (now - before).stages for name in SUMS)
                before = now
        except BaseException as exc:
            errors.append(exc)

    watchers = [threading.Thread(target=watch) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    items = list(pipeline)
    done.set()
    for watcher in watchers:
        watcher.join(TIMEOUT)
    assert errors == []
    assert items == list(range(0, 2000, 2))


def test_statistics_may_be_taken_inside_an_op() -> None:
    """An op that asks its own pipeline does not block it."""
    holder: list[Pipeline[Any]] = []

    def op(item: int) -> int:
        return holder[0].stats().stages[1].num_in_flight

    async def op_async(item: int) -> int:
        return holder[0].stats().stages[1].num_in_flight

    ops: list[Any] = [op, op_async]
    for one in ops:
        builder: PipelineBuilder[Any, Any] = PipelineBuilder()
        pipeline = builder.add_source(range(3)).pipe(one).add_sink().build(num_threads=1)
        holder[:] = [pipeline]
        assert list(pipeline) == [1, 1, 1]
    holder.clear()


def test_number_of_threads_is_chosen_and_shown() -> None:
    """Without num_threads a sensible number is chosen, and stats() shows it."""
    assert build_of(range(3)).build().stats().num_threads >= 1
    assert build_of(range(3)).build(num_threads=7).stats().num_threads == 7
