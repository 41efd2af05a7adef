"""Pipelines inside pipelines, pipelines in several threads, and pipelines beside each other."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, Pipeline, PipelineBuilder, PipelineFailure, build_pipeline
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.support.running import TIMEOUT, await_event, build_of, drain, run


def double(item: int) -> int:
    return 2 * item


async def double_async(item: int) -> int:
    await asyncio.sleep(0)
    return 2 * item


def of(source: Any, op: Any = double, *, sink: int = 3, continuous: bool = False) -> Pipeline[Any]:
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    return builder.add_source(source, continuous=continuous).pipe(op).add_sink(sink).build(num_threads=1)


# -- a pipeline as a source


@pytest.mark.parametrize("inner", [double, double_async])
@pytest.mark.parametrize("outer", [double, double_async])
def test_pipeline_is_a_source(inner: Any, outer: Any) -> None:
    """A pipeline iterated by another one gives it every item, whatever lanes the two use."""
    assert list(of(of(range(20), inner), outer)) == [4 * k for k in range(20)]


def test_chain_of_pipelines() -> None:
    """Five pipelines, each the source of the next."""
    pipeline = of(range(10))
    for _ in range(4):
        pipeline = of(pipeline)
    assert list(pipeline) == [32 * k for k in range(10)]


def test_failure_of_the_inner_pipeline_is_that_of_the_outer_source() -> None:
    """The outer pipeline delivers what came, and its source stage fails with the inner PipelineFailure."""

    def source() -> Iterator[int]:
        yield 1
        raise KeyError("inner")

    items, failure = drain(of(of(source())))
    assert items == [4]
    assert failure is not None
    (error,) = failure.exceptions
    assert isinstance(error, PipelineFailure)
    assert [type(exc) for exc in error.exceptions] == [KeyError]
    assert any(note.endswith(":src") for note in error.__notes__)


def test_stop_of_the_outer_pipeline_ends_both() -> None:
    """An endless inner pipeline is let go of when the outer one is stopped; both end with their threads."""

    def endless() -> Iterator[int]:
        while True:
            yield 1

    before = set(threading.enumerate())
    inner = of(endless())
    outer = of(inner)
    assert outer.get_item(timeout=TIMEOUT) == 4
    outer.stop()
    inner.stop()
    assert set(threading.enumerate()) == before


def test_dropping_the_outer_pipeline_ends_both() -> None:
    """Collection of the outer handle lets go of the inner one, whose threads end too (the leak check looks)."""

    def endless() -> Iterator[int]:
        while True:
            yield 1

    outer = of(of(endless()))
    assert outer.get_item(timeout=TIMEOUT) == 4
    del outer


def test_continuous_outer_pipeline_over_a_continuous_inner_one() -> None:
    """Each pass over the inner pipeline is one of its epochs."""
    inner = of(range(3), continuous=True)
    outer = of(inner, continuous=True)
    with outer.auto_stop():
        assert [list(outer) for _ in range(3)] == [[0, 4, 8]] * 3
    inner.stop()


def test_items_left_in_the_inner_pipeline_stay_there() -> None:
    """An outer pipeline that ends early leaves a contiguous rest in the inner one."""
    inner = of(range(1000))
    outer = of(inner, int)
    taken = [outer.get_item(timeout=TIMEOUT) for _ in range(5)]
    outer.stop()
    taken += list(outer)
    rest = list(inner)
    assert taken == [2 * k for k in range(len(taken))]
    assert rest == list(range(rest[0], 2000, 2))


class FromPipeline:
    """An async source that reads a pipeline."""

    def __init__(self, pipeline: Pipeline[Any]) -> None:
        self.pipeline = pipeline

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for item in self.pipeline:
            yield item


def test_pipeline_read_by_an_async_source() -> None:
    """async for over a pipeline on the loop of another one."""
    assert list(of(FromPipeline(of(range(20))))) == [4 * k for k in range(20)]


def test_pipelines_as_the_sources_of_a_merge() -> None:
    """Several pipelines feed one."""
    subs: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig(of(range(start, start + 5))), [], SinkConfig(1)) for start in (0, 10)
    ]
    merged: PipelineConfig[Any] = PipelineConfig(Merge(subs), [Pipe(double)], SinkConfig(3))
    items = list(build_pipeline(merged, num_threads=1))
    assert sorted(items) == sorted(4 * k for k in [*range(5), *range(10, 15)])


# -- a pipeline inside an op


def total(item: int) -> int:
    return sum(of(range(item), double))


async def total_async(item: int) -> int:
    return sum([value async for value in of(range(item), double)])


def flow(item: int) -> Iterator[int]:
    yield from of(range(item), double)


@pytest.mark.parametrize("op", [total, total_async])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_pipeline_inside_an_op(op: Any, concurrency: int) -> None:
    """An op that builds, runs and ends a pipeline of its own for each item."""
    items = run(build_of(range(8), lambda b: b.pipe(op, concurrency=concurrency, output_order="input")))
    assert items == [k * (k - 1) for k in range(8)]


def test_pipeline_inside_a_generator() -> None:
    """A generator that passes on what its own pipeline gives."""
    assert run(build_of([3, 2], lambda b: b.pipe(flow))) == [0, 2, 4, 0, 2]


def test_pipeline_inside_a_generator_that_is_closed_early() -> None:
    """Stopping the outer pipeline closes the generator, and so lets go of the inner pipeline."""
    closed = threading.Event()

    def endless(item: int) -> Iterator[int]:
        inner = of(iter(int, 1))
        try:
            yield from inner
        finally:
            inner.stop()
            closed.set()

    pipeline = of([1], endless)
    assert pipeline.get_item(timeout=TIMEOUT) == 0
    pipeline.stop()
    assert closed.is_set()


def test_failure_of_a_pipeline_inside_an_op_is_a_failed_item() -> None:
    """PipelineFailure is an ordinary exception: the item is dropped, the outer pipeline goes on."""

    def refuse(item: int) -> int:
        raise ValueError(item)

    def op(item: int) -> int:
        if item == 1:
            builder: PipelineBuilder[Any, Any] = PipelineBuilder()
            list(builder.add_source([1]).pipe(refuse, max_failures=0).add_sink().build(num_threads=1))
        return item

    pipeline = of(range(3), op)
    assert list(pipeline) == [0, 2]
    (failure,) = pipeline.stats().stages[1].failures
    assert isinstance(failure.error, PipelineFailure)
    assert isinstance(failure.error.exceptions[0], FailureLimitError)


def test_stages_nested_two_deep() -> None:
    """A pipeline in an op of a pipeline in an op."""

    def outer_op(item: int) -> int:
        return sum(of(range(item), total))

    assert list(of([2, 4], outer_op)) == [0, 0 + 0 + 2 + 6]


# -- several threads


def test_each_thread_may_have_its_own_pipeline() -> None:
    """Eight threads, each building and reading pipelines, do not disturb each other."""
    barrier = threading.Barrier(8)

    def use(start: int) -> list[Any]:
        barrier.wait(TIMEOUT)
        return [list(of(range(start, start + 10))) for _ in range(3)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(use, range(8)))
    assert results == [[[2 * k for k in range(start, start + 10)]] * 3 for start in range(8)]


def test_builds_in_several_threads_have_different_numbers() -> None:
    """Pipeline ids are unique in the process."""
    barrier = threading.Barrier(8)

    def build(_: int) -> list[int]:
        barrier.wait(TIMEOUT)
        return [of(range(1)).stats().stages[0].info.pipeline_id for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        ids = [number for numbers in pool.map(build, range(8)) for number in numbers]
    assert len(set(ids)) == len(ids)


def test_one_builder_built_in_several_threads() -> None:
    """A finished builder may be built from any thread; the pipelines are independent."""
    builder = build_of(range(10), lambda b: b.pipe(double))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: list(builder.build(num_threads=1)), range(8)))
    assert results == [[2 * k for k in range(10)]] * 8


def test_pipelines_side_by_side_read_in_turn() -> None:
    """One consumer takes items of two pipelines alternately."""
    pairs = list(zip(of(range(10)), of(range(100, 110)), strict=True))
    assert pairs == [(2 * k, 2 * (100 + k)) for k in range(10)]


def test_one_executor_shared_by_two_pipelines() -> None:
    """Two pipelines may use one executor at once; neither shuts it down."""
    with ThreadPoolExecutor(2) as executor:
        pipelines = [
            build_of(range(10), lambda b: b.pipe(double, executor=executor, concurrency=2)).build(num_threads=1)
            for _ in range(2)
        ]
        for pipeline in pipelines:
            pipeline.start()
        assert [sorted(pipeline) for pipeline in pipelines] == [[2 * k for k in range(10)]] * 2
        assert executor.submit(double, 4).result(TIMEOUT) == 8


def test_stopping_one_pipeline_does_not_touch_another() -> None:
    """A pipeline whose op waits is not disturbed when another is stopped."""
    entered, gate = threading.Event(), threading.Event()

    def op(item: int) -> int:
        entered.set()
        await_event(gate)
        return item

    waiting, other = of(range(2), op), of(range(5))
    waiting.start()
    await_event(entered)
    other.start()
    other.stop()
    gate.set()
    assert list(waiting) == [0, 1]
