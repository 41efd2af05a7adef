"""Task hooks in running pipelines: around stages and calls, what they may do to items, and how they fail."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from spdl.pipeline import (
    Pipeline,
    PipelineBuilder,
    StageInfo,
    TaskHook,
    TaskPerfStats,
    TaskStatsHook,
    build_pipeline,
)
from spdl.pipeline.defs import Aggregator, Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig

from .running import TIMEOUT, await_event, build_of, drain, run


def add_ten(item: int) -> int:
    return item + 10


async def add_ten_async(item: int) -> int:
    await asyncio.sleep(0)
    return item + 10


def ten_and_twenty(item: int) -> Iterator[int]:
    yield item + 10
    yield item + 20


async def ten_and_twenty_async(item: int) -> AsyncIterator[int]:
    yield item + 10
    yield item + 20


class Log(TaskHook):
    """Writes down what it sees, under a name, in a list shared with others."""

    def __init__(self, events: list[Any] | None = None, name: str = "hook") -> None:
        self.events: list[Any] = [] if events is None else events
        self.name = name

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.events.append((self.name, "stage enter"))
        try:
            yield
        finally:
            self.events.append((self.name, "stage exit"))

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.events.append((self.name, "enter", input_item))
        try:
            yield
        except BaseException as exc:
            self.events.append((self.name, type(exc), input_item))
            raise
        self.events.append((self.name, "exit", input_item))

    def tasks(self, *kinds: Any) -> list[Any]:
        return [event[2] for event in self.events if len(event) == 3 and event[1] in (kinds or ("enter",))]


class OneTask(TaskHook):
    """A hook whose ``task_hook`` is the given function."""

    def __init__(self, hook: Callable[[Any], Any]) -> None:
        self.hook = hook

    def task_hook(self, input_item: Any = None) -> Any:
        return self.hook(input_item)


def hooked(*hooks: TaskHook) -> Any:
    return lambda info: list(hooks)


# -- once per stage


def test_factory_is_called_once_per_stage_but_not_for_source_and_sink() -> None:
    """Each stage asks for its hooks once, at build."""
    infos: list[StageInfo] = []
    log = Log()

    def factory(info: StageInfo) -> list[TaskHook]:
        infos.append(info)
        return [log]

    pipeline = build_of(range(3), lambda b: b.pipe(add_ten), lambda b: b.pipe(str)).build(
        num_threads=2, task_hook_factory=factory
    )
    assert [info.stage_name for info in infos] == ["add_ten", "str"]
    assert list(pipeline) == ["10", "11", "12"]
    assert len(infos) == 2


def test_stage_hook_surrounds_all_calls() -> None:
    """It is entered before the first call and left after the last."""
    log = Log()
    run(build_of(range(2), lambda b: b.pipe(add_ten)), task_hook_factory=hooked(log))
    assert [event[1] for event in log.events] == ["stage enter", "enter", "exit", "enter", "exit", "stage exit"]


def test_stage_hook_alone_leaves_calls_on_the_workers() -> None:
    """A hook that overrides stage_hook only is entered and left once, and items flow as ever."""
    events: list[str] = []

    class Only(TaskHook):
        @asynccontextmanager
        async def stage_hook(self) -> AsyncIterator[None]:
            events.append("enter")
            yield
            events.append("exit")

    assert run(build_of(range(3), lambda b: b.pipe(add_ten)), task_hook_factory=hooked(Only())) == [10, 11, 12]
    assert events == ["enter", "exit"]


def test_empty_list_disables_hooks_of_a_stage() -> None:
    """A stage whose factory returns [] runs without hooks, while its neighbour has them."""
    log = Log()
    items = run(
        build_of(range(2), lambda b: b.pipe(add_ten), lambda b: b.pipe(str)),
        task_hook_factory=lambda info: [log] if info.stage_name == "str" else [],
    )
    assert items == ["10", "11"]
    assert log.tasks() == [10, 11]


def test_stage_hook_is_left_when_the_pipeline_is_stopped() -> None:
    """The exit of a stage hook runs to its end, awaiting included, before stop returns."""
    left = threading.Event()

    class Final(TaskHook):
        @asynccontextmanager
        async def stage_hook(self) -> AsyncIterator[None]:
            try:
                yield
            finally:
                for _ in range(5):
                    await asyncio.sleep(0)
                left.set()

    class Endless:
        def __iter__(self) -> Iterator[int]:
            while True:
                yield 1

    pipeline = build_of(Endless(), lambda b: b.pipe(add_ten)).build(num_threads=1, task_hook_factory=hooked(Final()))
    assert pipeline.get_item(timeout=TIMEOUT) == 11
    pipeline.stop()
    assert left.is_set()


def test_stage_hook_is_left_when_a_later_stage_fails() -> None:
    """A stage that is cancelled because of another still leaves its hook; the failure is the other's."""
    log = Log()

    def refuse(item: int) -> int:
        raise ValueError(item)

    builder = build_of(range(100), lambda b: b.pipe(add_ten), lambda b: b.pipe(refuse, max_failures=0))
    pipeline = builder.build(
        num_threads=1, task_hook_factory=lambda info: [log] if info.stage_name == "add_ten" else []
    )
    _, failure = drain(pipeline)
    assert failure is not None
    assert len(failure.exceptions) == 1
    assert log.events[0][1] == "stage enter"
    assert log.events[-1][1] == "stage exit"


