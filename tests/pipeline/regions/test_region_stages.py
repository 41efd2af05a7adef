"""Regions: stages that run in worker processes, and what comes out of them."""

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, build_pipeline
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    Retry,
    SinkConfig,
    SourceConfig,
)
from tests.pipeline.regions import ops as region_ops
from tests.support import ops
from tests.support.region_kinds import IN_ACTORS, IN_PROCESSES, NOT_IN_ACTORS, RegionKind
from tests.support.running import TIMEOUT, drain, run

SIZES = [(1, 1), (4, 1), (1, 4), (5, 3), (100, 100)]


def stage_named(pipeline: Any, name: str) -> Any:
    (stage,) = [stage for stage in pipeline.stats().stages if stage.info.stage_name == name]
    return stage


# -- what runs where


@IN_PROCESSES
def test_stages_of_a_region_run_in_one_worker_together(kind: RegionKind) -> None:
    """What is before and after it runs here."""
    builder = PipelineBuilder[Any, Any]().add_source(range(6)).pipe(ops.with_process_id)
    kind.region(builder, lambda b: b.pipe(ops.with_process_id), lambda b: b.pipe(ops.with_process_id))
    items = run(builder.pipe(ops.with_process_id).add_sink())
    here = os.getpid()
    assert [item for ((((item, _), _), _), _) in items] == list(range(6))
    for (((_, before), first), second), after in items:
        assert before == after == here
        assert first == second != here


@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
def test_order_is_kept_with_one_worker(kind: RegionKind, inputs: int, outputs: int) -> None:
    """And concurrency 1."""
    builder = kind.with_region(
        range(50),
        lambda b: b.pipe(ops.double),
        lambda b: b.pipe(ops.same),
        inputs=inputs,
        outputs=outputs,
    )
    assert run(builder) == list(range(0, 100, 2))


@NOT_IN_ACTORS
@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
@pytest.mark.parametrize("num_items", [0, 1, 2, 7, 50])
def test_nothing_is_lost_or_doubled(kind: RegionKind, inputs: int, outputs: int, num_items: int) -> None:
    """Whole transfers or not, fewer items than workers or more."""
    check_nothing_is_lost(kind, inputs, outputs, num_items)


@IN_ACTORS
@pytest.mark.parametrize(("inputs", "outputs", "num_items"), [(1, 1, 0), (4, 1, 1), (5, 3, 7), (1, 4, 50)])
def test_nothing_is_lost_or_doubled_in_actors(kind: RegionKind, inputs: int, outputs: int, num_items: int) -> None:
    """The same; they take longer to start."""
    check_nothing_is_lost(kind, inputs, outputs, num_items)


def check_nothing_is_lost(kind: RegionKind, inputs: int, outputs: int, num_items: int) -> None:
    builder = kind.with_region(
        range(num_items), lambda b: b.pipe(ops.double), workers=2, inputs=inputs, outputs=outputs
    )
    assert sorted(run(builder)) == list(range(0, 2 * num_items, 2))


@IN_PROCESSES
def test_two_regions_have_their_own_workers(kind: RegionKind) -> None:
    """Next to each other, or with stages here between them."""
    for between in (0, 1):
        builder: PipelineBuilder[Any, Any] = PipelineBuilder()
        builder.add_source(range(8))
        kind.region(builder, lambda b: b.pipe(ops.with_process_id))
        if between:
            builder.pipe(ops.same)
        kind.region(builder, lambda b: b.pipe(ops.with_process_id), inputs=3)
        items = run(builder.add_sink())
        assert [item for (item, _), _ in items] == list(range(8))
        assert len({first for (_, first), _ in items} | {second for _, second in items} | {os.getpid()}) == 3


def test_adjacent_regions_need_no_mark_between_them() -> None:
    """Opening the second closes the first."""
    builder = PipelineBuilder[Any, Any]().add_source(range(5))
    builder.to(ProcessPoolExecutorConfig(1)).pipe(ops.with_process_id)
    builder.to(ProcessPoolExecutorConfig(1)).pipe(ops.with_process_id).to(MAIN_PROCESS)
    items = run(builder.add_sink())
    assert [item for (item, _), _ in items] == list(range(5))
    assert len({first for (_, first), _ in items} | {second for _, second in items}) == 2


def test_a_region_of_a_config_may_be_open_at_the_sink() -> None:
    """One that was put together by hand."""
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(range(4)), [PlacementConfig(ProcessPoolExecutorConfig(1)), Pipe(ops.double)], SinkConfig(2)
    )
    pipeline = build_pipeline(config, num_threads=1)
    assert drain(pipeline) == ([0, 2, 4, 6], None)


