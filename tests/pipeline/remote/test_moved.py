"""Executors of a pipeline in a subprocess: thread pools move, workers of process pools stay with the main process."""

import gc
import os
import pickle
import select
import threading
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from spdl._processes._transport._connecting import link_pair
from spdl._processes._transport._link import Link
from spdl.pipeline import (
    PipelineBuilder,
    PriorityProcessPoolExecutor,
    PriorityThreadPoolExecutor,
    WorkerDiedError,
    WorkerError,
)
from spdl.pipeline import run_pipeline_in_subprocess as run
from spdl.pipeline._remote._moved import MovedWorkers, move_executors
from spdl.pipeline._remote._moved_pool import MovedProcessPool, MovedThreadPool, make_thread_pools
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Merge,
    PathVariants,
    Pipe,
    PipeConfig,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    SinkConfig,
    SourceConfig,
)
from tests.pipeline.remote import ops
from tests.support.child import run_child
from tests.support.timeouts import TIMEOUT


def described(source: Iterable[Any], *pipes: Any) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(source), pipes, SinkConfig(2))


def move(config: PipelineConfig[Any]) -> PipelineConfig[Any]:
    return move_executors(config, MovedWorkers(), None)


def executor_of(stage: Any) -> Executor | None:
    assert isinstance(stage, PipeConfig)
    return stage._executor


# -- thread pools


def test_a_thread_pool_is_made_again() -> None:
    """With the same number, prefix and initializer, in the pipeline's process."""
    pool = ThreadPoolExecutor(1, "mine", ops.note_thread)
    config = described(range(3), Pipe(ops.noted, executor=pool, concurrency=2), Pipe(ops.where))
    for items, pid, owner in run(config, num_threads=1, timeout=TIMEOUT):
        assert items == ["mine_0"]
        assert pid != os.getpid()
        assert owner == os.getpid()


def test_a_thread_pool_stays_over_iterations() -> None:
    """It is made once: its threads do not end with a pipeline."""
    pool = ThreadPoolExecutor(1, "mine", ops.note, ("once",))
    items = run(described(range(2), Pipe(ops.noted, executor=pool)), num_threads=1, timeout=TIMEOUT)
    assert [list(items) for _ in range(2)] == [[["once"]] * 2] * 2


def test_stages_share_a_thread_pool() -> None:
    """As they do here, after pickling too."""
    pool = ThreadPoolExecutor(2)
    config = described(range(1), Pipe(ops.double, executor=pool), Pipe(ops.double, executor=pool))
    for moved in (move(config), pickle.loads(pickle.dumps(move(config)))):
        first, second = map(executor_of, moved.pipes)
        assert isinstance(first, MovedThreadPool)
        assert first is second
        made = make_thread_pools(moved)
        first, second = map(executor_of, made.pipes)
        assert isinstance(first, ThreadPoolExecutor)
        assert first is second
        assert first._max_workers == 2


def test_a_used_thread_pool_is_refused() -> None:
    """The message names the stage and what to do."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ops.double, 1).result()
        with pytest.raises(ValueError, match=r"ThreadPoolExecutor of stages double, here was already used"):
            move(described(range(1), Pipe(ops.double, executor=pool), Pipe(ops.double, executor=pool, name="here")))
    with pytest.raises(ValueError, match="shut down"):
        move(described(range(1), Pipe(ops.double, executor=pool)))


def test_other_executors_are_left_as_they_are() -> None:
    """Priority executors pickle; a subclass with arguments of its own is the user's."""

    class Own(ThreadPoolExecutor):
        def __init__(self, word: str) -> None:
            super().__init__(1)

    with PriorityThreadPoolExecutor(1) as pool, Own("word") as own:
        for executor in (pool.get_executor(), own):
            config = described(range(1), Pipe(ops.double, executor=executor))
            assert executor_of(make_thread_pools(move(config)).pipes[0]) is executor


def test_executors_are_found_everywhere_but_in_regions() -> None:
    """In merges and in paths; those in regions count for nothing."""
    pool = ThreadPoolExecutor(1)
    pipe = Pipe(ops.double, executor=pool)
    inner = described(range(1), pipe, PathVariants(ops.double, [[PathVariants(ops.double, [[pipe]])]]))
    marks: list[Any] = [PlacementConfig(ProcessPoolExecutorConfig(1)), pipe, PlacementConfig(MAIN_PROCESS)]
    moved = move(PipelineConfig(Merge([inner]), [*marks, pipe], SinkConfig(1)))
    assert executor_of(moved.pipes[1]) is None
    last = executor_of(moved.pipes[3])
    assert isinstance(last, MovedThreadPool)
    merged: Any = moved.src
    stages = merged.pipeline_configs[0].pipes
    assert executor_of(stages[0]) is last
    assert executor_of(stages[1].paths[0][0].paths[0][0]) is last


