"""When sources are closed, what becomes of their errors, and what stopping does to them."""

import asyncio
import gc
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from spdl.pipeline import PipelineFailure
from tests.support.running import (
    TIMEOUT,
    AsyncRecorder,
    Recorder,
    await_event,
    build_of,
    drain,
    fail,
    refuse,
    run,
    running,
)


def test_a_sync_iterator_is_not_closed_at_exhaustion() -> None:
    """It has ended by itself."""
    source = Recorder(range(3))
    assert run(build_of(source)) == [0, 1, 2]
    assert source.num_closed == 0


def ends_early(end: str) -> Callable[[Any], None]:
    """Return how a pipeline over an endless source is ended."""

    def stop(source: Any) -> None:
        with running(build_of(source, sink=1)) as pipeline:
            pipeline.get_item(timeout=TIMEOUT)

    def unread(source: Any) -> None:
        pipeline = build_of(source, sink=1).build(num_threads=1)
        pipeline.start()
        pipeline.stop()

    def body_raises(source: Any) -> None:
        def read() -> None:
            with running(build_of(source)) as pipeline:
                pipeline.get_item(timeout=TIMEOUT)
                raise KeyError

        with pytest.raises(KeyError):
            read()

    def collected(source: Any) -> None:
        def read() -> None:
            for _ in build_of(source).build(num_threads=1):
                break

        read()
        gc.collect()

    def failure(source: Any) -> None:
        fail(build_of(source, lambda b: b.pipe(refuse)), max_failures=0)

    def merge_op_ends(source: Any) -> None:
        from spdl.pipeline import build_pipeline
        from spdl.pipeline.defs import Merge, PipelineConfig, SinkConfig, SourceConfig

        async def take_two(info: Any, inputs: Any, output: Any) -> None:
            for _ in range(2):
                await output.put(await inputs[0].get())

        below: PipelineConfig[Any] = PipelineConfig(SourceConfig(source), [], SinkConfig(1))
        config: PipelineConfig[Any] = PipelineConfig(Merge([below], op=take_two), [], SinkConfig(1))
        items, error = drain(build_pipeline(config, num_threads=1))
        assert len(items) == 2
        assert error is None

    return {
        "stop": stop,
        "unread": unread,
        "body raises": body_raises,
        "collected": collected,
        "failure": failure,
        "merge op ends": merge_op_ends,
    }[end]


ENDS = ["stop", "unread", "body raises", "collected", "failure", "merge op ends"]


@pytest.mark.parametrize("end", ENDS)
def test_a_sync_iterator_is_closed_once_on_early_end(end: str) -> None:
    """A source that is its own iterator is therefore closed itself."""
    source = Recorder(itertools.count())
    ends_early(end)(source)
    assert source.num_closed == 1


@pytest.mark.parametrize("end", ENDS)
def test_the_iterator_is_closed_and_not_the_iterable(end: str) -> None:
    """Where they are two objects."""

    class Source:
        num_closed = 0

        def __iter__(self) -> Recorder:
            self.iterator = Recorder(itertools.count())
            return self.iterator

        def close(self) -> None:
            self.num_closed += 1

    source = Source()
    ends_early(end)(source)
    assert source.num_closed == 0
    assert source.iterator.num_closed == 1


@pytest.mark.parametrize("end", ENDS)
def test_an_iterator_without_close_is_left_alone(end: str) -> None:
    """``close`` is called if there is one."""
    ends_early(end)(itertools.count())


@pytest.mark.parametrize("end", ENDS)
def test_a_generator_is_closed_on_early_end(end: str) -> None:
    """Its ``finally`` has run when the pipeline has ended."""
    closed = []

    def source() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            closed.append(True)

    generator = source()
    ends_early(end)(generator)
    if end != "unread":  # one that was never begun has nothing to run
        assert closed == [True]
    assert next(generator, "closed") == "closed"


@pytest.mark.parametrize("end", ENDS)
def test_an_async_iterator_is_closed_once_on_early_end(end: str) -> None:
    """``aclose`` is awaited."""
    source = AsyncRecorder(itertools.count())
    ends_early(end)(source)
    assert source.num_closed == 1


def test_an_async_iterator_is_closed_at_exhaustion() -> None:
    """Unlike a sync one."""
    source = AsyncRecorder(range(3))
    assert run(build_of(source)) == [0, 1, 2]
    assert source.num_closed == 1


def test_an_async_iterator_is_closed_when_it_raises() -> None:
    """Every way out."""

    class Failing(AsyncRecorder):
        async def __anext__(self) -> Any:
            raise OSError("source")

    source = Failing([])
    _, error = fail(build_of(source))
    assert isinstance(error, OSError)
    assert source.num_closed == 1


@pytest.mark.parametrize("num_items", [0, 1])
def test_an_async_source_that_waits_is_cancelled(num_items: int) -> None:
    """Stopping cancels it where it waits, and closes it."""
    events: list[str] = []
    waiting = threading.Event()

    async def source() -> AsyncIterator[int]:
        try:
            for item in range(num_items):
                yield item
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            events.append("closed")

    pipeline = build_of(source()).build(num_threads=1)
    pipeline.start()
    await_event(waiting)
    pipeline.stop()
    assert events == ["cancelled", "closed"]
    assert list(pipeline.get_iterator(timeout=0)) == list(range(num_items))