def test_sources_and_ops_stay_here_as_they_are(kind: RegionKind) -> None:
    """Only what the stages inside need is sent: a source that does not pickle is no matter."""
    seen: list[int] = []

    def remember(item: int) -> int:
        seen.append(item)
        return item

    builder = PipelineBuilder[Any, Any]().add_source(item for item in range(4)).pipe(remember)
    kind.region(builder, lambda b: b.pipe(ops.double))
    assert run(builder.pipe(lambda item: item + 1).add_sink()) == [1, 3, 5, 7]
    assert seen == [0, 1, 2, 3]


# -- every kind of stage


def test_aggregates_inside_are_per_worker_and_flushed_at_the_end(kind: RegionKind) -> None:
    """One worker: as here. Two: every item in one list, none longer than asked."""
    assert run(kind.with_region(range(7), lambda b: b.aggregate(3))) == [[0, 1, 2], [3, 4, 5], [6]]
    assert run(kind.with_region(range(7), lambda b: b.aggregate(3, drop_last=True))) == [[0, 1, 2], [3, 4, 5]]
    lists = run(kind.with_region(range(20), lambda b: b.aggregate(3), workers=2, inputs=2, outputs=2))
    assert sorted(item for each in lists for item in each) == list(range(20))
    assert max(map(len, lists)) <= 3


def test_disaggregate_inside(kind: RegionKind) -> None:
    """Many items of one, as many as there are."""
    builder = kind.with_region([[1, 2], [], range(3, 9), "x"], lambda b: b.disaggregate(), outputs=4)
    assert run(builder) == [1, 2, 3, 4, 5, 6, 7, 8, "x"]


def test_generators_inside_give_all_their_items(kind: RegionKind) -> None:
    """Sync and async."""
    builder = kind.with_region(range(5), lambda b: b.pipe(ops.twice), lambda b: b.pipe(ops.twice_async), outputs=2)
    assert run(builder) == [item for item in range(5) for _ in range(4)]


def test_async_ops_inside(kind: RegionKind) -> None:
    """On a loop of the worker's."""
    assert sorted(run(kind.with_region(range(9), lambda b: b.pipe(ops.same_async, concurrency=3)))) == list(range(9))


def test_path_variants_inside(kind: RegionKind) -> None:
    """Every item takes one path; paths may divide again."""
    paths: Any = [[Pipe(ops.double)], [Pipe(ops.same), Pipe(ops.negate)]]
    builder = kind.with_region(range(10), lambda b: b.path_variants(ops.parity, paths))
    assert sorted(run(builder)) == sorted(2 * item if item % 2 == 0 else -item for item in range(10))
    nested: Any = [[PathVariants(ops.is_large, paths)], [Pipe(ops.negate)]]
    builder = kind.with_region(range(10), lambda b: b.path_variants(ops.parity, nested), workers=2)
    assert len(run(builder)) == 10


def test_none_is_dropped_inside(kind: RegionKind) -> None:
    """And only None."""
    builder = kind.with_region(range(9), lambda b: b.pipe(ops.odd_is_dropped), workers=2, outputs=3)
    assert sorted(run(builder)) == [0, 2, 4, 6, 8]
    assert run(kind.with_region([0, "", [], False], lambda b: b.pipe(ops.same))) == [0, "", [], False]


def test_none_goes_in_as_an_ordinary_item(kind: RegionKind) -> None:
    """From a source it is one."""
    assert run(kind.with_region([None, 1, None], lambda b: b.pipe(str))) == ["None", "1", "None"]


def test_containers_are_looked_up_inside(kind: RegionKind) -> None:
    """An op may be a list or a dict."""
    assert run(kind.with_region([2, 0, 1], lambda b: b.pipe(["a", "b", "c"]))) == ["c", "a", "b"]


