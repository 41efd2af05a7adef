"""``pipe(op, isolate=True)``: a crash costs the item that caused it, and nothing else."""

import gc
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import PipelineBuilder, StageTimeoutError, WorkerDiedError
from spdl.pipeline.defs import Pipe, Retry
from tests.support import ops, remote, remote_arrays
from tests.support.child import run_child
from tests.support.leaving import run_apart
from tests.support.running import TIMEOUT, build_of, drain, fail, run

ENDS = [0, 3, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGTERM, -signal.SIGFPE]


def isolated(op: Any, source: Any, **options: Any) -> Any:
    """A builder of one isolated stage."""
    return build_of(source, lambda b: b.pipe(op, isolate=True, **options))


def ended(builder: Any, **options: Any) -> tuple[list[Any], Any]:
    """What came out of a pipeline that ended well, and the statistics of its stage."""
    pipeline = builder.build(num_threads=2, **options)
    items, failure = drain(pipeline)
    assert failure is None, failure.exceptions
    return items, pipeline.stats().stages[1]


# -- what runs there


def test_calls_run_in_a_process_of_their_own() -> None:
    """Always the same one with concurrency 1, and in order."""
    items = run(isolated(ops.with_process_id, range(20)))
    assert [item for item, _ in items] == list(range(20))
    assert len({pid for _, pid in items}) == 1
    assert items[0][1] != os.getpid()


def test_there_are_as_many_processes_as_calls_at_once() -> None:
    """``concurrency`` of them, each with one call at a time."""
    items = run(isolated(ops.with_process_id, range(60), concurrency=3))
    assert sorted(item for item, _ in items) == list(range(60))
    assert 1 <= len({pid for _, pid in items}) <= 3


def test_calls_do_run_at_once(tmp_path: Any) -> None:
    """Each of two waits for the other."""
    os.mkfifo(tmp_path / "one")
    os.mkfifo(tmp_path / "two")
    op = partial(ops.meet_in_files, tmp_path)
    assert sorted(run(isolated(op, range(2), concurrency=2))) == [0, 1]


def test_order_of_inputs_can_be_kept() -> None:
    """Failed items leave no gap."""
    builder = isolated(ops.odd_fails, range(40), concurrency=3, output_order="input")
    assert run(builder) == list(range(0, 40, 2))


def test_generators_are_collected_there() -> None:
    """Their outputs come when they have ended; None is dropped."""
    assert run(isolated(ops.twice, range(4))) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert run(isolated(ops.some_none, range(3))) == [0, 1, 2]
    items, stage = ended(isolated(ops.one_then_fail, range(2)))
    assert items in ([], [0, 1])
    assert stage.num_failures == 2


def test_none_drops_the_item() -> None:
    """And only None."""
    assert run(isolated(ops.odd_is_dropped, range(6))) == [0, 2, 4]
    assert run(isolated(ops.same, [0, "", [], False])) == [0, "", [], False]


def test_methods_partials_and_containers_go_there() -> None:
    """Whatever pickles; it is pickled once for each process."""
    assert run(isolated(partial(ops.add, 10), [1, 2])) == [11, 12]
    assert run(isolated(ops.Adder(5).add, [1, 2])) == [6, 7]
    assert run(isolated({"a": 1, "b": 2}, ["b", "a"])) == [2, 1]
    counter = ops.CountsItself()
    assert run(isolated(counter, range(4))) == [1, 2, 3, 4]
    assert counter.num_calls == 0


def test_arrays_go_both_ways() -> None:
    """Large ones, as they were."""
    items = [np.full((300, 500), k, np.int16) for k in range(5)]
    for k, array in enumerate(run(isolated(ops.same, items))):
        assert array.dtype == np.int16
        assert array.shape == (300, 500)
        assert (array == k).all()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="where an array lies is read from Linux's /proc")
def test_batches_are_born_in_the_arena() -> None:
    """Nobody copies what the op wrote there."""
    for k, (array, place) in enumerate(run(isolated(remote_arrays.born_as_batch, range(5)))):
        assert remote_arrays.place_of(array) == place
        assert (array == k).all()


# -- what fails there


