"""Failing stages: who learns of it, when, how often, and what the error says."""

import asyncio
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import (
    BackgroundTask,
    FailureLimitError,
    Pipeline,
    PipelineBuilder,
    PipelineFailure,
    StageInfo,
    TaskHook,
    build_pipeline,
)
from spdl.pipeline.defs import Aggregator, Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

from .running import TIMEOUT, await_event, build_of, drain, fail


class SourceError(Exception):
    """What a source of these tests raises."""


class Breaking:
    """Some numbers, then an error."""

    def __init__(self, num_items: int, error: BaseException | None = None) -> None:
        self.num_items = num_items
        self.error = SourceError("the source is broken") if error is None else error

    def __iter__(self) -> Iterator[int]:
        yield from range(self.num_items)
        raise self.error


class AsyncBreaking:
    """The same on the loop."""

    async def __aiter__(self) -> AsyncIterator[int]:
        for item in range(3):
            yield item
        raise SourceError("the source is broken")


def of(source: Any, *stages: Callable[[PipelineBuilder[Any, Any]], Any]) -> Pipeline[Any]:
    pipeline: Pipeline[Any] = build_of(source, *stages).build(num_threads=2)
    return pipeline


def with_end(config: PipelineConfig[Any], **options: Any) -> tuple[Pipeline[Any], threading.Event]:
    """A pipeline and an event that tells that all of its stages are done."""
    done = threading.Event()

    class Watch(BackgroundTask):
        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                done.set()

    return build_pipeline(config, num_threads=2, background_tasks=[Watch], **options), done


def refuse(item: Any) -> Any:
    raise ValueError(f"refused {item}")


# -- every read


def test_reads_return_what_came_before_and_then_raise_for_ever() -> None:
    """Items first; then PipelineFailure from every kind of read, again and again, and after stop."""
    pipeline = of(Breaking(5))
    iterator = iter(pipeline)
    assert [next(iterator) for _ in range(5)] == [0, 1, 2, 3, 4]
    for _ in range(3):
        with pytest.raises(PipelineFailure):
            next(iterator)
        with pytest.raises(PipelineFailure):
            pipeline.get_item()
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=0)
        with pytest.raises(PipelineFailure):
            list(pipeline)
    pipeline.stop()
    with pytest.raises(PipelineFailure):
        pipeline.get_item()
    with pytest.raises(PipelineFailure):
        next(iterator)
    with pytest.raises(PipelineFailure):
        next(pipeline.get_iterator(timeout=TIMEOUT))
    assert pipeline.stats().state == "failed"


def test_async_reads_raise_for_ever() -> None:
    """async for raises PipelineFailure after the items, on the same iterator and on new ones."""
    pipeline = of(Breaking(2))

    async def main() -> None:
        iterator = aiter(pipeline)
        assert [await anext(iterator), await anext(iterator)] == [0, 1]
        for _ in range(3):
            with pytest.raises(PipelineFailure):
                await anext(iterator)
            with pytest.raises(PipelineFailure):
                await anext(aiter(pipeline))

    asyncio.run(main())
    pipeline.stop()
    assert pipeline.stats().state == "failed"


def test_repeated_raising_adds_nothing_to_the_error() -> None:
    """However often it is raised, the stage's exception is the same object and has one note about its stage."""
    error = SourceError()
    pipeline = of(Breaking(0, error))
    for _ in range(3):
        with pytest.raises(PipelineFailure) as info:
            pipeline.get_item()
        assert info.value.exceptions == (error,)
    assert [note for note in error.__notes__ if "Pipeline stage:" in note] == [note_of(pipeline, 0)]


def note_of(pipeline: Pipeline[Any], index: int) -> str:
    info = pipeline.stats().stages[index].info
    return f"Pipeline stage: {info.pipeline_id}:{info.stage_id}:{info.stage_name}"


def test_failure_in_a_later_epoch_is_raised_after_the_epochs_before() -> None:
    """A continuous source that breaks in its third pass gives two whole epochs first."""

    class Third:
        def __init__(self) -> None:
            self.num_passes = 0

        def __iter__(self) -> Iterator[int]:
            self.num_passes += 1
            yield from range(2)
            if self.num_passes == 3:
                raise SourceError

    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    pipeline = builder.add_source(Third(), continuous=True).pipe(int).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline) == [0, 1]
        assert list(pipeline) == [0, 1]
        iterator = iter(pipeline)
        assert [next(iterator), next(iterator)] == [0, 1]
        for _ in range(2):
            with pytest.raises(PipelineFailure):
                next(iterator)


