"""What ends, and what stays, when ``max_failures`` trips."""

import asyncio
import itertools
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from spdl.pipeline import FailureLimitError, PipelineBuilder, PipelineFailure
from tests.support.running import TIMEOUT, Recorder, await_event, build_of, drain, fail, run, running


def failing_on(*items: int) -> Callable[[int], int]:
    """Return an op that fails on some items and passes the others."""

    def op(item: int) -> int:
        if item in items:
            raise ValueError(item)
        return item

    return op


def add(op: Any, **options: Any) -> Callable[[PipelineBuilder[Any, Any]], Any]:
    return lambda builder: builder.pipe(op, **options)


def test_a_stage_that_waits_for_input_trips() -> None:
    """Its last call fails and no input comes: the failure is told at once, and the waiting source is cancelled."""

    async def source() -> AsyncIterator[int]:
        yield 0
        await asyncio.Event().wait()

    items, error = fail(build_of(source(), add(failing_on(0))), num_threads=1, max_failures=0)
    assert items == []
    assert error.num_failures == 1


def test_running_async_calls_are_cancelled() -> None:
    """The others of the failing stage, and those of the stages before it; those after it finish."""
    cancelled: set[str] = set()
    waiting = {name: threading.Event() for name in ("before", "own", "after")}
    release: list[Callable[[], object]] = []

    async def before(item: int) -> int:
        if item == 3:
            waiting["before"].set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.add("before")
                raise
        return item

    async def own(item: int) -> int:
        if item == 1:
            waiting["own"].set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.add("own")
                raise
        if item == 2:
            for event in waiting.values():
                await asyncio.to_thread(await_event, event)
            raise ValueError(item)
        return item

    async def after(item: int) -> int:
        go_on = asyncio.Event()
        loop = asyncio.get_running_loop()
        release.append(lambda: loop.call_soon_threadsafe(go_on.set))
        waiting["after"].set()
        try:
            await asyncio.wait_for(go_on.wait(), TIMEOUT)
        except asyncio.CancelledError:
            cancelled.add("after")
            raise
        return item

    builder = build_of(range(9), add(before, concurrency=2), add(own, concurrency=2, max_failures=0), add(after))
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        for event in waiting.values():
            await_event(event)
        # The stage after the failing one still waits; it is released only now and must be able to finish.
        release[0]()
        assert pipeline.get_item(timeout=TIMEOUT) == 0
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=TIMEOUT)
    assert cancelled == {"before", "own"}


def test_the_result_of_a_running_sync_call_is_discarded() -> None:
    """When the stage has failed, a call of it that runs on finishes for nobody."""
    stage_failed = threading.Event()
    running_on = threading.Event()
    finished: list[int] = []

    class Source(Recorder):
        def close(self) -> None:  # the failing stage has cancelled its source
            stage_failed.set()

    def op(item: int) -> int:
        if item == 0:
            running_on.set()
            await_event(stage_failed)
            finished.append(item)
            return item
        await_event(running_on)
        raise ValueError(item)

    items, error = fail(build_of(Source(itertools.count()), add(op, concurrency=2)), num_threads=2, max_failures=0)
    assert items == []
    assert finished == [0]
    assert error.num_calls == 1


def test_the_source_is_cancelled_when_a_stage_trips() -> None:
    """An endless source is asked for no more, and closed."""
    source = Recorder(itertools.count())
    items, _ = fail(build_of(source, add(failing_on(2))), num_threads=1, max_failures=0)
    assert items == [0, 1]
    assert source.num_closed == 1


def test_what_was_emitted_before_the_failure_stays() -> None:
    """Items in later buffers and calls come out, also through an aggregate's last flush."""
    stages = [add(failing_on(5), max_failures=0), lambda b: b.aggregate(2), add(lambda items: tuple(items))]
    items, error = fail(build_of(range(10), *stages), num_threads=2)
    assert items == [(0, 1), (2, 3), (4,)]
    assert isinstance(error, FailureLimitError)


def test_failures_in_flight_together_make_one_error() -> None:
    """Four calls fail at once: the stage fails once."""
    barrier = threading.Barrier(4)

    def op(item: int) -> int:
        barrier.wait(TIMEOUT)
        raise ValueError(item)

    _, error = fail(build_of(range(4), add(op, concurrency=4)), num_threads=4, max_failures=0)
    assert (error.num_failures, error.limit) == (1, 0)


def test_later_stages_trip_over_the_sum_too() -> None:
    """A call of theirs that ends after the limit was crossed is emitted, and trips its stage. Sorted by name."""
    tripped = threading.Event()

    def source() -> Iterator[int]:
        yield from range(3)
        tripped.set()  # closed, or asked for more

    def last(item: int) -> int:
        if item == 1:
            await_event(tripped)
        return item

    builder = build_of(source(), add(failing_on(2), name="z"), add(last, name="a"), sink=10)
    items, failure = drain(builder.build(num_threads=2, max_failures=0))
    assert items == [0, 1]
    assert failure is not None
    names = [error.stage for error in failure.exceptions if isinstance(error, FailureLimitError)]
    assert [name.rpartition(":")[2] for name in names] in (["a", "z"], ["z"])


def test_two_stages_fail_each_with_its_own_error() -> None:
    """The first stage trips; what it had emitted makes the second trip too. Both are told, sorted by name."""
    second_called = threading.Event()
    first_failed = threading.Event()

    def first(item: int) -> int:
        if item == 1:
            await_event(second_called)
            raise ValueError("first")
        return item

    class Source(Recorder):
        def close(self) -> None:  # the failing stage has cancelled its source
            first_failed.set()

    def second(item: int) -> int:
        second_called.set()
        await_event(first_failed)
        raise ValueError("second")

    builder = build_of(
        Source(itertools.count()), add(first, name="z", max_failures=0), add(second, name="a", max_failures=0)
    )
    items, failure = drain(builder.build(num_threads=2))
    assert items == []
    assert failure is not None
    assert [str(error.__cause__) for error in failure.exceptions] == ["second", "first"]


def test_nothing_fails_without_calls() -> None:
    """An empty source with the strictest limit."""
    with running(build_of([], add(failing_on(0), max_failures=0)), max_failures=0) as pipeline:
        assert list(pipeline) == []


def test_dropped_items_are_no_failures() -> None:
    """``None`` filters at no cost."""
    assert run(build_of(range(5), add(lambda item: None)), max_failures=0) == []


def test_the_error_pickles_with_its_attributes() -> None:
    """So that it can come out of another process."""
    _, error = fail(build_of(range(3), add(failing_on(0))), max_failures=0)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is FailureLimitError
    assert str(copy) == str(error)
    assert (copy.stage, copy.num_failures, copy.num_calls, copy.limit) == (
        error.stage,
        error.num_failures,
        error.num_calls,
        error.limit,
    )
