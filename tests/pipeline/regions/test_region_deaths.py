"""Workers of a region that die, and those that replace them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure, WorkerDiedError
from tests.pipeline.regions import ops as region_ops
from tests.support import ops, remote
from tests.support.region_kinds import IN_PROCESSES, RegionKind, kinds_with, of_kind
from tests.support.regions import counts
from tests.support.running import TIMEOUT, drain, fail, run

ENDS = kinds_with(
    "how",
    [
        *[of_kind("processes", how) for how in (0, 3, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT)],
        *[of_kind("actors", how) for how in (0, -signal.SIGSEGV)],
        *[of_kind("far-actors", how) for how in (3, -signal.SIGKILL)],
    ],
)


def check_how(kind: RegionKind, error: WorkerDiedError, how: int) -> None:
    """It says how the worker ended, as far as that is known: Ray does not tell."""
    if kind.are_actors:
        assert error.exit_code is None
        assert "actor " in str(error)
    else:
        assert error.exit_code == how
        assert remote.name_of(how) in str(error)


@ENDS
def test_a_worker_that_dies_fails_the_region(kind: RegionKind, how: int) -> None:
    """WorkerDiedError with the exit code, or the signal by name; what came before is delivered."""
    builder = kind.with_region(range(50), lambda b: b.pipe(partial(ops.die, at=6, how=how)))
    items, error = fail(builder)
    assert isinstance(error, WorkerDiedError)
    check_how(kind, error, how)
    assert any("subprocess_pipeline(die)" in note for note in error.__notes__)
    assert items == list(range(len(items)))
    assert len(items) <= 6


@IN_PROCESSES
def test_the_other_workers_are_stopped_when_one_dies(kind: RegionKind, tmp_path: Path) -> None:
    """Also those that are stuck in an op for ever."""
    op = partial(region_ops.block_one_and_die, tmp_path / "note")
    items, error = fail(kind.with_region(count(), lambda b: b.pipe(op), workers=2))
    assert items == []
    assert isinstance(error, WorkerDiedError)
    check_how(kind, error, -signal.SIGKILL)


@ENDS
def test_a_worker_that_dies_at_its_start_fails_the_region(kind: RegionKind, how: int) -> None:
    """In its initializer."""
    builder = kind.with_region(range(5), lambda b: b.pipe(ops.same), initializer=remote.break_down, initargs=(how,))
    items, error = fail(builder)
    assert items == []
    assert isinstance(error, WorkerDiedError)
    check_how(kind, error, how)


async def one_then_silence() -> AsyncIterator[int]:
    yield 0
    await asyncio.Event().wait()


@IN_PROCESSES
def test_an_idle_worker_that_is_killed_fails_the_region(kind: RegionKind) -> None:
    """Nobody has to send it anything for its death to be noticed."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(one_then_silence())
    kind.region(builder, lambda b: b.pipe(ops.process_id))
    pipeline = builder.add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        os.kill(pipeline.get_item(timeout=TIMEOUT), signal.SIGKILL)
        with pytest.raises(PipelineFailure) as info:
            pipeline.get_item(timeout=TIMEOUT)
        (error,) = info.value.exceptions
        assert isinstance(error, WorkerDiedError)
        check_how(kind, error, -signal.SIGKILL)


@IN_PROCESSES
@pytest.mark.parametrize("workers", [1, 2])
def test_dead_workers_are_replaced_where_that_is_asked(kind: RegionKind, workers: int) -> None:
    """``restart=True``: what it held is dealt again; items that end every worker fail, and the rest comes."""
    builder = kind.with_region(
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


@IN_PROCESSES
def test_an_initializer_runs_in_the_replacement_too(kind: RegionKind) -> None:
    """It is a worker like the others."""
    builder = kind.with_region(
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