def test_timeout_before_a_failure_hides_nothing() -> None:
    """A read that times out while the stage is about to fail is followed by one that raises the failure."""
    gate = threading.Event()

    class Late:
        def __iter__(self) -> Iterator[int]:
            await_event(gate)
            yield from Breaking(0)

    pipeline = of(Late())
    iterator = pipeline.get_iterator(timeout=0)
    with pytest.raises(TimeoutError):
        next(iterator)
    gate.set()
    with pytest.raises(PipelineFailure):
        pipeline.get_item(timeout=TIMEOUT)
    with pytest.raises(PipelineFailure):
        next(iterator)


# -- stop


def test_stop_is_silent_once_a_read_has_raised() -> None:
    """The consumer knows already: stop and later stops return."""
    pipeline = of(Breaking(0))
    with pytest.raises(PipelineFailure):
        pipeline.get_item()
    pipeline.stop()
    pipeline.stop()


def test_auto_stop_is_silent_once_a_read_has_raised() -> None:
    """A failure that the body has caught is not raised a second time at its end."""
    pipeline = of(Breaking(1))
    with pipeline.auto_stop():
        assert pipeline.get_item() == 0
        with pytest.raises(PipelineFailure):
            pipeline.get_item()


def test_failure_that_leaves_the_body_is_the_one_of_the_read() -> None:
    """A PipelineFailure raised by a read inside auto_stop leaves it as it is."""
    pipeline = of(Breaking(0))
    raised: list[BaseException] = []

    def use() -> None:
        with pipeline.auto_stop():
            try:
                pipeline.get_item()
            except PipelineFailure as exc:
                raised.append(exc)
                raise

    with pytest.raises(PipelineFailure) as info:
        use()
    assert [info.value] == raised


def test_first_stop_raises_what_no_read_has() -> None:
    """Nobody read the failure: the first stop raises it, later ones return; the buffered items are still there."""
    pipeline, done = with_end(PipelineConfig(SourceConfig(Breaking(2)), [], SinkConfig(3)))
    pipeline.start()
    await_event(done)
    with pytest.raises(PipelineFailure) as info:
        pipeline.stop()
    assert [type(exc) for exc in info.value.exceptions] == [SourceError]
    pipeline.stop()
    pipeline.stop(timeout=0)
    assert [pipeline.get_item(), pipeline.get_item()] == [0, 1]
    for _ in range(2):
        with pytest.raises(PipelineFailure):
            pipeline.get_item()


def test_exit_of_auto_stop_raises_what_no_read_has() -> None:
    """A body that reads nothing ends with PipelineFailure if a stage has failed."""
    pipeline, done = with_end(PipelineConfig(SourceConfig(Breaking(2)), [], SinkConfig(3)))

    def use() -> None:
        with pipeline.auto_stop():
            assert pipeline.get_item() == 0
            await_event(done)

    with pytest.raises(PipelineFailure):
        use()
    pipeline.stop()


def test_exception_of_the_body_wins_over_a_failed_stage() -> None:
    """Body and stage fail at once: the body's exception is raised, and later stops are silent."""
    pipeline, done = with_end(PipelineConfig(SourceConfig(Breaking(2)), [], SinkConfig(3)))
    error = KeyError("of the body")

    def use() -> None:
        with pipeline.auto_stop():
            await_event(done)
            raise error

    with pytest.raises(KeyError) as info:
        use()
    assert info.value is error
    pipeline.stop()


def test_interrupt_of_the_body_wins_over_a_failed_stage() -> None:
    """The same for what is no ordinary exception: a KeyboardInterrupt stays one."""
    pipeline, done = with_end(PipelineConfig(SourceConfig(Breaking(0)), [], SinkConfig(3)))

    def use() -> None:
        with pipeline.auto_stop():
            await_event(done)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()


def test_stop_that_ends_a_healthy_pipeline_raises_nothing() -> None:
    """Items that were dropped by an error do not make a stage fail."""
    pipeline = of(range(3), lambda b: b.pipe(refuse))
    with pipeline.auto_stop():
        assert list(pipeline) == []
    assert pipeline.stats().state == "ended"


# -- every way to fail


class BadAccumulate(Aggregator[Any, Any]):
    def accumulate(self, item: Any) -> Any:
        raise ValueError("accumulate")

    def flush(self) -> Any:
        return None


class BadFlush(Aggregator[Any, Any]):
    def accumulate(self, item: Any) -> Any:
        return item

    def flush(self) -> Any:
        raise ValueError("flush")


async def two_parameters(first: Any, second: Any) -> Any:
    return first


class HookOnEntry(TaskHook):
    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.enter()
        yield

    def enter(self) -> None:
        raise ValueError("on entry")


class HookOnExit(TaskHook):
    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        yield
        raise ValueError("on exit")


async def bad_merge(info: StageInfo, inputs: Any, output: Any) -> None:
    await output.put(await inputs[0].get())
    raise ValueError("merge")


def merging(op: Any) -> PipelineConfig[Any]:
    sub: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(3)), [], SinkConfig(1))
    return PipelineConfig(Merge([sub, sub], op), [], SinkConfig(3))