@pytest.mark.parametrize("how", ENDS)
def test_a_crash_costs_its_item(how: int) -> None:
    """WorkerDiedError is that item's failure, with exit code or signal by name; the others come from a new process."""
    items, stage = ended(isolated(partial(ops.die, at=2, how=how), range(6)))
    assert items == [0, 1, 3, 4, 5]
    assert (stage.num_failures, stage.num_emitted) == (1, 5)
    (failure,) = stage.failures
    assert isinstance(failure.error, WorkerDiedError)
    assert failure.error.exit_code == how
    assert remote.name_of(how) in str(failure.error)
    assert failure.item_repr == "2"
    assert str(failure.origin) == "2"


def test_every_item_may_crash() -> None:
    """Process after process."""
    items, stage = ended(isolated(ops.crash, range(6), concurrency=2))
    assert items == []
    assert stage.num_failures == 6
    assert all(isinstance(failure.error, WorkerDiedError) for failure in stage.failures)


def test_a_crash_while_a_process_is_idle_costs_nothing() -> None:
    """Killed between two calls: the next one gets a new process."""
    kill_in_between = build_of(
        range(4), lambda b: b.pipe(ops.process_id, isolate=True), lambda b: b.pipe(ops.kill), sink=1
    )
    items, failure = drain(kill_in_between.build(num_threads=1))
    assert failure is None
    assert len(items) >= 1


def test_an_exception_is_the_failure_of_its_item() -> None:
    """As it is anywhere; the process lives on. Type name, message and place are in it."""
    items, stage = ended(isolated(ops.odd_fails_with_process, range(6)))
    assert [item for item, _ in items] == [0, 2, 4]
    assert len({pid for _, pid in items}) == 1
    assert stage.num_failures == 3
    text = str(stage.failures[0].error)
    assert "ValueError" in text or isinstance(stage.failures[0].error, ValueError)
    assert "odd 1" in text


def test_an_exception_that_does_not_pickle_is_told_all_the_same() -> None:
    """By its text."""
    _, stage = ended(isolated(ops.refuse_awkwardly, [7]))
    assert "this and 7" in str(stage.failures[0].error)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_is_no_ordinary_exception_costs_its_item_at_most(error: BaseException) -> None:
    """The pipeline goes on."""
    items, stage = ended(isolated(partial(ops.fail_at, 1, error), range(4)))
    assert items == [0, 2, 3]
    assert stage.num_failures == 1


def test_what_does_not_pickle_costs_its_item() -> None:
    """Going there or coming back."""
    items, stage = ended(isolated(ops.same, [1, remote.Unpicklable(), 2]))
    assert (items, stage.num_failures) == ([1, 2], 1)
    assert "this one stays at home" in str(stage.failures[0].error)
    items, stage = ended(isolated(partial(ops.unpicklable_result, at=1), range(3)))
    assert (items, stage.num_failures) == ([0, 2], 1)
    items, stage = ended(isolated(ops.same, [1, remote.BreaksOnArrival(), 2]))
    assert (items, stage.num_failures) == ([1, 2], 1)
    items, stage = ended(isolated(partial(ops.broken_result, at=1), range(3)))
    assert (items, stage.num_failures) == ([0, 2], 1)


def test_an_op_that_does_not_pickle_is_named() -> None:
    """Before any item is lost: it fails the stage."""
    items, error = fail(isolated(lambda item: item, range(3)))
    assert items == []
    assert isinstance(error, TypeError)
    assert "lambda" in str(error)


def test_crashes_count_for_the_limit() -> None:
    """As other failures do."""
    items, error = fail(isolated(partial(ops.die, at=1, how=3), range(5), max_failures=0))
    assert items == [0]
    assert "failed 1 times, which exceeds the threshold (0)" in str(error)
    assert isinstance(error.__cause__, WorkerDiedError)


# -- too slow


def test_a_call_that_takes_too_long_costs_its_item() -> None:
    """Its process is killed, even if it holds the GIL: StageTimeoutError. The others come."""
    items, stage = ended(isolated(ops.hold_the_gil_at_two, range(4), timeout=0.5))
    assert items == [0, 1, 3]
    (failure,) = stage.failures
    assert isinstance(failure.error, StageTimeoutError)
    assert isinstance(failure.error, TimeoutError)
    assert failure.item_repr == "2"


def test_a_call_in_time_is_left_alone() -> None:
    """However many there are."""
    assert run(isolated(ops.same, range(50), timeout=TIMEOUT)) == list(range(50))


