"""Short calls: a source that has no room for another item runs them itself, whatever else happens meanwhile.

Which calls are short is decided by the clock, so beside other load, or in a debugger, none may be. Here all are.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, build_pipeline
from spdl.pipeline._engine._lanes._pool import PoolLane
from spdl.pipeline._engine._stages import _call
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left
from tests.support.running import TIMEOUT, build_of, drain, run, running

NUM = 400


@pytest.fixture(autouse=True, scope="module")
def all_calls_are_short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_call, "_CHEAP_CALL", 1e9)
        yield


class Threads:
    """An op that adds one, and notes which threads run it."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, item: int) -> int:
        self.names.append(threading.current_thread().name.rpartition("-")[0])
        return item + 1


def add_one(item: int) -> int:
    return item + 1


def odd(item: int) -> int | None:
    return item if item % 2 else None


def fail_at_tens(item: int) -> int:
    if item % 10 == 0:
        raise ValueError(item)
    return item


def twice(item: int) -> Iterator[int]:
    yield item
    yield item


@pytest.mark.parametrize("order", ["input", "completion"])
@pytest.mark.parametrize("num_stages", [1, 3])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_source_without_room_runs_short_calls(order: Any, num_stages: int, concurrency: int) -> None:
    """Every item passes each stage once, on whichever thread."""
    ops = [Threads() for _ in range(num_stages)]
    stages = [lambda b, op=op: b.pipe(op, concurrency=concurrency, output_order=order) for op in ops]
    with nothing_left():
        items = run(build_of(range(NUM), *stages, sink=1), num_threads=4)
    assert (items if order == "input" or concurrency == 1 else sorted(items)) == [n + num_stages for n in range(NUM)]
    for op in ops:
        assert len(op.names) == NUM
        assert len(set(op.names)) <= 2  # those of the source, and of the pool


def pool_of(pipeline: Pipeline[Any]) -> PoolLane:
    return next(lane for lane in pipeline._engine.lanes if isinstance(lane, PoolLane))


def await_rest(pool: PoolLane) -> None:
    """Wait until the source's thread and all workers sleep. Time passes by itself."""
    while not pool.resting or pool.num_waking or len(pool.idle) < pool.num_started:
        threading.Event().wait(0.001)


def test_room_wakes_the_source_and_no_worker_for_short_calls() -> None:
    """The source has to be woken anyway. A worker would have to wake it, and then both would take turns."""
    op = Threads()
    with nothing_left(), running(build_of(range(NUM), lambda b: b.pipe(op), sink=1), num_threads=2) as pipeline:
        pool = pool_of(pipeline)
        for item in range(100):  # by then, the calls are known to be short
            assert pipeline.get_item(timeout=TIMEOUT) == item + 1
        await_rest(pool)
        num_before = len(op.names)
        for item in range(100, 150):
            assert pipeline.get_item(timeout=TIMEOUT) == item + 1
            await_rest(pool)
        assert not any(name.endswith("worker") for name in op.names[num_before:])


def test_room_wakes_a_worker_for_calls_that_are_not_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of a source that has no room stays free to go on with the source."""
    monkeypatch.setattr(_call, "_CHEAP_CALL", 0.0)
    op = Threads()
    with nothing_left(), running(build_of(range(NUM), lambda b: b.pipe(op), sink=1), num_threads=2) as pipeline:
        pool = pool_of(pipeline)
        for item in range(100):
            assert pipeline.get_item(timeout=TIMEOUT) == item + 1
            await_rest(pool)
        assert all(name.endswith("worker") for name in op.names)


def test_a_source_that_is_woken_to_help_may_find_nothing_to_claim() -> None:
    """What is ready goes to a worker if the pipeline has learnt meanwhile that the calls are not short."""
    op = Threads()
    with nothing_left(), running(build_of(range(NUM), lambda b: b.pipe(op), sink=1), num_threads=2) as pipeline:
        pool = pool_of(pipeline)
        for item in range(100):
            assert pipeline.get_item(timeout=TIMEOUT) == item + 1
        await_rest(pool)
        with pipeline._engine.lock:
            stage = pool.stages[0]
            assert not stage.ready()
            pipeline._engine.sink.inbox.take()  # wakes the source to help
            assert not pool.resting
            assert pool.num_waking == 1
            stage.cheap_score = 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_call, "_CHEAP_CALL", 0.0)
            for item in range(101, NUM // 2):
                assert pipeline.get_item(timeout=TIMEOUT) == item + 1
        await_rest(pool)


def test_short_calls_fail_drop_and_multiply_as_others() -> None:
    """The outcome does not depend on the thread."""
    builder = build_of(
        range(NUM), lambda b: b.pipe(fail_at_tens), lambda b: b.pipe(odd), lambda b: b.pipe(add_one), sink=1
    )
    items, failure = drain(builder.build(num_threads=2))
    assert failure is None
    assert items == [n + 1 for n in range(1, NUM, 2)]
    assert run(build_of(range(NUM), lambda b: b.pipe(add_one).pipe(twice), sink=1)) == [
        n + 1 for n in range(NUM) for _ in range(2)
    ]


def test_a_limit_of_failures_ends_what_the_source_runs() -> None:
    """The consumer gets what was emitted, then the failure."""
    pipeline: Pipeline[Any] = (
        PipelineBuilder()
        .add_source(range(NUM))
        .pipe(fail_at_tens, concurrency=2)
        .pipe(add_one)
        .add_sink(1)
        .build(num_threads=2, max_failures=20)
    )
    items: list[int] = []
    with nothing_left(), pytest.raises(PipelineFailure), pipeline.auto_stop(timeout=TIMEOUT):
        items.extend(pipeline)
    assert len(items) < NUM
    assert set(items) <= {n + 1 for n in range(NUM) if n % 10}


@cases(20)
@given(taken=st.integers(0, NUM), num_threads=st.integers(1, 3), sink=st.integers(1, 3))
def test_a_stop_ends_a_source_that_runs_calls(taken: int, num_threads: int, sink: int) -> None:
    """At any item; what has come is right."""
    builder = build_of(range(NUM), lambda b: b.pipe(add_one), lambda b: b.pipe(add_one), sink=sink)
    with nothing_left(), running(builder, num_threads=num_threads) as pipeline:
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(taken)] == [n + 2 for n in range(taken)]


def test_two_sources_run_calls_of_one_pool() -> None:
    """Each helps; neither runs more calls at once than there are threads."""
    running_now, most, lock = 0, 0, threading.Lock()

    def count(item: int) -> int:
        nonlocal running_now, most
        with lock:
            running_now += 1
            most = max(most, running_now)
        with lock:
            running_now -= 1
        return item

    subs: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig(range(start, start + NUM)), [Pipe(count, concurrency=2)], SinkConfig(1))
        for start in (0, NUM)
    ]
    config: PipelineConfig[Any] = PipelineConfig(Merge(subs), [Pipe(count, concurrency=2)], SinkConfig(1))
    items, failure = drain(build_pipeline(config, num_threads=2))
    assert failure is None
    assert sorted(items) == list(range(2 * NUM))
    assert most <= 2