def config(source: Any, *stages: Callable[[PipelineBuilder[Any, Any]], Any]) -> PipelineConfig[Any]:
    cfg: PipelineConfig[Any] = build_of(source, *stages).get_config()
    return cfg


def raising_router(item: Any) -> int:
    raise ValueError("router")


async def async_router(item: Any) -> int:
    raise ValueError("router")


WAYS: dict[str, tuple[PipelineConfig[Any], dict[str, Any], str, type[BaseException], list[Any] | None]] = {
    "sync source": (config(Breaking(3), lambda b: b.pipe(int)), {}, "src", SourceError, [0, 1, 2]),
    "async source": (config(AsyncBreaking(), lambda b: b.pipe(int)), {}, "src", SourceError, [0, 1, 2]),
    "iter of the source": (config(Breaking(0)), {}, "src", SourceError, []),
    "limit of the pipeline": (
        config(range(9), lambda b: b.pipe(refuse, name="refuse")),
        {"max_failures": 2},
        "refuse",
        FailureLimitError,
        [],
    ),
    "limit of the stage": (
        config(range(9), lambda b: b.pipe(refuse, name="refuse", max_failures=0)),
        {},
        "refuse",
        FailureLimitError,
        [],
    ),
    "rate of the stage": (
        config(range(200), lambda b: b.pipe(refuse, name="refuse", max_failures=Fraction(1, 2))),
        {},
        "refuse",
        FailureLimitError,
        [],
    ),
    "hook on entry": (
        config(range(3), lambda b: b.pipe(int, name="op")),
        {"task_hook_factory": lambda info: [HookOnEntry()]},
        "op",
        ValueError,
        [],
    ),
    "hook on exit": (
        config(range(3), lambda b: b.pipe(int, name="op")),
        {"task_hook_factory": lambda info: [HookOnExit()]},
        "op",
        ValueError,
        [0, 1, 2],
    ),
    "router": (
        config(range(3), lambda b: b.path_variants(raising_router, [[Pipe(int)]], name="route")),
        {},
        "route",
        ValueError,
        [],
    ),
    "async router": (
        config(range(3), lambda b: b.path_variants(async_router, [[Pipe(int)]], name="route")),
        {},
        "route",
        ValueError,
        [],
    ),
    "index of the router": (
        config(range(3), lambda b: b.path_variants(lambda item: 1, [[Pipe(int)]], name="route")),
        {},
        "route",
        IndexError,
        [],
    ),
    "negative index of the router": (
        config(range(3), lambda b: b.path_variants(lambda item: -1, [[Pipe(int)]], name="route")),
        {},
        "route",
        IndexError,
        [],
    ),
    "count of the batch router": (
        config([[1, 2]], lambda b: b.path_variants(lambda batch: [0], [[Pipe(list)]], name="route", batched=True)),
        {},
        "route",
        ValueError,
        [],
    ),
    "merge op": (merging(bad_merge), {}, "merge", ValueError, [0]),
    "accumulate": (config(range(3), lambda b: b.aggregate(BadAccumulate())), {}, "aggregate", ValueError, []),
    "flush": (config(range(3), lambda b: b.aggregate(BadFlush())), {}, "aggregate", ValueError, [0, 1, 2]),
    "signature of an async op": (
        config(range(3), lambda b: b.pipe(two_parameters, name="op")),  # type: ignore[arg-type]
        {},
        "op",
        TypeError,
        [],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_fail_is_told_in_the_same_way(way: str) -> None:
    """The failing stage's exception, of its own type, with a note that names the stage; items before it came out."""
    cfg, options, name, error_type, items = WAYS[way]
    pipeline = build_pipeline(cfg, num_threads=2, **options)
    got, failure = drain(pipeline)
    assert failure is not None
    assert got == items
    (error,) = failure.exceptions
    assert type(error) is error_type
    (note,) = [note for note in error.__notes__ if "Pipeline stage:" in note]
    infos = {
        f"Pipeline stage: {s.info.pipeline_id}:{s.info.stage_id}:{s.info.stage_name}" for s in pipeline.stats().stages
    }
    assert note in infos
    assert note.split(":", 3)[3].startswith(name)
    assert pipeline.stats().state == "failed"


def test_source_whose_iter_raises_fails_its_stage() -> None:
    """A source that cannot even make an iterator is a failed source."""

    class Unopened:
        def __iter__(self) -> Iterator[int]:
            raise SourceError("not today")

    items, error = fail(build_of(Unopened(), lambda b: b.pipe(int)))
    assert items == []
    assert type(error) is SourceError


def test_error_keeps_its_traceback() -> None:
    """The traceback of a stage's exception leads to the line of the user's code that raised it."""
    _, error = fail(build_of(Breaking(0)))
    names = []
    tb = error.__traceback__
    while tb is not None:
        names.append(tb.tb_frame.f_code.co_filename)
        tb = tb.tb_next
    assert __file__ in names


def test_crossed_limit_has_the_failure_as_its_cause() -> None:
    """FailureLimitError says stage, count and threshold; its cause is the op's exception."""
    _, error = fail(build_of(range(5), lambda b: b.pipe(refuse, name="refuse", max_failures=1)))
    assert "failed 2 times, which exceeds the threshold (1)" in str(error)
    assert (error.num_failures, error.limit) == (2, 1)
    assert "refuse" in error.stage
    assert str(error.__cause__) == "refused 1"


# -- what goes on


def test_stages_after_the_failed_one_finish_their_items() -> None:
    """A source fails while its items wait downstream: each of them comes out, aggregated rest included."""
    items, error = fail(build_of(Breaking(5), lambda b: b.pipe(int), lambda b: b.aggregate(2)))
    assert items == [[0, 1], [2, 3], [4]]
    assert type(error) is SourceError


def test_stages_before_the_failed_one_are_cancelled() -> None:
    """When a stage trips, an endless source before it is asked no more and is closed."""
    closed = threading.Event()

    class Endless:
        def __iter__(self) -> Iterator[int]:
            item = 0
            try:
                while True:
                    yield item
                    item += 1
            finally:
                closed.set()

    def op(item: int) -> int:
        if item == 3:
            raise ValueError
        return item

    items, _ = fail(build_of(Endless(), lambda b: b.pipe(int), lambda b: b.pipe(op, max_failures=0)))
    assert items == [0, 1, 2]
    assert closed.is_set()


def failing_at(barrier: threading.Barrier, name: str) -> PipelineConfig[Any]:
    def op(item: int) -> int:
        barrier.wait(TIMEOUT)
        raise ValueError(name)

    return PipelineConfig(SourceConfig(range(1)), [Pipe(op, name=name, max_failures=0)], SinkConfig(1))


def test_several_failed_stages_are_reported_together_in_order_of_name() -> None:
    """Two branches of a merge fail at the same moment: both errors are in the group, sorted by stage name."""
    for _ in range(5):
        barrier = threading.Barrier(2)
        merged: PipelineConfig[Any] = PipelineConfig(
            Merge([failing_at(barrier, "b"), failing_at(barrier, "a")]), [], SinkConfig(1)
        )
        items, failure = drain(build_pipeline(merged, num_threads=2))
        assert items == []
        assert failure is not None
        assert [str(exc.__cause__) for exc in failure.exceptions] == ["a", "b"]
        assert [exc.stage.split(":")[2] for exc in failure.exceptions if isinstance(exc, FailureLimitError)] == [
            "a",
            "b",
        ]


def test_failure_of_one_branch_lets_the_other_drain() -> None:
    """One branch of a merge fails: the items of the other still come out, then the failure."""
    good: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(10)), [Pipe(int)], SinkConfig(1))
    bad: PipelineConfig[Any] = PipelineConfig(SourceConfig(Breaking(0)), [], SinkConfig(1))
    items, failure = drain(build_pipeline(PipelineConfig(Merge([good, bad]), [], SinkConfig(3)), num_threads=2))
    assert items == list(range(10))
    assert failure is not None
    assert [type(exc) for exc in failure.exceptions] == [SourceError]