# -- process pools


def test_workers_belong_to_the_main_process() -> None:
    """Not to the pipeline's; there are as many as the pool had, shared by stages, and they stay over iterations."""
    pool = ProcessPoolExecutor(2)
    config = described(
        range(20),
        Pipe(ops.where, executor=pool, concurrency=4),
        Pipe(ops.then_where, executor=pool),
        Pipe(ops.then_where),
    )
    items = run(config, num_threads=1, timeout=TIMEOUT)
    rounds = [list(items) for _ in range(2)]
    assert [sorted(item for item, *_ in each) for each in rounds] == [list(range(20))] * 2
    every = [item for each in rounds for item in each]
    assert {owner for _, _, owner, *_ in every} == {os.getpid()}
    assert len({pid for _, first, _, second, _ in every for pid in (first, second)}) == 2
    assert not {pid for _, pid, *_ in every} & {os.getpid(), every[0][-1]}


def test_workers_are_initialized(tmp_path: Path) -> None:
    """Each of them, once, with the arguments."""
    pool = ProcessPoolExecutor(2, initializer=ops.touch, initargs=(tmp_path,))
    assert list(run(described(range(3), Pipe(ops.double, executor=pool)), timeout=TIMEOUT)) == [0, 2, 4]
    assert len(list(tmp_path.iterdir())) == 2
    assert str(os.getpid()) not in {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(("initializer", "words"), [(ops.fail, "no disk"), (ops.leave, "exit code 3")])
def test_a_failing_initializer_is_told_at_once(initializer: Any, words: str) -> None:
    """It names the worker; nothing is left of the others and of the subprocess."""
    pool = ProcessPoolExecutor(2, initializer=initializer)
    with pytest.raises(WorkerError, match=f"(?s)worker . of the process pool of stage double.*{words}"):
        run(described(range(3), Pipe(ops.double, executor=pool)), timeout=TIMEOUT)


def test_a_generator_is_collected_there() -> None:
    """As in any process pool."""
    config = described(range(3), Pipe(ops.twice, executor=ProcessPoolExecutor(1)))
    assert list(run(config, timeout=TIMEOUT)) == [0, 0, 1, 1, 2, 2]


def test_what_goes_wrong_in_a_call_costs_its_item() -> None:
    """An exception, a result or an argument that does not pickle, ``sys.exit``."""
    config = described(range(6), Pipe(ops.pick, executor=ProcessPoolExecutor(1)))
    assert list(run(config, timeout=TIMEOUT)) == [0, 4, 5]
    config = described(range(3), Pipe(ops.unpicklable), Pipe(ops.double, executor=ProcessPoolExecutor(1)))
    assert list(run(config, timeout=TIMEOUT)) == [0, 4]


def test_large_arrays_go_both_ways() -> None:
    """And can be written to on either side."""
    pytest.importorskip("numpy")
    pool = ProcessPoolExecutor(1)
    config = described(
        range(4), Pipe(ops.filled, executor=pool), Pipe(ops.total, executor=pool), Pipe(ops.filled, executor=pool)
    )
    assert [int(array[0, 0]) for array in run(config, timeout=TIMEOUT)] == [1, 1_200_001, 2_400_001, 3_600_001]


def test_a_dead_worker_is_named() -> None:
    """The subprocess knows who is gone, this process how."""
    pool = ProcessPoolExecutor(2)
    iterator = iter(run(described(range(50), Pipe(ops.die, executor=pool)), num_threads=1, timeout=TIMEOUT))
    items: list[Any] = []
    with pytest.raises(WorkerDiedError, match="Failed to fetch the next item: pipeline stages failed") as info:
        items.extend(iterator)
    assert items == [0, 1, 2]
    assert info.value.exit_code == -9
    assert "of the process pool of stage die" in str(info.value)
    assert "killed by SIGKILL" in str(info.value)
    assert "BrokenProcessPool" in (info.value.remote_traceback or "")


def test_a_dead_subprocess_takes_the_workers_along() -> None:
    """The check for leaks looks for them."""
    config = described(
        range(9), Pipe(ops.double, executor=ProcessPoolExecutor(2)), Pipe(partial(ops.die, at=4), name="here")
    )
    with pytest.raises(WorkerDiedError, match=r"The worker subprocess exited unexpectedly\.") as info:
        list(run(config, num_threads=1, timeout=TIMEOUT))
    assert info.value.exit_code == -9


def test_a_used_process_pool_is_refused() -> None:
    """Before anything is started."""
    with ProcessPoolExecutor(1) as pool:
        pool.submit(ops.double, 1).result()
        with pytest.raises(ValueError, match=r"ProcessPoolExecutor of stage double was already used"):
            run(described(range(1), Pipe(ops.double, executor=pool)))


def test_what_is_not_kept_is_told() -> None:
    """Workers are started once, so they cannot be renewed after some calls."""
    pool = ProcessPoolExecutor(1, max_tasks_per_child=5)
    with pytest.warns(RuntimeWarning, match="max_tasks_per_child=5 of the process pool of stage double"):
        items = run(described(range(3), Pipe(ops.double, executor=pool)), timeout=TIMEOUT)
    assert list(items) == [0, 2, 4]


def test_a_start_that_fails_half_way_leaves_nothing() -> None:
    """The first pool's workers are there when the second's cannot be started."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)  # so that nothing can be forked
    thread.start()
    try:
        pools = [ProcessPoolExecutor(2), ProcessPoolExecutor(2, initializer=lambda: None)]
        with pytest.raises(TypeError, match="lambda"):
            run(described(range(1), *(Pipe(ops.double, executor=pool) for pool in pools)))
    finally:
        gate.set()
        thread.join()


def test_workers_end_with_the_iterable() -> None:
    """In the middle of an iteration too; the check for leaks looks for them."""
    builder = PipelineBuilder[Any, Any]().add_source(range(100)).pipe(ops.where, executor=ProcessPoolExecutor(2))
    assert next(iter(run(builder.add_sink(1), timeout=TIMEOUT)))[0] in (0, 1)
    gc.collect()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nobody can wait for a process that is not its child")
def test_workers_of_a_priority_pool_end_with_the_subprocess() -> None:
    """They are its children, and nobody else would tell them."""
    with PriorityProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        items = run(described(range(1), Pipe(ops.where, executor=pool.get_executor())), timeout=TIMEOUT)
        ((_, pid, owner),) = items
        assert owner not in (0, os.getpid())
        descriptor = os.pidfd_open(pid)
        try:
            del items
            gc.collect()
            assert select.select([descriptor], [], [], TIMEOUT)[0]
        finally:
            os.close(descriptor)


@pytest.mark.slow
def test_the_interpreter_ends_in_silence_in_the_middle() -> None:
    """All children of it at once, with calls under way."""
    run_child(
        """
        from concurrent.futures import ProcessPoolExecutor
        from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
        from tests.pipeline.remote import ops

        if __name__ == "__main__":
            builder = PipelineBuilder().add_source(range(10_000)).pipe(ops.double, executor=ProcessPoolExecutor(2))
            iterator = iter(run_pipeline_in_subprocess(builder.add_sink(1), num_threads=1))
            print(next(iterator))
        """
    ).check("0")


# -- the executor in the pipeline's process


def make_pool() -> tuple[MovedProcessPool, Link]:
    """A pool of one worker, which is this test."""
    worker, end = link_pair(0)
    return MovedProcessPool("pool", [end]), worker


def test_a_call_that_waits_can_be_cancelled() -> None:
    """One that runs cannot; when the worker dies, all that is left fails."""
    pool, worker = make_pool()
    running, cancelled, waiting = (pool.submit(ops.double, item) for item in range(3))
    frame = worker.recv(TIMEOUT)
    assert frame.load() == (ops.double, (0,), {})
    assert cancelled.cancel()
    assert not running.cancel()
    worker.close()
    for future in (running, waiting):
        with pytest.raises(BrokenExecutor, match="worker 1 of the pool is gone"):
            future.result(TIMEOUT)
    with pytest.raises(BrokenExecutor, match="worker 1 of the pool is gone"):
        pool.submit(ops.double, 3)


def test_it_can_be_shut_down_without_effect() -> None:
    """The next pipeline has the same one."""
    pool, worker = make_pool()
    pool.shutdown()
    future = pool.submit(ops.double, item=1)
    assert worker.recv(TIMEOUT).load() == (ops.double, (), {"item": 1})
    worker.close()
    assert isinstance(future.exception(TIMEOUT), BrokenExecutor)


def test_arguments_that_do_not_pickle_cost_the_call_alone() -> None:
    """The worker never hears of it."""
    pool, worker = make_pool()
    future = pool.submit(partial(ops.double), lambda: None)
    assert isinstance(future.exception(TIMEOUT), (pickle.PicklingError, AttributeError))
    last = pool.submit(ops.double, 1)
    assert worker.recv(TIMEOUT).load()[1] == (1,)
    worker.close()
    assert isinstance(last.exception(TIMEOUT), BrokenExecutor)
