"""Hooks around calls: what they see of items and errors, and what they may do to them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from spdl.pipeline import (
    PipelineBuilder,
    StageInfo,
    TaskHook,
    TaskStatsHook,
)
from spdl.pipeline.defs import Aggregator
from tests.support.running import TIMEOUT, await_event, build_of, run
from tests.support.watching import Log, OneTask, add_ten, add_ten_async, hooked, ten_and_twenty, ten_and_twenty_async

# -- around every call


@pytest.mark.parametrize("op", [add_ten, add_ten_async])
def test_task_hook_gets_the_item_of_every_call(op: Any) -> None:
    """One entry and one exit per item, with the item."""
    log = Log()
    assert run(build_of(range(3), lambda b: b.pipe(op)), task_hook_factory=hooked(log)) == [10, 11, 12]
    assert log.tasks("enter") == [0, 1, 2]
    assert log.tasks("exit") == [0, 1, 2]


@pytest.mark.parametrize("op", [ten_and_twenty, ten_and_twenty_async])
def test_task_hook_runs_around_every_step_of_a_generator(op: Any) -> None:
    """Two yields and the end are three steps; the end is seen as StopAsyncIteration or as a step without a value."""
    log = Log()
    assert run(build_of([1, 2], lambda b: b.pipe(op)), task_hook_factory=hooked(log)) == [11, 21, 12, 22]
    assert log.tasks("enter") == [1, 1, 1, 2, 2, 2]
    assert log.tasks("exit", StopAsyncIteration) == [1, 1, 1, 2, 2, 2]


class Pairs(Aggregator[int, list[int]]):
    def __init__(self) -> None:
        self.items: list[int] = []

    def accumulate(self, item: int) -> list[int] | None:
        self.items.append(item)
        return self.flush() if len(self.items) == 2 else None

    def flush(self) -> list[int] | None:
        items, self.items = self.items, []
        return items or None


@pytest.mark.parametrize("make", [lambda: 2, Pairs])
@pytest.mark.parametrize(("drop_last", "num_calls"), [(False, 11), (True, 10)])
def test_task_hook_runs_per_item_of_an_aggregate_and_for_its_flush(
    make: Callable[[], Any], drop_last: bool, num_calls: int
) -> None:
    """Ten items are eleven calls, or ten without the flush."""
    log = Log()
    items = run(build_of(range(10), lambda b: b.aggregate(make(), drop_last=drop_last)), task_hook_factory=hooked(log))
    assert items == [[k, k + 1] for k in range(0, 10, 2)]
    assert log.tasks()[:10] == list(range(10))
    assert len(log.tasks("enter")) == len(log.tasks("exit")) == num_calls


@pytest.mark.parametrize("make", [lambda: 2, Pairs])
@pytest.mark.parametrize(("drop_last", "num_calls"), [(False, 11), (True, 10)])
def test_default_hook_counts_the_calls_of_an_aggregate_alike(
    make: Callable[[], Any], drop_last: bool, num_calls: int
) -> None:
    """The engine's counters, which TaskStatsHook reads, say what a hook that runs would have counted."""
    hooks: list[TaskStatsHook] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(TaskStatsHook(info))
        return [hooks[-1]]

    run(build_of(range(10), lambda b: b.aggregate(make(), drop_last=drop_last)), task_hook_factory=factory)
    assert hooks[0].num_tasks == hooks[0].num_success == num_calls


def test_task_hooks_of_disaggregate_run_per_step() -> None:
    """disaggregate is a generator: each item it gives is a step."""
    log = Log()
    items = run(build_of([[1, 2], [3]], lambda b: b.disaggregate()), task_hook_factory=hooked(log))
    assert items == [1, 2, 3]
    assert log.tasks("enter") == [[1, 2], [1, 2], [1, 2], [3], [3]]


def test_sync_op_between_hooks_runs_on_a_worker_thread() -> None:
    """Hooks run on the loop's thread, the op on another."""
    hook_threads, op_threads = set(), set()

    class Where(TaskHook):
        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
            hook_threads.add(threading.current_thread())
            yield
            hook_threads.add(threading.current_thread())

    def op(item: int) -> int:
        op_threads.add(threading.current_thread())
        return item

    run(build_of(range(5), lambda b: b.pipe(op)), task_hook_factory=hooked(Where()))
    assert len(hook_threads) == 1
    assert not hook_threads & op_threads
    assert threading.current_thread() not in hook_threads | op_threads