def test_a_close_that_raises_does_not_break_the_end() -> None:
    """The pipeline ends; the error is logged and costs nothing else."""

    class Stubborn(Recorder):
        def close(self) -> None:
            super().close()
            raise OSError("close")

    source = Stubborn(itertools.count())
    with running(build_of(source)) as pipeline:
        assert pipeline.get_item(timeout=TIMEOUT) == 0
    assert source.num_closed == 1


@pytest.mark.parametrize("num_items", [0, 1, 5])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("max_failures", [-1, 10])
def test_a_source_that_raises_fails_after_all_earlier_items(num_items: int, is_async: bool, max_failures: int) -> None:
    """Everything it gave comes out of every stage, the aggregate's rest too; then its own exception is raised."""
    failure = OSError("source")

    def source() -> Iterator[int]:
        yield from range(num_items)
        raise failure

    async def source_async() -> AsyncIterator[int]:
        for item in source():
            yield item

    async def op(item: int) -> int:
        return item

    builder = build_of(
        source_async() if is_async else source(),
        lambda b: b.pipe(lambda item: item, concurrency=2, output_order="input").pipe(op).aggregate(2).disaggregate(),
    )
    items, error = fail(builder, max_failures=max_failures)
    assert items == list(range(num_items))
    assert error is failure
    assert any(":0:src" in note for note in error.__notes__)


def test_a_source_whose_iter_raises_fails() -> None:
    """Before the first item."""

    class Source:
        def __iter__(self) -> Iterator[int]:
            raise OSError("iter")

    class AsyncSource:
        def __aiter__(self) -> AsyncIterator[int]:
            raise OSError("aiter")

    for source in (Source(), AsyncSource()):
        items, error = fail(build_of(source))
        assert items == []
        assert isinstance(error, OSError)


def test_a_source_whose_iter_returns_no_iterator_fails() -> None:
    """With the TypeError that ``iter()`` raises."""

    class Source:
        def __iter__(self) -> Any:
            return 5

    _, error = fail(build_of(Source()))
    assert isinstance(error, TypeError)


@pytest.mark.parametrize("exception", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_a_bare_base_exception_of_a_source_fails_it_too(exception: BaseException) -> None:
    """It reaches the consumer as a failure of the source, not as a dead thread and a consumer that waits."""

    class Source:
        def __init__(self) -> None:
            self.items = iter([1, 2])

        def __iter__(self) -> "Source":
            return self

        def __next__(self) -> int:
            for item in self.items:
                return item
            raise exception

    class AsyncSource(AsyncRecorder):
        async def __anext__(self) -> int:
            for item in self.items:
                return int(item)
            raise exception

    for source in (Source(), AsyncSource([1, 2])):
        items, error = fail(build_of(source))
        assert items == [1, 2]
        assert exception in (error, error.__cause__)


def test_an_error_of_the_source_is_raised_by_stop_if_nobody_read_it() -> None:
    """Once."""
    raised = threading.Event()

    class Source:
        def __iter__(self) -> Iterator[int]:
            raised.set()
            raise OSError("source")

    pipeline = build_of(Source()).build(num_threads=1)
    pipeline.start()
    await_event(raised)
    # The thread has begun to raise; only a read tells when the failure has been noted.
    with pytest.raises(PipelineFailure):
        pipeline.get_item(timeout=TIMEOUT)
    pipeline.stop()


@pytest.mark.slow
@pytest.mark.allow_leaks(reason="the source's thread is blocked on purpose when the pipeline leaves it")
def test_stop_leaves_a_blocked_source_alone() -> None:
    """The thread stays in ``next()``; when that returns at last, nothing more is asked of the source."""
    release = threading.Event()
    num_asked = 0
    blocked = threading.Event()
    thread: list[threading.Thread] = []

    class Source:
        def __iter__(self) -> "Source":
            return self

        def __next__(self) -> int:
            nonlocal num_asked
            num_asked += 1
            if num_asked == 2:
                thread.append(threading.current_thread())
                blocked.set()
                await_event(release)
            return num_asked

    pipeline = build_of(Source(), sink=10).build(num_threads=1)
    pipeline.start()
    await_event(blocked)
    pipeline.stop()
    assert thread[0].is_alive()
    assert thread[0].daemon
    release.set()
    thread[0].join(TIMEOUT)
    assert num_asked == 2
    assert list(pipeline) == [1]


def test_a_pipeline_is_the_source_of_another() -> None:
    """Items pass from one to the other; the inner one is started and ended by use."""
    inner = build_of(range(5), lambda b: b.pipe(lambda item: item + 1)).build(num_threads=1)
    assert run(build_of(inner, lambda b: b.pipe(lambda item: item * 10))) == [10, 20, 30, 40, 50]


def test_a_failure_of_an_inner_pipeline_fails_the_outer() -> None:
    """As the error of its source, after all earlier items."""

    def op(item: int) -> int:
        if item == 3:
            raise ValueError(item)
        return item

    inner = build_of(range(5), lambda b: b.pipe(op)).build(num_threads=1, max_failures=0)
    items, error = fail(build_of(inner))
    assert items == [0, 1, 2]
    assert isinstance(error, PipelineFailure)


def test_a_source_may_be_shared_by_two_pipelines_in_turn() -> None:
    """An iterator goes on where the other pipeline left it: what was taken ahead is gone with that pipeline."""
    source = iter(range(100))
    with running(build_of(source, sink=1)) as pipeline:
        first = pipeline.get_item(timeout=TIMEOUT)
    rest = run(build_of(source))
    assert first == 0
    assert rest == list(range(rest[0], 100))