class BadStageHook(TaskHook):
    def __init__(self, where: str, error: Exception) -> None:
        self.where = where
        self.error = error

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        if self.where == "entry":
            raise self.error
        yield
        raise self.error


def test_stage_hook_that_raises_on_entry_fails_the_stage_before_any_call() -> None:
    """No call is made; reads raise PipelineFailure with the hook's exception."""
    called: list[int] = []
    error = ValueError("entry")
    pipeline = build_of(range(3), lambda b: b.pipe(called.append)).build(
        num_threads=1, task_hook_factory=hooked(BadStageHook("entry", error))
    )
    items, failure = drain(pipeline)
    assert items == []
    assert failure is not None
    assert failure.exceptions == (error,)
    assert called == []


def test_stage_hook_that_raises_on_exit_fails_the_stage_after_its_items() -> None:
    """All items of the stage, and of those after it, come out first."""
    error = ValueError("exit")
    pipeline = build_of(range(3), lambda b: b.pipe(add_ten), lambda b: b.aggregate(2)).build(
        num_threads=1,
        task_hook_factory=lambda info: [BadStageHook("exit", error)] if info.stage_name == "add_ten" else [],
    )
    items, failure = drain(pipeline)
    assert items == [[10, 11], [12]]
    assert failure is not None
    assert failure.exceptions == (error,)


def test_stage_hook_that_raises_on_exit_of_a_failing_stage_hides_nothing() -> None:
    """The stage has failed already: the limit it crossed is what is reported."""

    def refuse(item: int) -> int:
        raise KeyError(item)

    pipeline = build_of(range(3), lambda b: b.pipe(refuse, max_failures=0)).build(
        num_threads=1, task_hook_factory=hooked(BadStageHook("exit", ValueError("exit")))
    )
    _, failure = drain(pipeline)
    assert failure is not None
    assert any(isinstance(exc.__cause__, KeyError) for exc in failure.exceptions)


def test_inner_hooks_are_left_when_an_outer_one_is_entered_in_vain() -> None:
    """The second of two hooks raises on entry: the first, already entered, is left."""
    log = Log()
    pipeline = build_of(range(3), lambda b: b.pipe(add_ten)).build(
        num_threads=1, task_hook_factory=hooked(log, BadStageHook("entry", ValueError()))
    )
    _, failure = drain(pipeline)
    assert failure is not None
    assert [event[1] for event in log.events] == ["stage enter", "stage exit"]


class NotAContext(TaskHook):
    def __init__(self, result: Any) -> None:
        self.result = result

    def stage_hook(self) -> Any:
        return self.result


