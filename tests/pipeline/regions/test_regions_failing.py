"""Regions: items that fail, limits that trip, workers that die, and pipelines that are left early."""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure, WorkerDiedError, WorkerError
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.support import ops, remote
from tests.support.child import run_child
from tests.support.regions import region, with_region
from tests.support.running import TIMEOUT, build_of, drain, fail, run

ENDS = [0, 3, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT]


def counts(pipeline: Any) -> tuple[int, int, int]:
    """What came out of the region's stage, was dropped there, and failed there."""
    (stage,) = [each for each in pipeline.stats().stages if each.info.stage_name.startswith("subprocess_pipeline")]
    return stage.num_emitted, stage.num_dropped, stage.num_failures


# -- items


@pytest.mark.parametrize("workers", [1, 2])
def test_failed_items_are_dropped_in_the_worker(workers: int) -> None:
    """The others come; every one is accounted for."""
    builder = with_region(range(11), lambda b: b.pipe(ops.odd_fails), workers=workers, inputs=3, outputs=2)
    pipeline = builder.build(num_threads=1)
    items, failure = drain(pipeline)
    assert failure is None
    assert sorted(items) == [0, 2, 4, 6, 8, 10]
    assert counts(pipeline) == (6, 0, 5)


def test_a_failed_item_is_in_the_ledger_with_its_origin() -> None:
    """The newest failures name the item and what was raised, though it was raised elsewhere."""
    pipeline = with_region(range(4), lambda b: b.pipe(ops.odd_fails)).build(num_threads=1)
    drain(pipeline)
    failures = [failure for stage in pipeline.stats().stages for failure in stage.failures]
    assert [failure.item_repr for failure in failures] == ["1", "3"]
    assert [str(failure.origin) for failure in failures] == ["1", "3"]
    assert all("ValueError" in str(failure.error) or isinstance(failure.error, ValueError) for failure in failures)
    assert "odd 3" in str(failures[1].error)


def test_an_error_that_does_not_pickle_costs_its_item_only() -> None:
    """It crosses as text."""
    pipeline = with_region(range(3), lambda b: b.pipe(ops.refuse_awkwardly)).build(num_threads=1)
    assert drain(pipeline) == ([], None)
    assert counts(pipeline) == (0, 0, 3)


def test_an_input_that_does_not_pickle_costs_that_item() -> None:
    """It is that item's failure; those dealt with it arrive."""
    builder = with_region([1, remote.Unpicklable(), 2, 3], lambda b: b.pipe(ops.same), inputs=4)
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([1, 2, 3], None)
    assert counts(pipeline) == (3, 0, 1)


def test_an_output_that_does_not_pickle_costs_that_item() -> None:
    """In the worker."""
    builder = with_region(range(5), lambda b: b.pipe(partial(ops.unpicklable_result, at=2)), outputs=5)
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([0, 1, 3, 4], None)
    assert counts(pipeline) == (4, 0, 1)


def test_what_does_not_unpickle_costs_that_item() -> None:
    """On either side of the boundary."""
    builder = with_region([1, remote.BreaksOnArrival(), 2], lambda b: b.pipe(ops.same))
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([1, 2], None)
    builder = with_region(range(4), lambda b: b.pipe(partial(ops.broken_result, at=1)), outputs=4)
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([0, 2, 3], None)
    assert counts(pipeline) == (3, 0, 1)


def test_a_generator_that_fails_keeps_what_it_gave() -> None:
    """As it does here."""
    pipeline = with_region(range(3), lambda b: b.pipe(ops.one_then_fail)).build(num_threads=1)
    assert drain(pipeline) == ([0, 1, 2], None)


# -- limits


@pytest.mark.parametrize("how", ["stage", "build"])
def test_a_limit_that_trips_inside_fails_the_region(how: str) -> None:
    """``Fused subprocess pipeline failed:`` with the traceback from there, of the stage ``subprocess_pipeline(…)``."""
    limit = 1 if how == "stage" else None
    builder = with_region(range(50), lambda b: b.pipe(ops.same), lambda b: b.pipe(ops.odd_fails, max_failures=limit))
    items, error = fail(builder, **({} if how == "stage" else {"max_failures": 1}))
    assert isinstance(error, WorkerError)
    assert "Fused subprocess pipeline failed:" in str(error)
    assert "failed 2 times, which exceeds the threshold (1)" in str(error)
    assert "Traceback" in str(error)
    assert any(note.endswith("subprocess_pipeline(same+odd_fails)") for note in error.__notes__)
    assert items == [0, 2]


def test_no_failure_at_all_is_allowed_by_a_limit_of_none() -> None:
    """``max_failures=0`` at build applies inside too."""
    items, error = fail(with_region(range(9), lambda b: b.pipe(ops.odd_fails)), max_failures=0)
    assert items == [0]
    assert "failed 1 times, which exceeds the threshold (0)" in str(error)


def test_a_stage_inside_may_be_exempt() -> None:
    """By ``max_failures=-1``."""
    builder = with_region(range(9), lambda b: b.pipe(ops.odd_fails, max_failures=-1))
    assert run(builder, max_failures=0) == [0, 2, 4, 6, 8]


