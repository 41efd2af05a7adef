"""``pipe(op, isolate=True)``: what runs in its processes, wherever the pipeline is, and when they end."""

import gc
import os
import signal
from functools import partial
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import PipelineBuilder, WorkerDiedError
from spdl.pipeline.defs import Pipe
from tests.support import ops, remote, remote_arrays
from tests.support.child import run_child
from tests.support.running import TIMEOUT, build_of, drain, run

ENDS = [0, -signal.SIGQUIT, -signal.SIGFPE]  # others are in test_crashes.py


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


def test_none_drops_the_item() -> None:
    """And only None."""
    assert run(isolated(ops.odd_is_dropped, range(6))) == [0, 2, 4]
    assert run(isolated(ops.some_none, range(3))) == [0, 1, 2]
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
    items, stage = ended(isolated(ops.crash, range(6), concurrency=2, max_failures=-1))
    assert items == []
    assert stage.num_failures == 6
    assert all(isinstance(failure.error, WorkerDiedError) for failure in stage.failures)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_is_no_ordinary_exception_costs_its_item_at_most(error: BaseException) -> None:
    """The pipeline goes on."""
    items, stage = ended(isolated(partial(ops.fail_at, 1, error), range(4)))
    assert items == [0, 2, 3]
    assert stage.num_failures == 1


def test_a_call_in_time_is_left_alone() -> None:
    """However many there are."""
    assert run(isolated(ops.same, range(50), call_timeout=TIMEOUT)) == list(range(50))


# -- where it works, and where it does not


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


# -- left early


def test_collection_ends_the_processes() -> None:
    """Of the handle, started and not stopped."""
    pipeline = isolated(ops.process_id, remote.Endless(), concurrency=2).build(num_threads=1)
    pids = {pipeline.get_item(timeout=TIMEOUT) for _ in range(10)}
    del pipeline
    gc.collect()
    for pid in pids:
        remote.await_end(pid)


@pytest.mark.slow
def test_processes_end_at_exit() -> None:
    """Though the call of one never returns."""
    ended = run_child(
        """
        from tests.support import remote, ops
        from tests.support.running import build_of

        if __name__ == "__main__":
            builder = build_of(remote.endless(), lambda b: b.pipe(ops.block_on_odd, isolate=True))
            pipeline = builder.build(num_threads=1)
            print(pipeline.get_item(timeout=100), flush=True)
        """
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    remote.await_end(int(ended.stdout))
