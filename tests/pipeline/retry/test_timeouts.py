"""``pipe(call_timeout=...)``: a call that takes too long costs its item, and its thread is replaced."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, StageTimeoutError, TaskHook
from spdl.pipeline.defs import Retry
from tests.support import ops
from tests.support.running import build_of, run
from tests.support.timeouts import TIMEOUT

#: Long for a call that ends at once, also on a busy machine; short for a test.
SOON = 0.25


class Stuck:
    """Blocks on odd items until it is let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.back = threading.Semaphore(0)
        self.closed = threading.Semaphore(0)

    def sync(self, item: int) -> int:
        if item % 2:
            self.gate.wait(TIMEOUT)
            self.back.release()
        return item

    def generator(self, item: int) -> Iterator[int]:
        try:
            if item % 2:
                self.gate.wait(TIMEOUT)
                self.back.release()
            yield item
        finally:
            self.closed.release()

    async def asynchronous(self, item: int) -> int:
        if item % 2:
            await asyncio.Event().wait()
        return item

    async def async_generator(self, item: int) -> AsyncIterator[int]:
        try:
            yield item
            if item % 2:
                await asyncio.Event().wait()
        finally:
            self.closed.release()


class Hook(TaskHook):
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        try:
            yield
        except StageTimeoutError as exc:
            self.errors.append(exc)
            raise


def let_go(stuck: Stuck, num_calls: int) -> None:
    stuck.gate.set()
    for _ in range(num_calls):
        assert stuck.back.acquire(timeout=TIMEOUT)


@pytest.mark.parametrize("kind", ["sync", "generator"])
@pytest.mark.parametrize("order", ["completion", "input"])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_stuck_call_on_a_thread_costs_its_item_only(kind: str, order: Any, num_threads: int) -> None:
    """More calls are stuck than there are threads; all other items arrive, and the failures say where they are."""
    stuck = Stuck()
    builder = PipelineBuilder().add_source(range(9)).pipe(getattr(stuck, kind), call_timeout=SOON, output_order=order)
    pipeline = builder.add_sink().build(num_threads=num_threads)
    try:
        assert list(pipeline) == [0, 2, 4, 6, 8]
        stage = pipeline.stats().stages[1]
        assert stage.num_failures == 4
        assert [failure.origin for failure in stage.failures] == [1, 3, 5, 7]
        error = stage.failures[0].error
        assert isinstance(error, StageTimeoutError)
        assert isinstance(error, TimeoutError)
        assert error.seconds == SOON
        assert any("self.gate.wait(TIMEOUT)" in note for note in error.__notes__)
    finally:
        let_go(stuck, 4)
    if kind == "generator":
        for _ in range(9):
            assert stuck.closed.acquire(timeout=TIMEOUT)


@pytest.mark.parametrize("kind", ["asynchronous", "async_generator"])
def test_an_async_call_is_cancelled(kind: str) -> None:
    """What it had yielded stays; a generator is closed."""
    stuck = Stuck()
    builder = PipelineBuilder().add_source(range(6)).pipe(getattr(stuck, kind), concurrency=2, call_timeout=SOON)
    pipeline = builder.add_sink().build()
    expected = [0, 2, 4] if kind == "asynchronous" else [0, 1, 2, 3, 4, 5]
    assert sorted(pipeline) == expected
    stage = pipeline.stats().stages[1]
    assert stage.num_failures == 3
    assert all(isinstance(failure.error, StageTimeoutError) for failure in stage.failures)
    if kind == "async_generator":
        for _ in range(6):
            assert stuck.closed.acquire(timeout=TIMEOUT)


def test_a_timeout_of_the_op_itself_is_its_own() -> None:
    """It is not taken for ours."""

    async def op(item: int) -> int:
        raise TimeoutError("of the op")

    pipeline = PipelineBuilder().add_source([1]).pipe(op, call_timeout=60, max_failures=-1).add_sink().build()
    assert list(pipeline) == []
    [failure] = pipeline.stats().stages[1].failures
    assert type(failure.error) is TimeoutError


@pytest.mark.parametrize("kind", ["sync", "generator"])
def test_a_call_in_a_thread_pool_of_the_users(kind: str) -> None:
    """Its thread stays the user's; the item is given up."""
    stuck = Stuck()
    with ThreadPoolExecutor(6) as pool:
        builder = PipelineBuilder().add_source(range(6)).pipe(getattr(stuck, kind), executor=pool, call_timeout=SOON)
        pipeline = builder.add_sink().build()
        assert list(pipeline) == [0, 2, 4]
        assert pipeline.stats().stages[1].num_failures == 3
        let_go(stuck, 3)


