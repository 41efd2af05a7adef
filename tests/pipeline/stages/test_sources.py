"""Sources: what may be one, and how it is iterated."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineStateError
from tests.support.running import TIMEOUT, AsyncRecorder, await_event, build_of, refuse, run, running


@pytest.mark.parametrize("bad", [None, 1, object(), int, lambda: iter([])])
def test_what_cannot_be_iterated_is_refused(bad: Any) -> None:
    """By ``add_source`` itself."""
    with pytest.raises(ValueError):
        PipelineBuilder[Any, Any]().add_source(bad)


def test_a_second_source_is_refused() -> None:
    """One pipeline has one source; the first one stays."""
    builder = PipelineBuilder[Any, Any]().add_source([1])
    with pytest.raises(ValueError):
        builder.add_source([2])
    assert run(builder.add_sink(1)) == [1]


def test_none_and_falsy_items_of_a_source_are_items() -> None:
    """Only results of ops are filtered."""
    items: list[Any] = [None, 0, "", [], None]
    assert run(build_of(items)) == items
    assert run(build_of(items, lambda b: b.pipe(lambda item: [item]))) == [[item] for item in items]

    async def source() -> AsyncIterator[Any]:
        for item in items:
            yield item

    assert run(build_of(source())) == items


def test_none_reaches_async_ops_and_generators() -> None:
    """As any item."""

    async def op(item: Any) -> Any:
        return repr(item)

    def give(item: Any) -> Iterator[Any]:
        yield item

    assert run(build_of([None], lambda b: b.pipe(op).pipe(give))) == ["None"]


@pytest.mark.parametrize("source", [[], (), "", {}, iter([]), range(0)])
def test_an_empty_source_ends_at_once(source: Any) -> None:
    """Whatever stages follow."""
    assert run(build_of(source, lambda b: b.pipe(refuse).aggregate(3).disaggregate())) == []


def test_an_empty_async_source_ends_at_once() -> None:
    """It is closed as well."""
    source = AsyncRecorder([])
    assert run(build_of(source)) == []
    assert source.num_closed == 1


def test_a_sync_source_is_iterated_by_one_thread_of_its_own() -> None:
    """Not by the caller's, and by the same one from first to last."""
    threads = []

    def source() -> Iterator[int]:
        for item in range(10):
            threads.append(threading.get_ident())
            yield item

    assert run(build_of(source(), lambda b: b.pipe(lambda item: item))) == list(range(10))
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_a_blocked_source_holds_nobody_up() -> None:
    """While it blocks in ``next()``, what it gave goes through a pipeline of one thread."""
    release = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        await_event(release)
        yield 2

    with running(build_of(source(), lambda b: b.pipe(lambda item: item)), num_threads=1) as pipeline:
        assert pipeline.get_item(timeout=TIMEOUT) == 1
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        release.set()
        assert pipeline.get_item(timeout=TIMEOUT) == 2
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=TIMEOUT)


def test_an_async_source_is_iterated_on_a_loop() -> None:
    """It may await, and shares the loop with async ops."""
    loops = set()

    async def source() -> AsyncIterator[int]:
        loops.add(asyncio.get_running_loop())
        for item in range(5):
            await asyncio.sleep(0)
            yield item

    async def op(item: int) -> int:
        loops.add(asyncio.get_running_loop())
        return item

    assert run(build_of(source(), lambda b: b.pipe(op))) == list(range(5))
    assert len(loops) == 1


def test_one_iterator_is_asked_for() -> None:
    """``__iter__`` is called once, however many iterators the pipeline gives out."""

    class Source:
        num_iters = 0

        def __iter__(self) -> Iterator[int]:
            self.num_iters += 1
            return iter(range(6))

    source = Source()
    with running(build_of(source)) as pipeline:
        for expected in range(4):
            assert next(iter(pipeline)) == expected
        assert list(pipeline) == [4, 5]
        with pytest.raises(PipelineStateError):
            list(pipeline)
    assert source.num_iters == 1


def test_one_async_iterator_is_asked_for() -> None:
    """The same for ``__aiter__``."""

    class Source:
        num_iters = 0

        def __aiter__(self) -> AsyncRecorder:
            self.num_iters += 1
            return AsyncRecorder(range(3))

    source = Source()
    assert run(build_of(source)) == [0, 1, 2]
    assert source.num_iters == 1


def test_an_iterable_of_both_kinds_works() -> None:
    """Sync and async: either is right, and each item comes once."""

    class Both:
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

        def __aiter__(self) -> AsyncRecorder:
            return AsyncRecorder(range(3))

    assert run(build_of(Both())) == [0, 1, 2]
