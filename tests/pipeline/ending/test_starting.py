"""Starting: in which orders it may be done, and who ends a pipeline that nobody stops."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStateError, StageInfo, TaskHook
from tests.pipeline.ending.endings import Endless, new_threads, of_numbers, threads
from tests.support.running import TIMEOUT, Recorder, await_event, build_of, running

# -- start


def test_building_starts_nothing_and_does_not_touch_the_source() -> None:
    """A pipeline that was only built has no threads and has asked its source for nothing."""

    class Untouched:
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("the source was iterated at build")

    before = threads()
    pipeline = build_of(Untouched(), lambda b: b.pipe(str)).build(num_threads=2)
    assert new_threads(before) == []
    assert pipeline.stats().state == "new"


def test_start_returns_when_the_pipeline_runs() -> None:
    """After start the state is running, and items come without a further call."""
    source = Endless()
    pipeline: Pipeline[int] = build_of(source).build(num_threads=1)
    pipeline.start()
    assert pipeline.stats().state == "running"
    await_event(source.asked(0))
    pipeline.stop()


def test_second_start_is_refused_and_harms_nothing() -> None:
    """Starting twice raises PipelineStateError, a RuntimeError, and all items still come."""
    pipeline = of_numbers()
    pipeline.start()
    with pytest.raises(PipelineStateError, match="started") as info:
        pipeline.start()
    assert isinstance(info.value, RuntimeError)
    assert list(pipeline) == [0, 1, 2]


def test_start_after_stop_is_refused() -> None:
    """A stopped pipeline cannot be started again."""
    pipeline = of_numbers()
    pipeline.start()
    pipeline.stop()
    with pytest.raises(PipelineStateError, match="stopped"):
        pipeline.start()


def test_start_after_a_read_is_refused() -> None:
    """The first read has started the pipeline, so start is a second start."""
    pipeline = of_numbers()
    assert pipeline.get_item(timeout=TIMEOUT) == 0
    with pytest.raises(PipelineStateError):
        pipeline.start()
    pipeline.stop()


def test_start_after_exhaustion_is_refused() -> None:
    """A pipeline that has ended by itself cannot be started again."""
    pipeline = of_numbers()
    assert list(pipeline) == [0, 1, 2]
    with pytest.raises(PipelineStateError):
        pipeline.start()


def test_auto_stop_of_a_started_pipeline_is_refused() -> None:
    """auto_stop starts, so it is refused where start is, and the pipeline runs on."""
    pipeline = of_numbers()
    pipeline.start()
    with pytest.raises(PipelineStateError), pipeline.auto_stop():
        pytest.fail("the body must not run")
    assert list(pipeline) == [0, 1, 2]


@pytest.mark.parametrize("value", [True, False])
def test_daemon_is_accepted_with_a_warning(value: bool) -> None:
    """start(daemon=) of older code warns and starts."""
    pipeline = of_numbers()
    with pytest.warns(Warning, match="daemon"):
        pipeline.start(daemon=value)
    assert list(pipeline) == [0, 1, 2]


def test_unknown_arguments_of_start_are_refused_before_anything_starts() -> None:
    """A misspelt argument raises TypeError that names it; the pipeline can still be started."""
    pipeline = of_numbers()
    with pytest.raises(TypeError, match="timeuot"):
        pipeline.start(timeuot=1)
    assert pipeline.stats().state == "new"
    pipeline.start(timeout=TIMEOUT)
    assert list(pipeline) == [0, 1, 2]


class LateHook(TaskHook):
    """Is entered only when it is let."""

    def __init__(self) -> None:
        self.entering = threading.Event()
        self.let: Callable[[], object] = lambda: None

    def stage_hook(self) -> AbstractAsyncContextManager[Any]:
        return self._wait()

    @asynccontextmanager
    async def _wait(self) -> AsyncIterator[None]:
        gate, loop = asyncio.Event(), asyncio.get_running_loop()
        self.let = lambda: loop.call_soon_threadsafe(gate.set)
        self.entering.set()
        await gate.wait()
        yield


def test_start_that_is_not_up_in_time_finishes_the_pipeline() -> None:
    """A stage hook that is not entered in time makes start raise TimeoutError; reads then find the end."""
    hook = LateHook()
    source = Recorder(range(3))
    pipeline = build_of(source, lambda b: b.pipe(str)).build(num_threads=1, task_hook_factory=lambda info: [hook])
    try:
        with pytest.raises(TimeoutError, match="0"):
            pipeline.start(timeout=0)
        await_event(hook.entering)
        with pytest.raises(PipelineStateError):
            pipeline.start()
    finally:
        hook.let()
    for _ in range(2):
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=TIMEOUT)
    pipeline.stop()
    assert source.num_taken == 0


def test_start_waits_for_stage_hooks() -> None:
    """start returns after the hooks were entered, and no item has reached the op before."""
    entered: list[str] = []

    class Hook(TaskHook):
        def __init__(self, info: StageInfo) -> None:
            self.info = info

        @asynccontextmanager
        async def stage_hook(self) -> AsyncIterator[None]:
            entered.append(self.info.stage_name)
            yield

    def op(item: int) -> int:
        assert len(entered) == 2
        return item

    builder = build_of(range(3), lambda b: b.pipe(op, name="a"), lambda b: b.pipe(op, name="b"))
    pipeline = builder.build(num_threads=2, task_hook_factory=lambda info: [Hook(info)])
    pipeline.start()
    assert sorted(entered) == ["a", "b"]
    assert list(pipeline) == [0, 1, 2]
    assert not pipeline.stats().stages[1].num_failures


# -- ends that nobody asks for


@pytest.mark.parametrize("kind", ["plain", "pipe", "async"])
def test_exhaustion_leaves_no_thread(kind: str) -> None:
    """When a read has found the end, threads have been joined already; neither start nor stop was called."""

    async def op(item: int) -> int:
        return item

    stages: dict[str, list[Callable[[PipelineBuilder[Any, Any]], Any]]] = {
        "plain": [],
        "pipe": [lambda b: b.pipe(int)],
        "async": [lambda b: b.pipe(op)],
    }
    before = threads()
    pipeline = build_of(range(3), *stages[kind]).build(num_threads=2)
    assert list(pipeline) == [0, 1, 2]
    assert new_threads(before) == []
    assert pipeline.stats().state == "ended"


def test_collection_of_the_handle_stops_the_pipeline() -> None:
    """Dropping the last reference to a running pipeline joins its threads and closes the source."""
    source = Endless()
    before = threads()
    pipeline: Pipeline[int] = build_of(source, lambda b: b.pipe(int)).build(num_threads=2)
    pipeline.start()
    await_event(source.asked(2))
    del pipeline
    gc.collect()
    await_event(source.closed)
    assert new_threads(before) == []


def test_collection_after_a_broken_off_loop_stops_the_pipeline() -> None:
    """A loop that is left by break, and a handle that is dropped, leave nothing behind."""
    source = Endless()
    before = threads()
    pipeline: Pipeline[int] = build_of(source).build(num_threads=1)
    for item in pipeline:
        if item == 5:
            break
    del pipeline
    gc.collect()
    assert source.closed.is_set()
    assert new_threads(before) == []


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_collection_on_a_thread_of_the_pipeline_itself_is_no_deadlock(kind: str) -> None:
    """The last reference to a pipeline is dropped by an op of that pipeline: all ends, nothing hangs."""
    holder: list[Pipeline[Any]] = []
    dropped = threading.Event()

    def drop(item: int) -> int:
        if item == 3:
            holder.clear()
            gc.collect()
            dropped.set()
        return item

    async def drop_async(item: int) -> int:
        return drop(item)

    source = Endless()
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(source).pipe(drop_async if kind == "async" else drop).add_sink(10)
    holder.append(builder.build(num_threads=1))
    assert holder[0].get_item(timeout=TIMEOUT) == 0
    await_event(dropped)
    await_event(source.closed)


def test_iterator_keeps_its_pipeline_alive() -> None:
    """An iterator of a pipeline that nobody else holds gives all items."""
    iterator = iter(of_numbers(50))
    gc.collect()
    assert list(iterator) == list(range(50))


# -- several pipelines, description


def test_pipelines_of_one_builder_are_independent() -> None:
    """Stopping one build does not touch another, and each iterates the range from its start."""
    builder = build_of(range(5), lambda b: b.pipe(int))
    first, second = builder.build(num_threads=1), builder.build(num_threads=1)
    assert first.get_item(timeout=TIMEOUT) == 0
    first.stop()
    assert list(second) == [0, 1, 2, 3, 4]


def test_str_contains_the_description() -> None:
    """str of a pipeline contains the repr of the config, before and after it has run."""
    builder = build_of(range(1), lambda b: b.pipe(int, name="to int"))
    pipeline = builder.build(num_threads=1)
    assert repr(builder.get_config()) in str(pipeline)
    assert list(pipeline) == [0]
    assert repr(builder.get_config()) in str(pipeline)


def test_running_twice_in_a_row_gives_the_same_items() -> None:
    """Nothing of one run is left in the next."""
    builder = build_of(range(5), lambda b: b.pipe(int), lambda b: b.aggregate(2))
    for _ in range(3):
        with running(builder) as pipeline:
            assert list(pipeline) == [[0, 1], [2, 3], [4]]