@pytest.mark.parametrize("kind", ["sync", "generator", "asynchronous", "async_generator"])
def test_hooks_see_the_timeout(kind: str) -> None:
    """As the op's exception."""
    stuck = Stuck()
    hook = Hook()
    builder = PipelineBuilder().add_source([0, 1, 2]).pipe(getattr(stuck, kind), call_timeout=SOON).add_sink()
    pipeline = builder.build(num_threads=1, task_hook_factory=lambda info: [hook])
    found = list(pipeline)
    assert found == ([0, 1, 2] if kind == "async_generator" else [0, 2])
    assert len(hook.errors) == 1
    assert pipeline.stats().stages[1].num_failures == 1
    if kind in ("sync", "generator"):
        let_go(stuck, 1)


def test_limits_count_timeouts() -> None:
    """The failure that crosses a limit is the cause."""
    stuck = Stuck()
    pipeline = (
        PipelineBuilder().add_source(range(9)).pipe(stuck.sync, call_timeout=SOON, max_failures=1).add_sink().build()
    )
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline)
    assert isinstance(caught.value.exceptions[0].__cause__, StageTimeoutError)
    let_go(stuck, 2)


def test_a_stop_does_not_wait_for_what_was_given_up() -> None:
    """Nor does it name it again."""
    stuck = Stuck()
    pipeline = PipelineBuilder().add_source(range(2)).pipe(stuck.sync, call_timeout=SOON).add_sink().build()
    with pipeline.auto_stop(timeout=TIMEOUT):
        assert list(pipeline) == [0]
    let_go(stuck, 1)


def test_a_stop_while_calls_are_watched() -> None:
    """The thread of the deadlines ends with the others."""
    stuck = Stuck()
    entered = threading.Event()

    def op(item: int) -> int:
        entered.set()
        return stuck.sync(item)

    pipeline = PipelineBuilder().add_source([1]).pipe(op, call_timeout=3600).add_sink().build()
    pipeline.start()
    entered.wait(TIMEOUT)
    stuck.gate.set()
    pipeline.stop()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("spdl-")]


def test_a_late_result_is_discarded() -> None:
    """Though the pipeline still runs when it comes."""
    stuck = Stuck()

    def after_the_late_one(item: int) -> int:
        if item == 2:
            let_go(stuck, 1)
        return item

    builder = PipelineBuilder().add_source([1, 2, 4]).pipe(stuck.sync, call_timeout=SOON).pipe(after_the_late_one)
    pipeline = builder.add_sink().build(num_threads=2)
    assert list(pipeline) == [2, 4]
    assert pipeline.stats().stages[1].num_failures == 1


def test_a_cancelled_call_cleans_up() -> None:
    """Its ``finally`` runs on the loop."""
    cleaned: list[int] = []

    async def wait(item: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(item)
        return item

    pipeline = PipelineBuilder().add_source(range(2)).pipe(wait, call_timeout=SOON, max_failures=-1).add_sink().build()
    assert list(pipeline) == []
    assert (cleaned, pipeline.stats().stages[1].num_failures) == ([0, 1], 2)


def test_a_timeout_is_for_the_item_and_is_not_tried_again() -> None:
    """It covers all attempts and the waits between them."""
    calls: list[int] = []

    def op(item: int) -> int:
        calls.append(item)
        raise ValueError

    def build(op: Any, timeout: float, retry: Retry) -> Pipeline[Any]:
        options: dict[str, Any] = {"call_timeout": timeout, "retry": retry, "max_failures": -1}
        return PipelineBuilder().add_source([1]).pipe(op, **options).add_sink().build()

    pipeline = build(op, SOON, Retry(50, delay=3600, max_delay=3600, jitter=0))
    assert list(pipeline) == []
    assert calls == [1]
    assert pipeline.stats().stages[1].num_failures == 1
    stuck = Stuck()
    pipeline = build(stuck.sync, SOON, Retry(3, delay=0))
    assert list(pipeline) == []
    let_go(stuck, 1)
    [failure] = pipeline.stats().stages[1].failures
    assert isinstance(failure.error, StageTimeoutError)


def test_calls_in_time_are_left_alone() -> None:
    """However many there are."""
    assert run(build_of(range(300), lambda b: b.pipe(ops.same, call_timeout=TIMEOUT))) == list(range(300))
    assert run(build_of(range(300), lambda b: b.pipe(ops.same_async, call_timeout=TIMEOUT))) == list(range(300))
    builder = build_of(range(100), lambda b: b.pipe(ops.twice, call_timeout=TIMEOUT))
    assert len(run(builder)) == 200
