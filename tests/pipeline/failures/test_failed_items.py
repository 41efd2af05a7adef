"""What is kept of an item that failed, and what becomes of a thread of the engine that should never have failed."""

import asyncio
import gc
import itertools
import traceback
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from spdl.pipeline import InternalError, PipelineBuilder, PipelineFailure
from spdl.pipeline._engine import _failures
from spdl.pipeline._engine._lanes import _loop, _loop_slots, _pool
from tests.strategies.watch import BOUND

_SHARED = LookupError("always the same")


def refuse(item: int) -> int:
    raise _SHARED


async def refuse_async(item: int) -> int:
    raise _SHARED


def refuse_some(item: int) -> Iterator[int]:
    yield refuse(item)


async def refuse_some_async(item: int) -> AsyncIterator[int]:
    yield refuse(item)


@pytest.mark.parametrize("op", [refuse, refuse_async, refuse_some, refuse_some_async])
def test_one_exception_object_for_all_items_does_not_grow(op: Callable[[int], Any]) -> None:
    """Notes and traceback are those of few failures, so that the thousandth takes no longer than the tenth."""
    builder: Any = PipelineBuilder().add_source(range(300)).pipe(op, name="refuse", max_failures=-1)
    pipeline = builder.add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=BOUND)) == []
    stage = pipeline.stats().stages[1]
    assert stage.num_failures == 300
    notes = [note for note in _SHARED.__notes__ if ":refuse, " in note and note.startswith("in pipeline stage")]
    here = f"stage {stage.info}, "
    assert [note for note in notes if here in note] == [notes[-1]]
    assert "source position 299, item 299" in notes[-1]
    assert len(traceback.extract_tb(_SHARED.__traceback__)) < 40


def _catching() -> Iterator[str]:
    with suppress(LookupError):
        raise _SHARED
    yield "caught"
    yield "went on"


async def _catching_async() -> str:
    with suppress(LookupError):
        raise _SHARED
    await asyncio.sleep(0)
    return "went on"


def _fail_with_the_same() -> None:
    pipeline = PipelineBuilder().add_source(range(2)).pipe(refuse, max_failures=-1).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=BOUND)) == []


def test_a_failure_does_not_close_a_generator_that_caught_the_same_exception() -> None:
    """Its frame is in the traceback, but has not ended: closing it would lose what it has still to give."""
    generator = _catching()
    assert next(generator) == "caught"
    _fail_with_the_same()
    assert list(generator) == ["went on"]


def test_a_failure_does_not_close_a_coroutine_that_caught_the_same_exception() -> None:
    """Closed, it would cancel what it waits for, and whoever waits for it would wait for ever."""
    coroutine = _catching_async()
    coroutine.send(None)
    _fail_with_the_same()
    with pytest.raises(StopIteration, match="went on"):
        coroutine.send(None)


def test_a_traceback_that_somebody_reads_is_not_cut() -> None:
    """The exception gets a shorter one: the interpreter, which may be printing this one, holds only its first part."""
    traceback_before = None
    for _ in range(30):
        length_before = len(traceback.extract_tb(traceback_before))
        _fail_with_the_same()
        assert len(traceback.extract_tb(traceback_before)) == length_before
        traceback_before = _SHARED.__traceback__


class _Local:
    """A local variable of an op."""


_locals: "weakref.WeakSet[_Local]" = weakref.WeakSet()


def _hold(item: int) -> int:
    local = _Local()
    _locals.add(local)
    raise LookupError


async def _hold_async(item: int) -> int:
    await asyncio.sleep(0)
    return _hold(item)


def _hold_some(item: int) -> Iterator[int]:
    local = _Local()
    _locals.add(local)
    yield _hold(item)


async def _hold_some_async(item: int) -> AsyncIterator[int]:
    local = _Local()
    _locals.add(local)
    yield await _hold_async(item)


@pytest.mark.parametrize("op", [_hold, _hold_async, _hold_some, _hold_some_async])
def test_a_failure_keeps_no_local_variables(op: Callable[[int], Any]) -> None:
    """Those of functions, generators and coroutines that the exception has left."""
    builder: Any = PipelineBuilder().add_source(range(3)).pipe(op, max_failures=-1)
    pipeline = builder.add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=BOUND)) == []
    failures = pipeline.stats().stages[1].failures
    gc.collect()
    assert [failure.error.__traceback__ is not None for failure in failures] == [True] * 3
    assert not list(_locals)


def test_an_error_of_a_pipeline_inside_an_op_keeps_all_of_its_traceback() -> None:
    """Only what repeats itself more often than pipelines are nested is cut off."""

    def deep(depth: int) -> int:
        def source() -> Iterator[int]:
            deep(depth - 1)
            yield 0

        if depth == 0:
            raise LookupError("innermost")
        pipeline = PipelineBuilder().add_source(source()).add_sink().build(num_threads=1)
        try:
            return len(list(pipeline.get_iterator(timeout=BOUND)))
        except PipelineFailure as failure:
            raise failure.exceptions[0] from None
        finally:
            with suppress(PipelineFailure):
                pipeline.stop()

    pipeline = PipelineBuilder().add_source([3]).pipe(deep, max_failures=-1).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=BOUND)) == []
    (failure,) = pipeline.stats().stages[1].failures
    lines = [frame.name for frame in traceback.extract_tb(failure.error.__traceback__)]
    assert lines.count("deep") == 4
    assert lines[-1] == "deep"


class _Broken(BaseException):
    """Nothing of the engine expects this."""


def breaking_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, but for its second call."""
    num_calls = itertools.count(1)

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(num_calls) == 2:
            raise _Broken
        return function(*args, **kwargs)

    return call


async def same_async(item: int) -> int:
    return item


def same(item: int) -> int:
    return item


@pytest.mark.parametrize(
    ("owner", "name", "op"),
    [
        (_pool.PoolLane, "run", same),
        (_pool.PoolLane, "claim", same),
        (_pool.PoolLane, "pass_on", same),
        (_loop_slots.Slots, "claim", same_async),
        (_loop.LoopLane, "_do_as_asked", same_async),
        (_failures, "plain_origin", refuse),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)).rpartition(".")[2],
)
def test_a_thread_of_the_engine_that_dies_is_an_internal_error(
    owner: Any, name: str, op: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong in the engine itself: the consumer learns of it, and nothing waits for ever."""
    monkeypatch.setattr(owner, name, breaking_once(getattr(owner, name)))
    pipeline = PipelineBuilder().add_source(range(9)).pipe(op).add_sink().build(num_threads=2)
    with pytest.raises(PipelineFailure) as caught:
        list(pipeline.get_iterator(timeout=BOUND))
    assert isinstance(caught.value.exceptions[0], InternalError)
    assert isinstance(caught.value.exceptions[0].__cause__, _Broken)
    with suppress(PipelineFailure):
        pipeline.stop(timeout=BOUND)