@IN_PROCESSES
def test_an_executor_on_a_stage_inside_is_ignored(kind: RegionKind) -> None:
    """Even one that could not go there: the stage runs in the worker."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        builder = kind.with_region(range(3), lambda b: b.pipe(ops.process_id, executor=pool))
        assert set(run(builder)).isdisjoint({os.getpid()})


def test_large_items_go_both_ways(kind: RegionKind) -> None:
    """Megabytes, several at a time."""
    items = [bytes([k]) * 3_000_000 for k in range(6)]
    assert run(kind.with_region(items, lambda b: b.pipe(ops.same), inputs=2, outputs=2)) == items


def test_the_region_is_one_stage_by_name(kind: RegionKind) -> None:
    """``subprocess_pipeline(a+b)``, with counts that add up."""
    builder = kind.with_region(range(12), lambda b: b.pipe(ops.double), lambda b: b.pipe(ops.odd_is_dropped))
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([2 * item for item in range(12)], None)
    stage = stage_named(pipeline, "subprocess_pipeline(double+odd_is_dropped)")
    assert (stage.num_emitted, stage.num_failures, stage.num_dropped, stage.num_in_flight) == (12, 0, 0, 0)
    assert stage.busy > 0


def test_partials_and_methods_go_there(kind: RegionKind) -> None:
    """Whatever pickles."""
    assert run(kind.with_region([1, 2], lambda b: b.pipe(partial(ops.add, 10)))) == [11, 12]
    assert run(kind.with_region([1, 2], lambda b: b.pipe(ops.Adder(5).add))) == [6, 7]


def test_retry_and_timeout_work_inside(kind: RegionKind) -> None:
    """As they do here."""
    items = run(kind.with_region(range(3), lambda b: b.pipe(region_ops.ThirdTime(), retry=Retry(3, delay=0))))
    assert items == [(0, 3), (1, 3), (2, 3)]
    pipeline = kind.with_region(range(4), lambda b: b.pipe(ops.block_async_on_odd, call_timeout=0.2)).build(
        num_threads=1
    )
    assert drain(pipeline) == ([0, 2], None)


@IN_PROCESSES
def test_isolation_works_inside(kind: RegionKind) -> None:
    """A crash costs its item and leaves the worker of the region as it is."""
    builder = kind.with_region(range(5), lambda b: b.pipe(partial(ops.die, at=2, how=3), isolate=True))
    assert run(builder) == [0, 1, 3, 4]


def test_an_aggregator_of_the_users_inside(kind: RegionKind) -> None:
    """It is copied to each worker."""
    items = run(kind.with_region(range(9), lambda b: b.aggregate(region_ops.Sum()), workers=2))
    assert sum(items) == sum(range(9))


def test_aggregates_in_path_variants_inside() -> None:
    """A path may make lists, which are flushed at the end."""
    paths: list[Any] = [[Pipe(region_ops.double)], [Pipe(region_ops.plus_one), Aggregate(2)]]
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(range(8)),
        [
            PlacementConfig(ProcessPoolExecutorConfig(1)),
            PathVariants(region_ops.parity, paths),
            PlacementConfig(MAIN_PROCESS),
        ],
        SinkConfig(2),
    )
    with (pipeline := build_pipeline(config, num_threads=1)).auto_stop():
        items = list(pipeline)
    assert sorted(item for item in items if isinstance(item, int)) == [0, 4, 8, 12]
    assert [item for item in items if isinstance(item, list)] == [[2, 4], [6, 8]]


def test_filters_are_counted(kind: RegionKind) -> None:
    """In = out + dropped."""
    pipeline = kind.with_region(range(10), lambda b: b.pipe(region_ops.odd_only), workers=2).build(num_threads=1)
    items, failure = drain(pipeline)
    assert (sorted(items), failure) == ([1, 3, 5, 7, 9], None)
    stage = pipeline.stats().stages[1]
    assert (stage.num_calls, stage.num_emitted, stage.num_dropped, stage.num_failures) == (10, 5, 5, 0)


def test_no_item_waits_in_a_transfer_that_is_not_full(kind: RegionKind) -> None:
    """A source that gives one item at a time, after the one before came out, is served with large transfers too."""
    given: list[int] = []

    def one_by_one() -> Any:
        for number in range(3):
            given.append(number)
            yield number
            assert came.acquire(timeout=TIMEOUT)

    came = threading.Semaphore(0)
    builder = kind.with_region(one_by_one(), lambda b: b.pipe(region_ops.double), workers=2, inputs=8, outputs=8)
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        for number in range(3):
            assert pipeline.get_item(timeout=TIMEOUT) == 2 * number
            came.release()
    assert given == [0, 1, 2]


def test_a_stalled_worker_loses_nothing(kind: RegionKind, tmp_path: Path) -> None:
    """One holds its first item until the other has given ten; then it gives what it has."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pipeline = kind.with_region(range(12), lambda b: b.pipe(partial(ops.wait_at, 0, gate)), workers=2).build(
        num_threads=1
    )
    with pipeline.auto_stop():
        iterator = pipeline.get_iterator(timeout=TIMEOUT)
        items = [next(iterator)]
        assert items != [0]
        gate.open("w").close()
        items.extend(iterator)
    assert sorted(items) == list(range(12))