# -- again


def test_exceptions_are_tried_again_there() -> None:
    """In the same process, as often as asked."""
    items, stage = ended(isolated(ops.third_time_lucky, range(3), retry=Retry(3, delay=0)))
    assert [item for item, _ in items] == [0, 1, 2]
    assert [tries for _, tries in items] == [3, 3, 3]
    assert stage.num_failures == 0
    items, stage = ended(isolated(ops.third_time_lucky, range(3), retry=Retry(2, delay=0)))
    assert stage.num_failures in (1, 2, 3)
    assert len(items) + stage.num_failures == 3


def test_a_death_is_tried_again_where_that_is_asked() -> None:
    """In a new process; ``on`` covers it. A timeout is the end of the item."""
    on = Retry(2, on=(WorkerDiedError,), delay=0)
    items, stage = ended(isolated(partial(ops.die, at=2, how=3), range(4), retry=on))
    assert (items, stage.num_failures) == ([0, 1, 3], 1)
    assert any("2" in note for note in stage.failures[0].error.__notes__)


def test_a_death_that_is_cured_the_second_time(tmp_path: Any) -> None:
    """Then it is no failure."""
    op = partial(ops.die_once, tmp_path / "died")
    items, stage = ended(isolated(op, range(4), retry=Retry(2, delay=0)))
    assert (items, stage.num_failures) == ([0, 1, 2, 3], 0)
    assert (tmp_path / "died").exists()


# -- where it works, and where it does not


def test_isolation_inside_a_subprocess_pipeline() -> None:
    """The pipeline there goes on."""
    builder = isolated(partial(ops.die, at=2, how=3), range(5))
    apart = run_apart(builder)
    assert [list(apart), list(apart)] == [[0, 1, 3, 4]] * 2


def test_isolation_in_path_variants() -> None:
    """It is a stage as others are."""
    paths: Any = [[Pipe(partial(ops.die, at=4, how=3), isolate=True)], [Pipe(ops.same)]]
    assert sorted(run(build_of(range(7), lambda b: b.path_variants(ops.parity, paths)))) == [0, 1, 2, 3, 5, 6]


def test_isolation_over_epochs() -> None:
    """The process stays warm."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(range(4), continuous=True).pipe(ops.with_process_id, isolate=True).add_sink()
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        rounds = [list(pipeline.get_iterator(timeout=TIMEOUT)) for _ in range(3)]
    assert [[item for item, _ in each] for each in rounds] == [[0, 1, 2, 3]] * 3
    assert len({pid for each in rounds for _, pid in each}) == 1


def test_async_ops_and_executors_are_refused() -> None:
    """ValueError: they run elsewhere."""
    with pytest.raises(ValueError, match="isolate"):
        Pipe(ops.same_async, isolate=True)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="isolate"):
        build_of(range(3), lambda b: b.pipe(ops.same, isolate=True, executor=pool))


# -- left early


def test_stop_ends_a_process_that_is_stuck() -> None:
    """In a call that never returns; the stop does not wait for it."""
    pipeline = isolated(ops.block_on_odd, range(5)).build(num_threads=1)
    with pipeline.auto_stop():
        pid = pipeline.get_item(timeout=TIMEOUT)
    remote.await_end(pid)


def test_collection_ends_the_processes() -> None:
    """Of the handle, started and not stopped."""
    pipeline = isolated(ops.process_id, remote.Endless(), concurrency=2).build(num_threads=1)
    pids = {pipeline.get_item(timeout=TIMEOUT) for _ in range(10)}
    del pipeline
    gc.collect()
    for pid in pids:
        remote.await_end(pid)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "kill"])
def test_processes_end_with_this_one(how: str) -> None:
    """However it ends."""
    ended = run_child(
        f"""
        import os, signal
        from tests.support import remote, ops
        from tests.support.running import build_of

        if __name__ == "__main__":
            builder = build_of(remote.endless(), lambda b: b.pipe(ops.block_on_odd, isolate=True))
            pipeline = builder.build(num_threads=1)
            print(pipeline.get_item(timeout=100), flush=True)
            if {how!r} == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert (ended.returncode, ended.stderr) == (-9 if how == "kill" else 0, "")
    remote.await_end(int(ended.stdout))