def test_a_rate_inside_never_trips_at_one() -> None:
    """``Fraction(1, 1)``."""
    assert run(with_region(range(9), lambda b: b.pipe(ops.refuse, max_failures=Fraction(1, 1)))) == []


def test_an_aggregator_that_fails_inside_fails_the_region() -> None:
    """As it fails its stage here."""
    _, error = fail(with_region(range(5), lambda b: b.aggregate(ops.BrokenAggregator())))
    assert "Fused subprocess pipeline failed:" in str(error)
    assert "no more room" in str(error)


def test_a_router_that_points_nowhere_inside_fails_the_region() -> None:
    """IndexError there."""
    from spdl.pipeline.defs import Pipe

    _, error = fail(with_region(range(5), lambda b: b.path_variants(ops.same, [[Pipe(ops.same)]])))
    assert "Fused subprocess pipeline failed:" in str(error)
    assert "IndexError" in str(error)


def test_stages_after_the_region_finish_what_came() -> None:
    """And those before it are cancelled: the source, which never ends, is closed."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(remote.Endless())
    region(builder, lambda b: b.pipe(ops.second), lambda b: b.pipe(ops.odd_fails, max_failures=0))
    items, error = fail(builder.pipe(ops.double).add_sink(2))
    assert items == [0]
    assert isinstance(error, WorkerError)


# -- workers that die


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
    """``restart=True``: what the dead one held has failed, and all the rest comes."""
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
    assert len({pid for _, pid in items}) == 2


# -- left early


def test_stop_ends_the_workers() -> None:
    """In the middle of everything."""
    builder = with_region(remote.Endless(), lambda b: b.pipe(ops.with_process_id), workers=2)
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        pids = {pipeline.get_item(timeout=TIMEOUT)[1] for _ in range(8)}
    for pid in pids:
        remote.await_end(pid)


def test_stop_ends_a_worker_that_is_stuck() -> None:
    """In an op that never returns: given its time, it is named as a thread's would be, and its process is ended."""
    builder = with_region(range(5), lambda b: b.pipe(ops.block_on_odd))
    pipeline = builder.build(num_threads=1)
    pid = pipeline.get_item(timeout=TIMEOUT)
    with pytest.raises(TimeoutError, match="block_on_odd"):
        pipeline.stop(timeout=0.2)
    remote.await_end(pid)


def test_collection_ends_the_workers() -> None:
    """Of the handle, started and not stopped."""
    pipeline = with_region(remote.Endless(), lambda b: b.pipe(ops.process_id)).build(num_threads=1)
    pid = pipeline.get_item(timeout=TIMEOUT)
    del pipeline
    gc.collect()
    remote.await_end(pid)


def test_a_pipeline_that_was_never_started_leaves_no_worker() -> None:
    """Built and dropped, or built and stopped."""
    builder = with_region(range(5), lambda b: b.pipe(ops.process_id))
    builder.build(num_threads=1)
    builder.build(num_threads=1).stop()
    gc.collect()


@pytest.mark.slow
def test_exit_of_the_interpreter_ends_the_workers() -> None:
    """Without a word."""
    ended = run_child(
        """
        from spdl.pipeline import PipelineBuilder
        from tests.support import remote, ops
        from tests.support.regions import with_region

        if __name__ == "__main__":
            pipeline = with_region(remote.endless(), lambda b: b.pipe(ops.process_id)).build(num_threads=1)
            print(pipeline.get_item(timeout=100))
        """
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    remote.await_end(int(ended.stdout))


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed() -> None:
    """SIGKILL leaves nobody behind."""
    ended = run_child(
        """
        import os, signal
        from tests.support import remote, ops
        from tests.support.regions import with_region

        if __name__ == "__main__":
            builder = with_region(remote.endless(), lambda b: b.pipe(ops.process_id), workers=2)
            pipeline = builder.build(num_threads=1)
            print(*{pipeline.get_item(timeout=100) for _ in range(20)}, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert ended.returncode == -9, ended
    for pid in ended.stdout.split():
        remote.await_end(int(pid))


def test_a_stalled_worker_loses_nothing(tmp_path: Path) -> None:
    """One holds its first item until the other has given ten; then it gives what it has."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pipeline = with_region(range(12), lambda b: b.pipe(partial(ops.wait_at, 0, gate)), workers=2).build(num_threads=1)
    with pipeline.auto_stop():
        iterator = pipeline.get_iterator(timeout=TIMEOUT)
        items = [next(iterator)]
        assert items != [0]
        gate.open("w").close()
        items.extend(iterator)
    assert sorted(items) == list(range(12))


def test_marks_are_checked_when_the_config_is_made() -> None:
    """With the words that say what to do."""
    config = ProcessPoolExecutorConfig(1)
    builder = PipelineBuilder[Any, Any]().add_source(range(3)).to(config).pipe(ops.same).add_sink()
    with pytest.raises(ValueError, match="must be closed with"):
        builder.get_config()
    builder = PipelineBuilder[Any, Any]().add_source(range(3)).to(config).to(MAIN_PROCESS).add_sink()
    with pytest.raises(ValueError, match="has no stages"):
        builder.build(num_threads=1)
    ordered = build_of(range(3), lambda b: region(b, lambda b: b.pipe(ops.same, output_order="input")))
    with pytest.raises(ValueError, match="output_order='input'"):
        ordered.build(num_threads=1)