def test_hooked_sync_ops_run_at_once_up_to_the_concurrency() -> None:
    """Three calls of a hooked stage of concurrency 3 run at the same time."""
    barrier = threading.Barrier(3)

    def op(item: int) -> int:
        barrier.wait(TIMEOUT)
        return item

    items = run(build_of(range(6), lambda b: b.pipe(op, concurrency=3)), task_hook_factory=hooked(Log()))
    assert sorted(items) == list(range(6))


def test_ordered_stage_gives_its_hooks_the_items_in_order() -> None:
    """Calls finish in another order; entries and outputs are in that of the input."""
    log = Log()
    later = threading.Event()

    def op(item: int) -> int:
        if item == 0:
            await_event(later)
        if item == 2:
            later.set()
        return item

    items = run(
        build_of(range(6), lambda b: b.pipe(op, concurrency=3, output_order="input")), task_hook_factory=hooked(log)
    )
    assert items == list(range(6))
    assert log.tasks("enter") == list(range(6))
    assert log.tasks("exit") != list(range(6))


def test_several_hooks_nest_in_list_order() -> None:
    """The first of the list is the outermost, for stages and for calls."""
    events: list[Any] = []
    run(
        build_of([1], lambda b: b.pipe(add_ten)),
        task_hook_factory=hooked(Log(events, "a"), Log(events, "b"), Log(events, "c")),
    )
    assert [(event[0], event[1]) for event in events] == [
        *((name, "stage enter") for name in "abc"),
        *((name, "enter") for name in "abc"),
        *((name, "exit") for name in "cba"),
        *((name, "stage exit") for name in "cba"),
    ]


# -- what a hook may do to an item


def one_of(item: Any, at: Any, before: Callable[[], None], after: Callable[[], None]) -> Any:
    @asynccontextmanager
    async def hook() -> AsyncIterator[None]:
        if item == at:
            before()
        yield
        if item == at:
            after()

    return hook()


def nothing() -> None:
    pass


def explode() -> None:
    raise RuntimeError("of the hook")


def test_hook_that_raises_on_entry_drops_the_item_and_the_op_is_not_run() -> None:
    """The item is gone, the others pass, and nothing fails."""
    called: list[int] = []

    def op(item: int) -> int:
        called.append(item)
        return item

    pipeline = build_of(range(4), lambda b: b.pipe(op)).build(
        num_threads=1, task_hook_factory=hooked(OneTask(lambda item: one_of(item, 1, explode, nothing)))
    )
    assert list(pipeline) == [0, 2, 3]
    assert called == [0, 2, 3]
    stage = pipeline.stats().stages[1]
    assert (stage.num_dropped, stage.num_emitted) == (1, 3)


@pytest.mark.parametrize("op", [add_ten, add_ten_async])
def test_hook_that_raises_on_exit_drops_the_result(op: Any) -> None:
    """The op has run, and its result is gone."""
    pipeline = build_of(range(4), lambda b: b.pipe(op)).build(
        num_threads=1, task_hook_factory=hooked(OneTask(lambda item: one_of(item, 1, nothing, explode)))
    )
    assert list(pipeline) == [10, 12, 13]
    stage = pipeline.stats().stages[1]
    assert (stage.num_dropped, stage.num_emitted) == (1, 3)


def test_hook_sees_the_exception_of_the_op_itself() -> None:
    """The very exception object, not a wrapper; it still counts as the item's failure."""
    seen: list[BaseException] = []
    error = KeyError("of the op")

    @asynccontextmanager
    async def watch(item: Any) -> AsyncIterator[None]:
        try:
            yield
        except KeyError as exc:
            seen.append(exc)
            raise

    def op(item: int) -> int:
        if item == 1:
            raise error
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(op)).build(num_threads=1, task_hook_factory=hooked(OneTask(watch)))
    assert list(pipeline) == [0, 2]
    assert seen == [error]
    (failure,) = pipeline.stats().stages[1].failures
    assert failure.error is error


def test_hook_that_swallows_the_exception_just_loses_the_item() -> None:
    """A swallowed error is not counted as a failure: the item is dropped."""

    @asynccontextmanager
    async def swallow(item: Any) -> AsyncIterator[None]:
        with suppress(KeyError):
            yield

    def op(item: int) -> int:
        if item == 1:
            raise KeyError(item)
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(op, max_failures=0)).build(
        num_threads=1, task_hook_factory=hooked(OneTask(swallow))
    )
    assert list(pipeline) == [0, 2]
    stage = pipeline.stats().stages[1]
    assert (stage.num_failures, stage.num_dropped, stage.num_emitted) == (0, 1, 2)


