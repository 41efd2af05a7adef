"""``Pipeline.stats()``: records of any moment, taken from any thread, their differences, and the table."""

import dataclasses
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, PipelineStats
from tests.pipeline.observe.counting import SUMS, ended, odd_fails
from tests.support.running import TIMEOUT, await_event, build_of, running

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
    """str(stats) names every stage once and says which one holds the pipeline back.

    Times are made up: on a busy machine, any thread may be the one that does not get a CPU.
    """
    stats = ended(lambda b: b.pipe(int, name="light"), lambda b: b.pipe(int, name="heavy"), source=range(100))
    seconds = {"src": (0.0, 0.0, 9.0), "light": (1.0, 0.5, 8.5), "heavy": (9.5, 0.5, 0.0), "sink": (0.0, 9.9, 0.0)}
    stages = []
    for stage in stats.stages:
        busy, starved, blocked = seconds[stage.info.stage_name]
        stages.append(dataclasses.replace(stage, elapsed=10.0, busy=busy, starved=starved, blocked=blocked))
    stats = dataclasses.replace(stats, elapsed=10.0, consumer_wait=9.9, stages=tuple(stages))
    text = str(stats)
    for stage in stats.stages:
        assert sum(line.lstrip("-> ").startswith(str(stage.info)) for line in text.splitlines()) == 1
    marked = [line for line in text.splitlines() if line.startswith("->") and "limiting" not in line]
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
    assert sorted(items) == list(range(0, 2000, 2))


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
