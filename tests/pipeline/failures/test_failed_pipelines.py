"""Failed pipelines: who learns of it, when and how often, what still comes out, and what the error is like."""

import asyncio
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import (
    BackgroundTask,
    FailureLimitError,
    Pipeline,
    PipelineBuilder,
    PipelineFailure,
    build_pipeline,
)
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.pipeline.failures.failing import Breaking, SourceError, of, refuse
from tests.support.running import TIMEOUT, await_event, build_of, drain, fail


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


def test_failure_is_raised_by_one_of_several_stops_at_once() -> None:
    """Threads that stop a failed pipeline together: one of them is told, the others return."""
    for _ in range(5):
        pipeline, done = with_end(PipelineConfig(SourceConfig(Breaking(0)), [], SinkConfig(3)))
        pipeline.start()
        await_event(done)
        barrier = threading.Barrier(3)

        def stop(_: int, pipeline: Pipeline[Any] = pipeline, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(TIMEOUT)
            try:
                pipeline.stop()
            except PipelineFailure:
                return True
            return False

        with ThreadPoolExecutor(3) as pool:
            assert sorted(pool.map(stop, range(3))) == [False, False, True]


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
    pipeline = of(range(3), lambda b: b.pipe(lambda item: item if item == 1 else refuse(item)))
    with pipeline.auto_stop():
        assert list(pipeline) == [1]
    assert pipeline.stats().state == "ended"


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
