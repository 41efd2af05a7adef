"""Path variants: where items go, what order is kept, and what a failing router or path ends."""

import asyncio
import functools
import itertools
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, PipelineBuilder
from spdl.pipeline.defs import Aggregate, Disaggregate, PathVariants, Pipe, SinkConfig, SourceConfig
from tests.support.running import TIMEOUT, Recorder, await_event, build_of, fail, run, running


def same(item: Any) -> Any:
    return item


async def same_async(item: Any) -> Any:
    await asyncio.sleep(0)
    return item


def parity(item: int) -> int:
    return item % 2


async def parity_async(item: int) -> int:
    await asyncio.sleep(0)
    return item % 2


class Parity:
    def __call__(self, item: int) -> int:
        return item % 2


class AsyncParity:
    async def __call__(self, item: int) -> int:
        return item % 2


def paths_of(router: Any, paths: Any, **options: Any) -> Any:
    """Return what adds a path-variants stage to a builder."""
    return lambda builder: builder.path_variants(router, paths, **options)


ROUTERS = [parity, parity_async, Parity(), AsyncParity(), functools.partial(parity), functools.partial(parity_async)]


@pytest.mark.parametrize("router", ROUTERS)
def test_each_item_takes_the_path_of_its_index(router: Any) -> None:
    """Whatever kind of callable the router is; order within a path is kept."""
    paths = [[Pipe(lambda item: ("even", item))], [Pipe(same_async), Pipe(lambda item: ("odd", item))]]
    items = run(build_of(range(20), paths_of(router, paths)))
    assert [item for item in items if item[0] == "even"] == [("even", k) for k in range(0, 20, 2)]
    assert [item for item in items if item[0] == "odd"] == [("odd", k) for k in range(1, 20, 2)]


def test_a_sync_router_runs_on_a_worker_thread() -> None:
    """Not on the caller's, not on the source's."""
    threads = set()

    def source() -> Iterator[int]:
        threads.add(threading.get_ident())
        yield 0

    def router(item: int) -> int:
        assert threading.get_ident() not in threads
        return 0

    threads.add(threading.get_ident())
    builder = build_of(source(), paths_of(router, [[Pipe(same)]]))
    assert run(builder, num_threads=1) == [0]


