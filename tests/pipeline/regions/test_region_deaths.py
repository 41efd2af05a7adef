"""Workers of a region that die, and those that replace them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure, WorkerDiedError
from tests.support import ops, remote
from tests.support.regions import counts, region, with_region
from tests.support.running import TIMEOUT, drain, fail, run

ENDS = [0, 3, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT]


@pytest.mark.parametrize("how", ENDS)
def test_a_worker_that_dies_fails_the_region(how: int) -> None:
    """WorkerDiedError with the exit code, or the signal by name; what came before is delivered."""
    builder = with_region(range(50), lambda b: b.pipe(partial(ops.die, at=6, how=how)))
    items, error = fail(builder)
    assert isinstance(error, WorkerDiedError)
    assert error.exit_code == how
    assert remote.name_of(how) in str(error)
    assert any("subprocess_pipeline(die)" in note for note in error.__notes__)
    assert items == list(range(len(items)))
    assert len(items) <= 6


def test_the_other_workers_are_stopped_when_one_dies() -> None:
    """Also those that are stuck in an op for ever."""
    builder = with_region([0, 1], lambda b: b.pipe(ops.block_or_die), workers=2)
    items, error = fail(builder)
    assert items == []
    assert isinstance(error, WorkerDiedError)
    assert error.exit_code == -signal.SIGKILL


@pytest.mark.parametrize("how", ENDS)
def test_a_worker_that_dies_at_its_start_fails_the_region(how: int) -> None:
    """In its initializer."""
    builder = with_region(range(5), lambda b: b.pipe(ops.same), initializer=remote.break_down, initargs=(how,))
    items, error = fail(builder)
    assert items == []
    assert isinstance(error, WorkerDiedError)
    assert error.exit_code == how


async def one_then_silence() -> AsyncIterator[int]:
    yield 0
    await asyncio.Event().wait()


def test_an_idle_worker_that_is_killed_fails_the_region() -> None:
    """Nobody has to send it anything for its death to be noticed."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(one_then_silence())
    region(builder, lambda b: b.pipe(ops.process_id))
    pipeline = builder.add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        os.kill(pipeline.get_item(timeout=TIMEOUT), signal.SIGKILL)
        with pytest.raises(PipelineFailure) as info:
            pipeline.get_item(timeout=TIMEOUT)
        (error,) = info.value.exceptions
        assert isinstance(error, WorkerDiedError)
        assert error.exit_code == -signal.SIGKILL


@pytest.mark.parametrize("workers", [1, 2])
def test_dead_workers_are_replaced_where_that_is_asked(workers: int) -> None:
    """``restart=True``: what it held is dealt again; items that end every worker fail, and the rest comes."""
    builder = with_region(
        range(30), lambda b: b.pipe(ops.die_at_tens), workers=workers, inputs=1, outputs=1, restart=True
    )
    pipeline = builder.build(num_threads=1)
    items, failure = drain(pipeline)
    assert failure is None
    emitted, dropped, failed = counts(pipeline)
    assert (emitted, dropped) == (len(items), 0)
    assert emitted + failed == 30
    assert len(set(items)) == len(items)
    assert {10, 20}.isdisjoint(items)
    assert set(range(30)) - set(items) >= {10, 20}
    failures = [each for stage in pipeline.stats().stages for each in stage.failures]
    assert all(isinstance(each.error, WorkerDiedError) for each in failures)
    assert {"10", "20"} <= {each.item_repr for each in failures}


def test_an_initializer_runs_in_the_replacement_too() -> None:
    """It is a worker like the others."""
    builder = with_region(
        range(15),
        lambda b: b.pipe(ops.die_at_tens),
        lambda b: b.pipe(ops.notes_and_process_id),
        initializer=remote.note,
        initargs=("hello",),
        restart=True,
    )
    items = run(builder)
    assert all(notes == ["hello"] for notes, _ in items)
    assert len({pid for _, pid in items}) > 1
