"""Hooks around whole stages: made once, entered before the first call, left after the last, and how they fail."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spdl.pipeline import (
    Pipeline,
    PipelineBuilder,
    StageInfo,
    TaskHook,
    build_pipeline,
)
from spdl.pipeline.defs import Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.support.running import TIMEOUT, await_event, build_of, drain, run
from tests.support.watching import Log, add_ten, hooked


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


def test_stage_hook_is_left_after_an_op_that_outlives_the_stop() -> None:
    """What a stage hook has opened is not closed under a sync op that still runs when the pipeline is stopped."""
    events: list[str] = []
    entered, gate = threading.Event(), threading.Event()

    class Session(TaskHook):
        @asynccontextmanager
        async def stage_hook(self) -> AsyncIterator[None]:
            yield
            events.append("closed")

    def op(item: int) -> int:
        entered.set()
        await_event(gate)
        events.append("used")
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(op)).build(num_threads=1, task_hook_factory=hooked(Session()))
    pipeline.start()
    await_event(entered)
    stopper = threading.Thread(target=pipeline.stop)
    stopper.start()
    gate.set()
    stopper.join(TIMEOUT)
    assert events[-1] == "closed"
    assert "used" in events


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