# -- the class


def test_failure_is_an_exception_group_that_stays_one() -> None:
    """except*, subgroup and split work and give PipelineFailure."""
    _, failure = drain(of(Breaking(0)))
    assert isinstance(failure, ExceptionGroup)
    assert failure.message == "pipeline stages failed"
    caught: list[BaseException] = []
    try:
        raise failure
    except* SourceError as group:
        caught.append(group)
    assert [type(group) for group in caught] == [PipelineFailure]
    assert type(failure.subgroup(SourceError)) is PipelineFailure
    match, rest = failure.split(KeyError)
    assert match is None
    assert type(rest) is PipelineFailure


def test_failure_that_was_raised_by_a_pipeline_pickles() -> None:
    """A failure travels to another process: types, messages and notes of its errors are kept."""
    _, failure = drain(of(Breaking(0)))
    assert failure is not None
    copy = pickle.loads(pickle.dumps(failure))
    assert type(copy) is PipelineFailure
    assert [(type(e), str(e), e.__notes__) for e in copy.exceptions] == [
        (type(e), str(e), e.__notes__) for e in failure.exceptions
    ]


def test_failure_is_made_of_names_and_exceptions() -> None:
    """The constructor takes (stage name, exception) pairs and sorts by name, not by exception."""
    first, second = ValueError("z"), KeyError("a")
    failure = PipelineFailure([("b", first), ("a", second)])
    assert failure.exceptions == (second, first)
