"""``queue_class``: objects that observe the channels of a pipeline, and queues that merge ops talk to."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spdl.pipeline import (
    AsyncQueue,
    PipelineBuilder,
    QueuePerfStats,
    StageInfo,
    StatsQueue,
    build_pipeline,
    is_eof,
    is_epoch_end,
)
from spdl.pipeline.defs import Merge, PathVariants, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.support.running import TIMEOUT, await_event, build_of, drain, run


class Maker:
    """A ``queue_class`` that keeps what it made, by the name of the stage."""

    def __init__(self, cls: Callable[..., AsyncQueue] = StatsQueue, **options: Any) -> None:
        self.cls = cls
        self.options = options
        self.made: dict[str, Any] = {}
        self.calls: list[tuple[StageInfo, int]] = []

    def __call__(self, info: StageInfo, buffer_size: int = 1) -> AsyncQueue:
        self.calls.append((info, buffer_size))
        self.made[info.stage_name] = self.cls(info, buffer_size=buffer_size, **self.options)
        queue: AsyncQueue = self.made[info.stage_name]
        return queue


class Reporting(StatsQueue):
    """Tells of its reports, and of the stage it is around."""

    def __init__(self, info: StageInfo, *, buffer_size: int = 1, interval: float = 0.001) -> None:
        super().__init__(info, buffer_size=buffer_size, interval=interval)
        self.reports: list[QueuePerfStats] = []
        self.reported = threading.Event()

    async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
        self.reports.append(stats)
        if stats.num_items:
            self.reported.set()


class Around(AsyncQueue):
    """A plain queue with a stage hook."""

    def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
        super().__init__(info, buffer_size=buffer_size)
        self.events: list[str] = []

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.events.append("enter")
        yield
        self.events.append("exit")


class ReportingAround(Reporting):
    """A statistics queue with a stage hook of its own around that of its base."""

    def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
        super().__init__(info, buffer_size=buffer_size)
        self.events: list[str] = []

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.events.append("enter")
        async with super().stage_hook():
            yield
        self.events.append("exit")


# -- making


def test_queue_class_is_called_once_per_stage_in_order() -> None:
    """Source, stages and sink, with the size of each buffer."""
    maker = Maker()
    assert run(build_of(range(3), lambda b: b.pipe(int), sink=7), queue_class=maker) == [0, 1, 2]
    assert [info.stage_name for info, _ in maker.calls] == ["src", "int", "sink"]
    assert [size for _, size in maker.calls][::2] == [2, 7]


def test_any_callable_will_do() -> None:
    """A function, a lambda and a class are all accepted."""

    def make(info: StageInfo, buffer_size: int) -> AsyncQueue:
        return AsyncQueue(info, buffer_size=buffer_size)

    makers: list[Any] = [
        make,
        lambda info, buffer_size: StatsQueue(info, buffer_size=buffer_size),
        AsyncQueue,
        StatsQueue,
    ]
    for queue_class in makers:
        assert run(build_of(range(3), lambda b: b.pipe(int)), queue_class=queue_class) == [0, 1, 2]


@pytest.mark.parametrize("made", [None, asyncio.Queue, object, 3])
def test_result_that_is_no_asyncqueue_is_refused(made: Any) -> None:
    """TypeError at build; the message says what was returned."""
    builder = build_of(range(3))
    with pytest.raises(TypeError, match="AsyncQueue") as info:
        builder.build(num_threads=1, queue_class=lambda info, buffer_size: made() if callable(made) else made)
    assert any(repr(builder.get_config()) in note for note in info.value.__notes__)


@pytest.mark.parametrize("base", [AsyncQueue, StatsQueue])
@pytest.mark.parametrize("method", ["get", "put", "get_nowait", "put_nowait"])
def test_queue_that_overrides_what_carries_items_is_refused(base: type, method: str) -> None:
    """No item would go through it, so it is a TypeError that names the method and what to override instead."""
    cls = type("Carrier", (base,), {method: lambda self, *args: None})
    with pytest.raises(TypeError, match=rf"\b{method}\b") as info:
        build_of(range(3)).build(num_threads=1, queue_class=cls)
    assert "Carrier" in str(info.value)
    assert "interval_stats_callback" in str(info.value)


def test_queue_class_that_raises_fails_the_build() -> None:
    """Its exception is that of the build."""

    def make(info: StageInfo, buffer_size: int) -> AsyncQueue:
        raise KeyError("of the queue")

    with pytest.raises(KeyError, match="of the queue"):
        build_of(range(3)).build(num_threads=1, queue_class=make)


# -- observing


@pytest.mark.parametrize("cls", [Reporting, ReportingAround])
def test_interval_callback_is_awaited_with_the_items_of_the_interval(cls: type[Reporting]) -> None:
    """Reports come while the stage runs; no item is in two of them; shares are shares."""
    maker = Maker(cls)

    def source() -> Iterator[int]:
        yield from range(5)
        await_event(maker.made["op"].reported)
        yield 5

    def op(item: int) -> int:
        return item

    pipeline = build_of(source(), lambda b: b.pipe(op), lambda b: b.pipe(int)).build(num_threads=2, queue_class=maker)
    assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [0, 1, 2, 3, 4, 5]
    reports = maker.made["op"].reports
    assert 0 < sum(report.num_items for report in reports) <= 6
    for report in reports:
        assert report.elapsed > 0
        assert 0 <= report.occupancy_rate <= 1
        assert report.qps == pytest.approx(report.num_items / report.elapsed)


def test_reports_of_an_observer_that_raises_disturb_nothing() -> None:
    """The error is logged, the next report comes, and so do all items."""
    again = threading.Event()

    class Bad(Reporting):
        async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
            self.reports.append(stats)
            if len(self.reports) == 2:
                again.set()
            raise ValueError("of the report")

    def source() -> Iterator[int]:
        yield 0
        await_event(again)
        yield 1

    assert run(build_of(source()), queue_class=Bad) == [0, 1]


@pytest.mark.parametrize("cls", [Around, ReportingAround])
def test_stage_hook_of_an_observer_is_around_its_stage(cls: Any) -> None:
    """Entered and left once, for the source, for stages and for the sink."""
    maker = Maker(cls)
    assert run(build_of(range(3), lambda b: b.pipe(int)), queue_class=maker) == [0, 1, 2]
    assert {name: queue.events for name, queue in maker.made.items()} == {
        name: ["enter", "exit"] for name in ("src", "int", "sink")
    }


def test_stage_hook_of_an_observer_is_left_on_a_stop() -> None:
    """A stop in the middle leaves the hooks too."""
    maker = Maker(Around)

    def source() -> Iterator[int]:
        while True:
            yield 1

    pipeline = build_of(source(), lambda b: b.pipe(int)).build(num_threads=1, queue_class=maker)
    assert pipeline.get_item(timeout=TIMEOUT) == 1
    pipeline.stop()
    assert all(queue.events == ["enter", "exit"] for queue in maker.made.values())


@pytest.mark.parametrize("where", ["entry", "exit"])
@pytest.mark.parametrize("name", ["src", "int", "sink"])
def test_stage_hook_of_an_observer_that_raises_fails_that_stage(where: str, name: str) -> None:
    """On entry nothing comes, on exit everything; then PipelineFailure with that stage's name."""

    class Bad(Around):
        @asynccontextmanager
        async def stage_hook(self) -> AsyncIterator[None]:
            if self.info.stage_name == name and where == "entry":
                raise ValueError(where)
            yield
            if self.info.stage_name == name:
                raise ValueError(where)

    pipeline = build_of(range(3), lambda b: b.pipe(int)).build(num_threads=1, queue_class=Bad)
    items, failure = drain(pipeline)
    assert failure is not None
    assert items == ([] if where == "entry" else [0, 1, 2])
    (error,) = failure.exceptions
    assert str(error) == where
    assert any(note.startswith("Pipeline stage:") and note.endswith(f":{name}") for note in error.__notes__)


def test_stage_hook_of_an_observer_that_is_no_context_manager_is_refused() -> None:
    """ValueError at build."""

    class Bad(AsyncQueue):
        async def stage_hook(self) -> Any:  # type: ignore[override]
            return None

    with pytest.raises(ValueError, match="async context manager"):
        build_of(range(3)).build(num_threads=1, queue_class=Bad)


def test_paths_have_observers_of_their_own() -> None:
    """Each path's channel is observed, and its hook is entered and left."""
    maker = Maker(Around)
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(range(4)),
        [PathVariants(lambda item: item % 2, [[Pipe(int, name="a")], [Pipe(int, name="b")]])],
        SinkConfig(3),
    )
    pipeline = build_pipeline(config, num_threads=2, queue_class=maker)
    assert sorted(pipeline) == [0, 1, 2, 3]
    assert set(maker.made) == {
        "src",
        "path_variants_path0",
        "path_variants_path1",
        "a",
        "b",
        "path_variants_merge",
        "sink",
    }
    assert all(queue.events == ["enter", "exit"] for queue in maker.made.values())


def test_statistics_of_an_observer_are_the_engines(caplog: pytest.LogCaptureFixture) -> None:
    """The totals that an observer logs agree with stats(): every item went through once."""
    with caplog.at_level("INFO"):
        builder = build_of(range(12), lambda b: b.pipe(int), lambda b: b.pipe(str))
        pipeline = builder.build(num_threads=2, queue_class=StatsQueue)
        list(pipeline)
    stages = pipeline.stats().stages
    for stage in stages[:-1]:
        assert stage.num_emitted == 12
        lines = [r.getMessage() for r in caplog.records if f"[{stage.info} queue]" in r.getMessage()]
        assert len(lines) == 1
        assert "12 items" in lines[0]


def test_observer_reports_epochs_as_no_items() -> None:
    """Marks between epochs are not counted as items."""
    maker = Maker()
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    pipeline = (
        builder.add_source(range(3), continuous=True).pipe(int).add_sink(1).build(num_threads=1, queue_class=maker)
    )
    with pipeline.auto_stop():
        assert [list(pipeline) for _ in range(3)] == [[0, 1, 2]] * 3
        assert pipeline.stats().num_items == 9


# -- queues of merge ops


def sub(source: Any, *, continuous: bool = False) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(source, continuous), [], SinkConfig(1))


def test_merge_op_gets_asyncqueues() -> None:
    """One input per sub-pipeline, named by its last stage, and the output, named by the merge; None is an item."""
    seen: list[Any] = []

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        seen.extend([info, inputs, output])
        for queue in inputs:
            while not is_eof(item := await queue.get()):
                await output.put(item)

    config: PipelineConfig[Any] = PipelineConfig(Merge([sub([1, None]), sub([2])], op), [], SinkConfig(3))
    assert list(build_pipeline(config, num_threads=1)) == [1, None, 2]
    info, inputs, output = seen
    assert info.stage_name == "merge"
    assert all(isinstance(queue, AsyncQueue) for queue in [*inputs, output])
    assert [queue.info.stage_name for queue in inputs] == ["src", "src"]
    assert output.info == info


def test_end_mark_is_given_for_ever() -> None:
    """A merge op that goes on reading after the end gets the end mark again, not a wait without end."""
    marks: list[bool] = []

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        for _ in range(3):
            marks.append(is_eof(await inputs[0].get()))

    config: PipelineConfig[Any] = PipelineConfig(Merge([sub([]), sub([])], op), [], SinkConfig(3))
    assert list(build_pipeline(config, num_threads=1)) == []
    assert marks == [True, True, True]


def test_merge_op_sees_epoch_marks() -> None:
    """With continuous sources the op reads epoch marks; those it puts end the reader's epochs."""

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        while True:
            for queue in inputs:
                while not is_epoch_end(item := await queue.get()):
                    if is_eof(item):
                        return
                    await output.put(item)
                mark = item
            await output.put(mark)

    config: PipelineConfig[Any] = PipelineConfig(
        Merge([sub([1, 2], continuous=True), sub([3], continuous=True)], op), [], SinkConfig(3)
    )
    pipeline = build_pipeline(config, num_threads=1)
    with pipeline.auto_stop():
        assert [list(pipeline.get_iterator(timeout=TIMEOUT)) for _ in range(3)] == [[1, 2, 3]] * 3


@pytest.mark.parametrize("value", [None, 0, "", "eof", Ellipsis, StopIteration, object()])
def test_no_ordinary_value_is_a_mark(value: Any) -> None:
    """is_eof and is_epoch_end are False, as bools, for whatever a user may put."""
    assert is_eof(value) is False
    assert is_epoch_end(value) is False