class NoDecorator(TaskHook):
    async def stage_hook(self) -> Any:  # type: ignore[override]
        return None


class NoDecoratorGenerator(TaskHook):
    async def stage_hook(self) -> Any:
        yield


@pytest.mark.parametrize("hook", [NotAContext(None), NotAContext(3), NoDecorator(), NoDecoratorGenerator()])
def test_stage_hook_that_is_no_context_manager_is_refused_at_build(hook: TaskHook) -> None:
    """ValueError that names the class and asks for the decorator; nothing is left un-awaited."""
    with pytest.raises(ValueError, match="async context manager") as info:
        build_of(range(3), lambda b: b.pipe(add_ten)).build(num_threads=1, task_hook_factory=hooked(hook))
    assert type(hook).__name__ in str(info.value)


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


# -- epochs, merges and path variants


def test_hooks_stay_entered_across_epochs() -> None:
    """A continuous pipeline enters its stage hooks once."""
    log = Log()
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    pipeline = (
        builder.add_source(range(2), continuous=True)
        .pipe(add_ten)
        .add_sink()
        .build(num_threads=1, task_hook_factory=hooked(log))
    )
    with pipeline.auto_stop():
        for _ in range(3):
            assert list(pipeline) == [10, 11]
    assert [event[1] for event in log.events if "stage" in str(event[1])] == ["stage enter", "stage exit"]


def test_hooks_of_merge_router_and_paths() -> None:
    """Stage hooks of every stage are entered and left, whatever the kind of the stage."""
    logs: dict[str, Log] = {}

    def factory(info: StageInfo) -> list[TaskHook]:
        return [logs.setdefault(info.stage_id, Log())]

    sub: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(3)), [Pipe(add_ten)], SinkConfig(1))
    variants = PathVariants(lambda item: item % 2, [[Pipe(int)], [Pipe(int)]])
    config: PipelineConfig[Any] = PipelineConfig(Merge([sub, sub]), [variants], SinkConfig(3))
    pipeline: Pipeline[int] = build_pipeline(config, num_threads=2, task_hook_factory=factory)
    assert sorted(pipeline) == [10, 10, 11, 11, 12, 12]
    assert len(logs) == 7
    for log in logs.values():
        assert log.events[0][1] == "stage enter"
        assert log.events[-1][1] == "stage exit"


# -- statistics hooks


class Reporting(TaskStatsHook):
    """Tells of its reports."""

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        super().__init__(info, interval)
        self.reports: list[TaskPerfStats] = []
        self.reported = threading.Event()

    async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
        self.reports.append(stats)
        if stats.num_tasks:
            self.reported.set()