@pytest.mark.parametrize("op", [ten_and_twenty, ten_and_twenty_async])
def test_hook_that_swallows_the_end_of_a_generator_does_not_stall_the_stage(op: Any) -> None:
    """StopAsyncIteration that a hook keeps to itself still ends the generator, and the next item is taken."""

    @asynccontextmanager
    async def swallow(item: Any) -> AsyncIterator[None]:
        with suppress(BaseException):
            yield

    items = run(build_of([1, 2], lambda b: b.pipe(op)), task_hook_factory=hooked(OneTask(swallow)))
    assert items == [11, 21, 12, 22]


@pytest.mark.parametrize("op", [ten_and_twenty, ten_and_twenty_async])
def test_hook_that_turns_the_end_of_a_generator_into_an_error_does_not_stall_the_stage(op: Any) -> None:
    """The stage ends properly even if a hook does not let StopAsyncIteration through."""

    @asynccontextmanager
    async def convert(item: Any) -> AsyncIterator[None]:
        try:
            yield
        except StopAsyncIteration:
            raise RuntimeError("not what it was") from None

    items = run(build_of([1, 2], lambda b: b.pipe(op)), task_hook_factory=hooked(OneTask(convert)))
    assert items == [11, 21, 12, 22]


@pytest.mark.parametrize("op", [ten_and_twenty, ten_and_twenty_async])
def test_hook_that_drops_one_output_of_a_generator_keeps_the_others(op: Any) -> None:
    """Raising on exit of one step loses the value of that step only."""
    steps = []

    @asynccontextmanager
    async def second_step(item: Any) -> AsyncIterator[None]:
        steps.append(item)
        number = len(steps)
        yield
        if number == 1:
            raise RuntimeError("of the hook")

    assert run(build_of([1, 2], lambda b: b.pipe(op)), task_hook_factory=hooked(OneTask(second_step))) == [21, 12, 22]


def test_hook_whose_task_hook_is_no_context_manager_loses_items_and_hangs_nothing() -> None:
    """What a build cannot see is an error around each call: items are dropped, and the pipeline ends."""
    hook = OneTask(lambda item: None)
    pipeline = build_of(range(3), lambda b: b.pipe(add_ten)).build(num_threads=1, task_hook_factory=hooked(hook))
    assert list(pipeline) == []
    assert pipeline.stats().stages[1].num_emitted == 0


def test_dropped_items_leave_no_gap_in_an_ordered_stage() -> None:
    """Items that hooks drop on entry and on exit do not hold back those behind them."""

    @asynccontextmanager
    async def hook(item: Any) -> AsyncIterator[None]:
        if item % 3 == 0:
            explode()
        yield
        if item % 3 == 1:
            explode()

    items = run(
        build_of(range(12), lambda b: b.pipe(add_ten, concurrency=4, output_order="input")),
        task_hook_factory=hooked(OneTask(hook)),
    )
    assert items == [12, 15, 18, 21]


def test_exit_of_a_task_hook_runs_when_a_call_is_cancelled() -> None:
    """stop cancels a waiting async op: the hook around it is left before stop returns."""
    log = Log()
    entered = threading.Event()

    async def op(item: int) -> int:
        entered.set()
        await asyncio.Event().wait()
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(op)).build(num_threads=1, task_hook_factory=hooked(log))
    pipeline.start()
    await_event(entered)
    pipeline.stop()
    assert log.tasks("enter") == log.tasks(asyncio.CancelledError) == [0]
    assert log.events[-1][1] == "stage exit"


def test_an_ordered_generator_keeps_its_order_between_hooks() -> None:
    """Sync generators in input order under hooks of one's own emit all outputs of one item before those of the next."""

    def outputs(item: int) -> Iterator[tuple[int, int]]:
        for k in range(item % 4):
            yield item, k

    pipeline = (
        PipelineBuilder()
        .add_source(range(20))
        .pipe(outputs, concurrency=4, output_order="input")
        .add_sink(1)
        .build(num_threads=3, task_hook_factory=lambda info: [_Plain()])
    )
    assert list(pipeline) == [(item, k) for item in range(20) for k in range(item % 4)]


class _Plain(TaskHook):
    """A hook that looks on."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield
