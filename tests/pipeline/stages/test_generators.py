"""Generator ops: outputs as they are produced, and closed on every way out."""

import asyncio
import functools
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure
from tests.support.running import TIMEOUT, await_event, build_of, drain, fail, run, running

KINDS = ["sync", "async", "executor", "ordered"]


class Closings:
    """Generator ops, sync and async, that count to ``num_outputs`` and tell when they were begun and closed."""

    def __init__(self, num_outputs: int = 1_000_000) -> None:
        self.num_outputs = num_outputs
        self.num_begun = 0
        self.num_closed = 0
        self.lock = threading.Lock()
        self.begun = threading.Event()

    def begin(self) -> None:
        with self.lock:
            self.num_begun += 1
        self.begun.set()

    def close(self) -> None:
        with self.lock:
            self.num_closed += 1

    def sync(self, item: Any) -> Iterator[Any]:
        self.begin()
        try:
            for k in range(self.num_outputs):
                yield item, k
        finally:
            self.close()

    async def asynchronous(self, item: Any) -> AsyncIterator[Any]:
        self.begin()
        try:
            for k in range(self.num_outputs):
                yield item, k
        finally:
            await asyncio.sleep(0)  # closed by aclose(), which is awaited: otherwise this fails
            self.close()

    def add(
        self, kind: str, pool: ThreadPoolExecutor, concurrency: int = 1
    ) -> Callable[[PipelineBuilder[Any, Any]], Any]:
        op: Any = self.asynchronous if kind == "async" else self.sync
        return lambda builder: builder.pipe(
            op,
            concurrency=concurrency,
            executor=pool if kind == "executor" else None,
            output_order="input" if kind == "ordered" else "completion",
        )

    def check(self) -> None:
        assert self.num_begun > 0
        assert self.num_closed == self.num_begun


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


@pytest.mark.parametrize("kind", KINDS)
def test_every_yield_is_an_output(kind: str, pool: ThreadPoolExecutor) -> None:
    """In the order of the yields; the next item follows."""
    closings = Closings(5)
    assert run(build_of("ab", closings.add(kind, pool))) == [(item, k) for item in "ab" for k in range(5)]
    closings.check()


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_emitted_as_they_are_produced(kind: str, pool: ThreadPoolExecutor) -> None:
    """The first output is read while the generator waits before its second."""
    release = threading.Event()

    def op(item: int) -> Iterator[int]:
        yield 1
        await_event(release)
        yield 2

    async def op_async(item: int) -> AsyncIterator[int]:
        yield 1
        await asyncio.to_thread(await_event, release)
        yield 2

    builder = build_of(
        [0],
        lambda b: b.pipe(
            op_async if kind == "async" else op,
            executor=pool if kind == "executor" else None,
            output_order="input" if kind == "ordered" else "completion",
        ),
    )
    with running(builder) as pipeline:
        assert pipeline.get_item(timeout=TIMEOUT) == 1
        release.set()
        assert pipeline.get_item(timeout=TIMEOUT) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("concurrency", [1, 3])
def test_generators_are_closed_by_stop(kind: str, concurrency: int, pool: ThreadPoolExecutor) -> None:
    """Leaving ``auto_stop`` in the middle closes those that run and those that wait for room."""
    closings = Closings()
    with running(build_of(range(5), closings.add(kind, pool, concurrency), sink=1)) as pipeline:
        for _ in range(7):
            pipeline.get_item(timeout=TIMEOUT)
    closings.check()


@pytest.mark.parametrize("kind", KINDS)
def test_generators_are_closed_when_nothing_was_read(kind: str, pool: ThreadPoolExecutor) -> None:
    """``stop`` with a full sink."""
    closings = Closings()
    with running(build_of(range(5), closings.add(kind, pool, 2), sink=1)):
        await_event(closings.begun)
    closings.check()


@pytest.mark.parametrize("kind", KINDS)
def test_generators_are_closed_when_the_handle_is_collected(kind: str, pool: ThreadPoolExecutor) -> None:
    """A ``break`` out of a loop, and nobody who holds the pipeline."""
    closings = Closings()

    def read() -> None:
        for _ in build_of(range(5), closings.add(kind, pool)).build(num_threads=2):
            break

    read()
    gc.collect()
    closings.check()


@pytest.mark.parametrize("kind", KINDS)
def test_generators_are_closed_when_a_later_stage_fails(kind: str, pool: ThreadPoolExecutor) -> None:
    """A failing stage cancels those before it."""
    closings = Closings()

    def refuse(item: tuple[int, int]) -> tuple[int, int]:
        if item[1] == 3:
            raise ValueError(item)
        return item

    builder = build_of(range(5), closings.add(kind, pool), lambda b: b.pipe(refuse, max_failures=0))
    items, error = fail(builder)
    assert items == [(0, 0), (0, 1), (0, 2)]
    assert "refuse" in str(error)
    closings.check()


@pytest.mark.parametrize("kind", KINDS)
def test_generators_are_closed_when_another_path_fails(kind: str, pool: ThreadPoolExecutor) -> None:
    """A failing path shuts down the other paths."""
    from spdl.pipeline.defs import Pipe

    closings = Closings()

    def refuse(item: int) -> int:
        await_event(closings.begun)
        raise ValueError(item)

    op: Any = closings.asynchronous if kind == "async" else closings.sync
    pipe = Pipe(
        op,
        executor=pool if kind == "executor" else None,
        output_order="input" if kind == "ordered" else "completion",
    )
    builder = build_of(range(2), lambda b: b.path_variants(lambda item: item, [[pipe], [Pipe(refuse, max_failures=0)]]))
    _, failure = drain(builder.build(num_threads=4))
    assert failure is not None
    closings.check()


@pytest.mark.parametrize("kind", ["sync", "async", "executor", "ordered"])
def test_generators_are_closed_when_their_own_stage_fails(kind: str, pool: ThreadPoolExecutor) -> None:
    """One of them crosses the limit; those that wait for room, or for their turn, are closed."""
    closings = Closings()

    def op(item: int) -> Iterator[Any]:
        if item == 2:
            await_event(closings.begun)
            raise ValueError(item)
        yield from closings.sync(item)

    async def op_async(item: int) -> AsyncIterator[Any]:
        if item == 2:
            raise ValueError(item)
        generator = closings.asynchronous(item)
        try:
            async for output in generator:
                yield output
        finally:
            await generator.aclose()  # type: ignore[attr-defined]

    builder = build_of(
        range(3),
        lambda b: b.pipe(
            op_async if kind == "async" else op,
            concurrency=3,
            executor=pool if kind == "executor" else None,
            output_order="input" if kind == "ordered" else "completion",
            max_failures=0,
        ),
        sink=1,
    )
    _, failure = drain(builder.build(num_threads=4))
    assert failure is not None
    assert closings.num_closed == closings.num_begun


def test_what_a_generator_had_yielded_before_it_raised_stays() -> None:
    """One failure per broken generator, whatever it gave before."""

    def op(item: int) -> Iterator[tuple[int, int]]:
        yield item, 0
        yield item, 1
        if item == 1:
            raise ValueError(item)

    async def op_async(item: tuple[int, int]) -> AsyncIterator[tuple[int, int]]:
        yield item
        if item == (0, 1):
            raise ValueError(item)

    pipeline = build_of(range(3), lambda b: b.pipe(op).pipe(op_async)).build(num_threads=2)
    assert drain(pipeline) == ([(item, k) for item in range(3) for k in range(2)], None)
    _, first, second, _ = pipeline.stats().stages
    assert (first.num_failures, second.num_failures) == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_empty_generators_give_nothing(kind: str, pool: ThreadPoolExecutor) -> None:
    """And end well."""
    closings = Closings(0)
    assert run(build_of(range(20), closings.add(kind, pool, 2))) == []
    assert closings.num_closed == 20


def test_parked_generators_leave_their_thread_to_others() -> None:
    """One thread, two generator stages, a sink of one: nobody waits for room while holding the thread."""

    def twice(item: int) -> Iterator[int]:
        for _ in range(4):
            yield item

    builder = build_of(range(10), lambda b: b.pipe(twice, concurrency=3).pipe(twice, concurrency=3), sink=1)
    assert sorted(run(builder, num_threads=1)) == sorted([item for item in range(10) for _ in range(16)])


def test_an_endless_generator_is_read_step_by_step(pool: ThreadPoolExecutor) -> None:
    """It runs no further than there is room: 1 held by the call and 3 in the sink, beyond what was read."""
    steps = 0
    reached = threading.Event()

    def op(item: int) -> Iterator[int]:
        nonlocal steps
        while True:
            steps += 1
            if steps == 9:
                reached.set()
            yield steps

    with running(build_of([0], lambda b: b.pipe(op), sink=3)) as pipeline:
        for expected in range(1, 6):
            assert pipeline.get_item(timeout=TIMEOUT) == expected
        await_event(reached)
    assert steps == 9


def test_a_generator_that_refuses_to_close_fails_nothing() -> None:
    """One that raises while it is closed: the pipeline still ends."""

    def op(item: int) -> Iterator[int]:
        try:
            while True:
                yield item
        finally:
            raise ValueError("not closed")

    with running(build_of([0], lambda b: b.pipe(op))) as pipeline:
        assert pipeline.get_item(timeout=TIMEOUT) == 0


def test_decorated_and_partial_generators_are_closed() -> None:
    """However the generator function was wrapped."""
    closings = Closings()

    def op(prefix: str, item: Any) -> Iterator[Any]:
        return closings.sync(item)

    @functools.wraps(closings.sync)
    def wrapped(item: Any) -> Iterator[Any]:
        yield from closings.sync(item)

    with running(build_of([0], lambda b: b.pipe(functools.partial(wrapped)))) as pipeline:
        pipeline.get_item(timeout=TIMEOUT)
    closings.check()


def test_generators_close_when_the_source_fails() -> None:
    """The source's failure lets generators finish: what they yield comes out before the failure is raised."""

    def source() -> Iterator[int]:
        yield 1
        raise OSError("source")

    closings = Closings(6)
    pipeline = build_of(source(), lambda b: b.pipe(closings.sync), sink=1).build(num_threads=1)
    with pipeline.auto_stop():
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(6)] == [(1, k) for k in range(6)]
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=TIMEOUT)
    closings.check()


def test_async_generators_that_wait_for_room_are_all_woken() -> None:
    """Two of them wait for room in a full sink, and two items are read before the loop has a turn: both go on."""
    blocked = threading.Event()
    release = threading.Event()

    async def op(item: int) -> AsyncIterator[int]:
        if item < 4:
            yield item
        else:
            blocked.set()
            await_event(release)  # holds the loop's thread, on purpose

    with running(build_of(range(5), lambda b: b.pipe(op, concurrency=3), sink=2)) as pipeline:
        await_event(blocked)
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(2)] == [0, 1]
        release.set()
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [2, 3]
