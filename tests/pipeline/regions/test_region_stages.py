"""What may be inside of a region, and what comes out."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, build_pipeline
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    SinkConfig,
    SourceConfig,
)
from tests.pipeline.regions import ops

TWO = ProcessPoolExecutorConfig(2)
ONE = ProcessPoolExecutorConfig(1)


def run(builder: PipelineBuilder[Any, Any], **options: Any) -> tuple[list[Any], Pipeline[Any]]:
    pipeline = builder.add_sink().build(**{"num_threads": 2, **options})
    with pipeline.auto_stop():
        return list(pipeline), pipeline


def test_one_worker_keeps_the_order() -> None:
    """With one worker and concurrency 1 items come out as they went in."""
    builder = PipelineBuilder().add_source(range(30)).to(ONE).pipe(ops.double).pipe(ops.plus_one).to(MAIN_PROCESS)
    items, pipeline = run(builder)
    assert items == [2 * i + 1 for i in range(30)]
    stage = pipeline.stats().stages[1]
    assert stage.info.stage_name == "subprocess_pipeline(double+plus_one)"
    assert (stage.num_calls, stage.num_emitted, stage.num_in_flight) == (30, 30, 0)
    assert stage.busy > 0


def test_items_are_dealt_to_all_workers() -> None:
    """Each of two workers gets some, and none of it runs in this process."""
    items, _ = run(PipelineBuilder().add_source(range(8)).to(TWO).pipe(ops.with_pid).to(MAIN_PROCESS))
    assert sorted(item for item, _ in items) == list(range(8))
    pids = {pid for _, pid in items}
    assert len(pids) == 2
    assert os.getpid() not in pids


@pytest.mark.parametrize("num_items", [0, 1])
def test_fewer_items_than_workers(num_items: int) -> None:
    """Workers without items do not hold up the end."""
    items, _ = run(PipelineBuilder().add_source(range(num_items)).to(TWO).pipe(ops.double).to(MAIN_PROCESS))
    assert items == [0] * num_items


def test_two_regions_and_stages_around_them() -> None:
    """Regions may be adjacent; stages before, between and after run here."""
    builder = (
        PipelineBuilder()
        .add_source(range(10))
        .pipe(ops.plus_one)
        .to(ONE)
        .pipe(ops.with_pid)
        .to(ONE)
        .pipe(ops.with_pid)
        .to(MAIN_PROCESS)
        .pipe(ops.with_pid)
    )
    items, pipeline = run(builder)
    assert [item[0][0][0] for item in items] == list(range(1, 11))
    assert len({(first, second, third) for ((_, first), second), third in items}) == 1
    ((_, first), second), third = items[0]
    assert len({first, second, third}) == 3
    assert third == os.getpid()
    assert [s.info.stage_id for s in pipeline.stats().stages] == ["0", "1", "2", "3", "4", "5"]


def test_a_description_may_leave_its_last_region_open() -> None:
    """The sink then takes what comes out of the region."""
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(range(5)), [PlacementConfig(ONE, buffer_size=2), Pipe(ops.double)], SinkConfig(2)
    )
    with (pipeline := build_pipeline(config, num_threads=1)).auto_stop():
        assert list(pipeline) == [0, 2, 4, 6, 8]


def test_aggregate_and_disaggregate() -> None:
    """Each worker makes lists of what it gets; incomplete ones come at the end."""
    builder = PipelineBuilder().add_source(range(7)).to(TWO, buffer_size=2).aggregate(3).to(MAIN_PROCESS)
    lists, _ = run(builder)
    assert sorted(item for each in lists for item in each) == list(range(7))
    assert all(len(each) <= 3 for each in lists)
    builder = PipelineBuilder().add_source([[1, 2], [], [3]]).to(TWO).disaggregate().to(MAIN_PROCESS)
    items, _ = run(builder)
    assert sorted(items) == [1, 2, 3]


def test_an_aggregator_of_the_users() -> None:
    """It is copied to each worker."""
    items, _ = run(PipelineBuilder().add_source(range(9)).to(TWO).aggregate(ops.Sum()).to(MAIN_PROCESS))
    assert sum(items) == sum(range(9))


@pytest.mark.parametrize("op", [ops.three_of_each, ops.three_of_each_async])
def test_generators(op: Any) -> None:
    """All outputs come, those of one item in order."""
    items, pipeline = run(PipelineBuilder().add_source(range(6)).to(TWO, buffer_size=2).pipe(op).to(MAIN_PROCESS))
    assert sorted(items) == [(i, k) for i in range(6) for k in range(3)]
    assert [k for i, k in items if i == 4] == [0, 1, 2]
    assert pipeline._engine.ledger.sources[0].num_consumed == 6


def test_async_ops() -> None:
    """They run on a loop in the worker."""
    items, _ = run(
        PipelineBuilder().add_source(range(6)).to(TWO).pipe(ops.double_async, concurrency=2).to(MAIN_PROCESS)
    )
    assert sorted(items) == [0, 2, 4, 6, 8, 10]


def test_path_variants() -> None:
    """They work inside as they do outside."""
    paths: list[Any] = [[Pipe(ops.double)], [Pipe(ops.plus_one), Aggregate(2)]]
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(range(8)),
        [PlacementConfig(ONE), PathVariants(ops.parity, paths), PlacementConfig(MAIN_PROCESS)],
        SinkConfig(2),
    )
    with (pipeline := build_pipeline(config, num_threads=1)).auto_stop():
        items = list(pipeline)
    assert sorted(item for item in items if isinstance(item, int)) == [0, 4, 8, 12]
    assert [item for item in items if isinstance(item, list)] == [[2, 4], [6, 8]]


def test_an_executor_inside_is_ignored() -> None:
    """It need not even pickle."""
    with ThreadPoolExecutor(1) as executor:
        builder = PipelineBuilder().add_source(range(4)).to(ONE).pipe(ops.with_pid, executor=executor).to(MAIN_PROCESS)
        items, _ = run(builder)
    assert os.getpid() not in {pid for _, pid in items}


def test_filters_are_counted() -> None:
    """In = out + dropped."""
    items, pipeline = run(PipelineBuilder().add_source(range(10)).to(TWO).pipe(ops.odd_only).to(MAIN_PROCESS))
    assert sorted(items) == [1, 3, 5, 7, 9]
    stage = pipeline.stats().stages[1]
    assert (stage.num_calls, stage.num_emitted, stage.num_dropped, stage.num_failures) == (10, 5, 5, 0)


@pytest.mark.parametrize(("size_in", "size_out"), [(1, 1), (4, 1), (1, 4), (3, 5)])
def test_transfers_of_any_size(size_in: int, size_out: int) -> None:
    """Incomplete transfers are flushed: nothing is lost, nothing waits."""
    builder = (
        PipelineBuilder()
        .add_source(range(50))
        .to(TWO, buffer_size=size_in)
        .pipe(ops.double)
        .to(MAIN_PROCESS, buffer_size=size_out)
    )
    items, _ = run(builder)
    assert sorted(items) == [2 * i for i in range(50)]


def test_initializer_runs_before_the_pipeline_is_built() -> None:
    """What it sets is there for the ops."""
    workers = ProcessPoolExecutorConfig(2, initializer=ops.remember_one, initargs=("here",))
    items, _ = run(PipelineBuilder().add_source(range(4)).to(workers).pipe(ops.recall).to(MAIN_PROCESS))
    assert sorted(items) == [(i, "here") for i in range(4)]
    assert "one" not in ops.state


def test_defaults_that_an_initializer_sets_hold_in_the_worker() -> None:
    """The hook class is used there; hooks of this build are not."""
    workers = ProcessPoolExecutorConfig(1, initializer=ops.use_hooks)
    items, _ = run(PipelineBuilder().add_source(range(3)).to(workers).pipe(ops.num_hooked).to(MAIN_PROCESS))
    assert items == [1, 2, 3]
    assert "hooked" not in ops.state


def test_no_item_waits_in_a_transfer_that_is_not_full() -> None:
    """A source that gives one item at a time, after the one before came out, is served with large transfers too."""
    given: list[int] = []
    pipeline: Any = None

    def one_by_one() -> Any:
        for number in range(3):
            given.append(number)
            yield number
            assert came.acquire(timeout=100)

    import threading

    came = threading.Semaphore(0)
    pipeline = (
        PipelineBuilder()
        .add_source(one_by_one())
        .to(TWO, buffer_size=8)
        .pipe(ops.double)
        .to(MAIN_PROCESS, buffer_size=8)
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        for number in range(3):
            assert pipeline.get_item(timeout=100) == 2 * number
            came.release()
    assert given == [0, 1, 2]