class ReportingOwnTask(Reporting):
    """Overrides task_hook, so it counts by itself."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        async with super().task_hook(input_item):
            yield


class ReportingOwnStage(Reporting):
    """Overrides stage_hook, around that of its base."""

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        super().__init__(info, interval)
        self.events: list[str] = []

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.events.append("enter")
        async with super().stage_hook():
            yield
        self.events.append("exit")


@pytest.mark.parametrize("cls", [Reporting, ReportingOwnTask, ReportingOwnStage])
@pytest.mark.parametrize("op", [add_ten, add_ten_async])
def test_interval_callback_is_awaited_with_what_the_interval_saw(cls: type[Reporting], op: Any) -> None:
    """With a positive interval a report comes while the stage runs; reports never count a call twice."""
    hooks: list[Reporting] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(cls(info, 0.001))
        return [hooks[-1]]

    def source() -> Iterator[int]:
        yield from range(5)
        await_event(hooks[0].reported)

    items = run(build_of(source(), lambda b: b.pipe(op)), task_hook_factory=factory)
    assert items == [10, 11, 12, 13, 14]
    (hook,) = hooks
    assert (hook.num_tasks, hook.num_success) == (5, 5)
    assert 0 < sum(report.num_tasks for report in hook.reports) <= 5
    assert all(report.num_failures == 0 for report in hook.reports)
    assert hook.ave_time > 0
    if isinstance(hook, ReportingOwnStage):
        assert hook.events == ["enter", "exit"]


def half_failing(item: int) -> int | None:
    if item % 2:
        raise ValueError(item)
    return item


@pytest.mark.parametrize("cls", [TaskStatsHook, Reporting, ReportingOwnTask, ReportingOwnStage])
def test_hooks_and_statistics_agree(cls: type[TaskStatsHook]) -> None:
    """Whoever counts, hook or engine, comes to the same numbers."""
    hooks: list[TaskStatsHook] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(cls(info))
        return [hooks[-1]]

    pipeline = build_of(range(9), lambda b: b.pipe(half_failing)).build(num_threads=2, task_hook_factory=factory)
    assert list(pipeline) == [0, 2, 4, 6, 8]
    (hook,) = hooks
    stage = pipeline.stats().stages[1]
    assert (hook.num_tasks, hook.num_success) == (9, 5)
    assert (stage.num_calls, stage.num_failures, stage.num_emitted) == (9, 4, 5)


@pytest.mark.parametrize("cls", [TaskStatsHook, ReportingOwnTask])
@pytest.mark.parametrize("op", [ten_and_twenty, ten_and_twenty_async])
def test_end_of_a_generator_is_no_task(cls: type[TaskStatsHook], op: Any) -> None:
    """Two items of two outputs each are four tasks, and no failure."""
    hooks: list[TaskStatsHook] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(cls(info))
        return [hooks[-1]]

    assert run(build_of([1, 2], lambda b: b.pipe(op)), task_hook_factory=factory) == [11, 21, 12, 22]
    assert (hooks[0].num_tasks, hooks[0].num_success) == (4, 4)


def test_stats_hook_next_to_a_hook_of_ones_own() -> None:
    """Both see every call: the one by counters, the other by running."""
    log = Log()
    hooks: list[TaskStatsHook] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(TaskStatsHook(info))
        return [log, hooks[-1]]

    pipeline = build_of(range(9), lambda b: b.pipe(half_failing)).build(num_threads=2, task_hook_factory=factory)
    assert list(pipeline) == [0, 2, 4, 6, 8]
    assert log.tasks("exit") == [0, 2, 4, 6, 8]
    assert log.tasks(ValueError) == [1, 3, 5, 7]
    assert (hooks[0].num_tasks, hooks[0].num_success) == (9, 5)


def test_interval_callback_that_raises_disturbs_nothing() -> None:
    """An error of a report is logged; the next report comes, and so do all items."""

    class Bad(TaskStatsHook):
        num_reports = 0
        again = threading.Event()

        async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
            self.num_reports += 1
            if self.num_reports == 2:
                self.again.set()
            raise ValueError("of the report")

    def source() -> Iterator[int]:
        yield 1
        await_event(Bad.again)
        yield 2

    assert run(build_of(source(), lambda b: b.pipe(add_ten)), task_hook_factory=lambda i: [Bad(i, 0.001)]) == [11, 12]


def test_totals_are_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """Each stage's default hook logs one line with its totals, at the end, even without an interval."""
    with caplog.at_level("INFO"):
        run(build_of(range(3), lambda b: b.pipe(add_ten, name="plus")))
    lines = [r.getMessage() for r in caplog.records if ":plus]" in r.getMessage() or ":plus queue]" in r.getMessage()]
    assert any("3 calls" in line for line in lines)


def test_factory_that_raises_fails_the_build() -> None:
    """The factory's exception is that of the build, with the config in a note."""
    error = KeyError("factory")

    def factory(info: StageInfo) -> list[TaskHook]:
        raise error

    builder = build_of(range(3), lambda b: b.pipe(add_ten))
    with pytest.raises(KeyError) as info:
        builder.build(num_threads=1, task_hook_factory=factory)
    assert info.value is error
    assert any(repr(builder.get_config()) in note for note in error.__notes__)