def test_every_kind_of_stage_may_be_in_a_path() -> None:
    """Pipes of all kinds, aggregates, disaggregates, nested path variants, and a user's executor."""

    def twice(item: Any) -> Iterator[Any]:
        yield item
        yield item

    async def twice_async(item: Any) -> AsyncIterator[Any]:
        yield item
        yield item

    with ThreadPoolExecutor(1) as pool:
        nested = PathVariants(lambda item: item // 2 % 2, [[Pipe(str)], [Pipe(same_async)]])
        paths = [
            [Pipe(same, concurrency=2, output_order="input"), Aggregate(2), Disaggregate(), Pipe(same, executor=pool)],
            [Pipe(twice), Pipe(twice_async), nested],
        ]
        items = run(build_of(range(6), paths_of(parity, paths)))
    assert [item for item in items if isinstance(item, int) and item % 2 == 0] == [0, 2, 4]
    assert [item for item in items if isinstance(item, str)] == ["1"] * 4 + ["5"] * 4
    assert [item for item in items if item == 3] == [3] * 4
    assert len(items) == 15


def test_an_empty_source_ends_every_path() -> None:
    """No path sees an item, and all end."""
    assert run(build_of([], paths_of(parity, [[Pipe(same)], [Aggregate(3)], [Pipe(same_async)]]))) == []


def test_paths_drop_and_filter_by_themselves() -> None:
    """A failed or ``None`` item in a path costs that item."""

    def op(item: int) -> int | None:
        if item == 1:
            raise ValueError(item)
        return None if item == 3 else item

    assert sorted(run(build_of(range(6), paths_of(parity, [[Pipe(same)], [Pipe(op)]])))) == [0, 2, 4, 5]


@pytest.mark.parametrize("index", [-1, 2, 100, -2])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_index_out_of_range_fails_the_stage(index: int, is_async: bool) -> None:
    """With an IndexError that says what was returned; no limit allows it. Negative ones do not count from the end."""

    def router(item: int) -> int:
        return index if item == 4 else item % 2

    async def router_async(item: int) -> int:
        return router(item)

    stage = paths_of(router_async if is_async else router, [[Pipe(same)], [Pipe(same)]], name="choose")
    items, error = fail(build_of(range(9), stage), max_failures=-1)
    assert isinstance(error, IndexError)
    assert str(index) in str(error)
    assert sorted(items) == sorted(set(items))
    assert set(items) <= {0, 1, 2, 3}


@pytest.mark.parametrize("is_async", [False, True])
def test_an_exception_in_the_router_fails_the_stage(is_async: bool) -> None:
    """It is the exception itself; the source is closed."""
    failure = ValueError("router")

    def router(item: int) -> int:
        if item == 3:
            raise failure
        return 0

    async def router_async(item: int) -> int:
        return router(item)

    source = Recorder(itertools.count())
    stage = paths_of(router_async if is_async else router, [[Pipe(same)], [Pipe(same)]])
    items, error = fail(build_of(source, stage), max_failures=-1)
    assert error is failure
    assert items == list(range(len(items)))
    assert len(items) <= 3
    assert source.num_closed == 1


@pytest.mark.parametrize("index", ["0", None, 0.0])
def test_what_is_no_index_fails_the_stage(index: Any) -> None:
    """With a TypeError."""
    _, error = fail(build_of([1], paths_of(lambda item: index, [[Pipe(same)]])))
    assert isinstance(error, TypeError)


def test_what_counts_as_an_index_is_one() -> None:
    """``bool`` and whatever has ``__index__``."""

    class One:
        def __index__(self) -> int:
            return 1

    router = {0: False, 1: True, 2: One()}.__getitem__
    assert sorted(run(build_of(range(3), paths_of(router, [[Pipe(lambda item: 0)], [Pipe(lambda item: 1)]])))) == [
        0,
        1,
        1,
    ]


def test_stages_in_paths_obey_the_limit() -> None:
    """The pipeline's and their own; the stage in the path is named."""

    def refuse(item: int) -> int:
        raise ValueError(item)

    for options, build_limit in (({"max_failures": 1}, -1), ({}, 1)):
        stage = paths_of(lambda item: 1, [[Pipe(same)], [Pipe(refuse, name="refuse", **options)]])  # type: ignore[arg-type]
        items, error = fail(build_of(range(9), stage), max_failures=build_limit)
        assert items == []
        assert isinstance(error, FailureLimitError)
        assert error.stage.endswith(":refuse")
        assert error.num_failures == 2


def test_a_failing_path_shuts_down_router_and_other_paths() -> None:
    """Calls of the other path are cancelled, the source is closed, what had come out of the paths stays."""
    waiting = threading.Event()
    cancelled = threading.Event()

    async def wait(item: int) -> int:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return item

    def refuse(item: int) -> int:
        await_event(waiting)
        raise ValueError(item)

    source = Recorder(itertools.count())
    items, error = fail(
        build_of(source, paths_of(parity, [[Pipe(wait)], [Pipe(refuse, max_failures=0)]]), lambda b: b.pipe(same))
    )
    assert items == []
    assert isinstance(error, FailureLimitError)
    assert cancelled.is_set()
    assert source.num_closed == 1


def test_a_failing_nested_path_shuts_down_the_outer_paths_too() -> None:
    """However deep it is."""
    waiting = threading.Event()
    cancelled = threading.Event()

    async def wait(item: int) -> int:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return item

    def refuse(item: int) -> int:
        await_event(waiting)
        raise ValueError(item)

    nested = PathVariants(lambda item: 0, [[Pipe(refuse, max_failures=0)], [Pipe(same)]])
    items, error = fail(build_of(itertools.count(), paths_of(parity, [[Pipe(wait)], [nested]])))
    assert items == []
    assert isinstance(error, FailureLimitError)
    assert cancelled.is_set()


def test_a_full_path_does_not_stop_items_for_others() -> None:
    """With one path blocked, at least a dozen items for it are held back while others pass."""
    release = threading.Event()

    def blocked(item: int) -> int:
        await_event(release)
        return item

    # 12 items for the blocked path, then 5 for the other.
    builder = build_of(range(17), paths_of(lambda item: int(item >= 12), [[Pipe(blocked)], [Pipe(same)]]))
    with running(builder, num_threads=3) as pipeline:
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(5)] == list(range(12, 17))
        release.set()
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == list(range(12))


def test_at_most_32_items_are_held_back() -> None:
    """Behind a blocked path: its call, the 2 that wait before it, 32 held back; then the router is asked no more."""
    release = threading.Event()
    routed = 0
    reached = threading.Event()
    asked = threading.Event()

    def blocked(item: int) -> int:
        await_event(release)
        return item

    def router(item: int) -> int:
        nonlocal routed
        routed += 1
        if routed == 1 + 2 + 32:
            reached.set()
        return 0

    class Source(Recorder):
        def __next__(self) -> Any:
            item = super().__next__()
            if self.num_taken == 1 + 2 + 32 + 2 + 1:
                asked.set()
            return item

    source = Source(itertools.count())
    with running(build_of(source, paths_of(router, [[Pipe(blocked)], [Pipe(same)]]), sink=1), num_threads=3):
        await_event(reached)
        await_event(asked)  # two wait before the router, one is held by the source
        assert routed == 35
        assert source.num_taken == 38
        release.set()


def test_order_within_an_ordered_path_is_kept() -> None:
    """With concurrent calls in it."""
    paths = [[Pipe(same_async, concurrency=4, output_order="input"), Pipe(same, concurrency=3, output_order="input")]]
    assert run(build_of(range(50), paths_of(lambda item: 0, paths))) == list(range(50))


@pytest.mark.parametrize(
    ("router", "paths"),
    [
        (None, [[Pipe(same)]]),
        ("router", [[Pipe(same)]]),
        (parity, []),
        (parity, [[Pipe(same)], []]),
        (parity, [[SourceConfig([1])]]),
        (parity, [[Pipe(same), SinkConfig(1)]]),
    ],
)
def test_what_cannot_run_is_refused(router: Any, paths: Any) -> None:
    """No callable, no path, an empty path, a source or sink in a path: by both ways to make the stage."""
    with pytest.raises(ValueError):
        PathVariants(router, paths)
    with pytest.raises(ValueError):
        PipelineBuilder[Any, Any]().path_variants(router, paths)
