"""Executors of stages in a pipeline that runs in a subprocess: made again there, or workers of the main process."""

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PriorityProcessPoolExecutor, PriorityThreadPoolExecutor
from spdl.pipeline.defs import PathVariants, Pipe
from tests.support import ops, remote
from tests.support.leaving import run_apart
from tests.support.running import build_of

CONTEXT = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)


@pytest.fixture
def processes() -> Iterator[ProcessPoolExecutor]:
    """A pool of two processes that has not started any, and is never to start one here."""
    with ProcessPoolExecutor(2, mp_context=CONTEXT, initializer=remote.note, initargs=("initialized",)) as pool:
        yield pool


def stage(op: Any, pool: Any, **options: Any) -> Any:
    return lambda b: b.pipe(op, executor=pool, **options)


# -- threads


def test_a_pool_of_threads_is_made_again_there() -> None:
    """With as many threads, its initializer, and not those of the pipeline."""
    with ThreadPoolExecutor(2, thread_name_prefix="mine", initializer=remote.note, initargs=("initialized",)) as pool:
        builder = build_of(
            range(40),
            stage(ops.with_thread_name, pool, concurrency=4),
            lambda b: b.pipe(ops.with_notes),
        )
        apart = run_apart(builder, num_threads=1)
        items = [*apart, *apart]
    assert sorted(item for (item, _, _), _ in items) == sorted([*range(40), *range(40)])
    assert {pid for (_, pid, _), _ in items}.isdisjoint({os.getpid()})
    assert 1 <= len({name for (_, _, name), _ in items[:40]}) <= 2
    assert all("initialized" in notes for _, notes in items)
    assert "initialized" not in remote.noted()


def test_a_pool_of_threads_is_shared_there_as_it_is_here() -> None:
    """Two stages with one pool of one thread run on that thread."""
    with ThreadPoolExecutor(1) as pool:
        builder = build_of(range(5), stage(ops.with_thread, pool), stage(ops.with_thread, pool))
        items = list(run_apart(builder))
    assert len({thread for (_, _, thread), _, _ in items} | {thread for _, _, thread in items}) == 1


def test_a_pool_of_threads_that_was_used_is_refused() -> None:
    """ValueError that names the stage."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(int).result() == 0
        with pytest.raises(ValueError, match="double was already used"):
            run_apart(build_of(range(3), stage(ops.double, pool)))


# -- processes


def test_workers_of_a_process_pool_belong_to_the_main_process(processes: ProcessPoolExecutor) -> None:
    """As many as it was to have, neither here nor in the pipeline's process, and initialized."""
    builder = build_of(range(40), lambda b: b.pipe(ops.with_process_id), stage(ops.relations, processes, concurrency=4))
    items = list(run_apart(builder))
    assert sorted(item for (item, _), _, _, _ in items) == list(range(40))
    pipeline = {pid for (_, pid), _, _, _ in items}
    workers = {pid for _, pid, _, _ in items}
    assert len(pipeline) == 1
    assert 1 <= len(workers) <= 2
    assert workers.isdisjoint({os.getpid(), *pipeline})
    assert {parent for _, _, parent, _ in items} == {os.getpid()}
    assert all(notes == ["initialized"] for _, _, _, notes in items)


def test_workers_are_shared_by_stages(processes: ProcessPoolExecutor) -> None:
    """The pool is one pool."""
    builder = build_of(
        range(30),
        stage(ops.with_process_id, processes, concurrency=2),
        stage(ops.with_process_id, processes, concurrency=2),
    )
    items = list(run_apart(builder))
    assert sorted(item for (item, _), _ in items) == list(range(30))
    assert len({pid for (_, pid), _ in items} | {pid for _, pid in items}) <= 2


@pytest.mark.parametrize("continuous", [False, True])
def test_workers_are_used_again_by_every_iteration(processes: ProcessPoolExecutor, continuous: bool) -> None:
    """Ordinary sources and continuous ones; also after a break."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(remote.Epochs(12), continuous=continuous)
    builder.pipe(ops.with_process_id, executor=processes, concurrency=2).add_sink()
    apart = run_apart(builder)
    pids = set()
    for epoch in range(3):
        items = list(apart)
        assert sorted(item for item, _ in items) == [(epoch, k) for k in range(12)]
        pids |= {pid for _, pid in items}
    (epoch, _), pid = next(iter(apart))
    assert epoch == 3
    items = list(apart)
    assert sorted(item for item, _ in items) == [(4, k) for k in range(12)]
    assert len({pid for _, pid in items} | pids | {pid}) <= 2


def test_order_is_kept_as_it_is_asked(processes: ProcessPoolExecutor) -> None:
    """``output_order="input"``."""
    builder = build_of(range(40), stage(ops.double, processes, concurrency=4, output_order="input"))
    assert list(run_apart(builder)) == list(range(0, 80, 2))


def test_generators_are_collected_there(processes: ProcessPoolExecutor) -> None:
    """As with any process pool."""
    builder = build_of(range(4), stage(ops.twice, processes))
    assert list(run_apart(builder)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_failures_of_its_ops_cost_their_items(processes: ProcessPoolExecutor) -> None:
    """With the usual text for the one that crosses the limit."""
    assert list(run_apart(build_of(range(6), stage(ops.odd_fails, processes)))) == [0, 2, 4]


def test_the_text_of_a_failure_is_that_of_process_pools(processes: ProcessPoolExecutor) -> None:
    """``Function failed in subprocess:`` with type, message and place."""
    builder = build_of(range(6), stage(ops.odd_fails, processes, max_failures=0))
    with pytest.raises(RuntimeError, match="Failed to fetch the next item") as info:
        list(run_apart(builder))
    assert "Function failed in subprocess: ValueError: odd 1 (ops.py:" in str(info.value)


def test_a_worker_that_dies_is_told_and_nothing_hangs(processes: ProcessPoolExecutor) -> None:
    """The pool is broken: an error that the reader gets, or the item's failure."""
    builder = build_of(range(6), stage(partial(ops.die, at=2, how=9), processes), sink=1)
    try:
        items = list(run_apart(builder))
    except RuntimeError as exc:
        assert "Failed to fetch the next item" in str(exc)  # noqa: PT017 - one of two ways
    else:
        assert 2 not in items


def test_large_arguments_and_results(processes: ProcessPoolExecutor) -> None:
    """Megabytes each way."""
    items = [bytes([k]) * 2_000_000 for k in range(4)]
    assert list(run_apart(build_of(items, stage(ops.same, processes)))) == items


def test_pools_in_path_variants_are_found(processes: ProcessPoolExecutor) -> None:
    """Wherever a stage has one."""
    paths: Any = [
        [PathVariants(ops.is_large, [[Pipe(ops.process_id, executor=processes)], [Pipe(ops.process_id)]])],
        [Pipe(ops.process_id)],
    ]
    pids = list(run_apart(build_of(range(10), lambda b: b.path_variants(ops.parity, paths))))
    assert len(pids) == 10
    assert 2 <= len(set(pids)) <= 3


def test_a_process_pool_that_was_used_is_refused() -> None:
    """Its workers are those of this process: ValueError."""
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        assert pool.submit(int).result() == 0
        with pytest.raises(ValueError, match="used"):
            run_apart(build_of(range(3), stage(ops.double, pool)))


def test_the_pool_here_is_as_it_was(processes: ProcessPoolExecutor) -> None:
    """It can go along again, with workers of its own."""
    builder = build_of(range(3), stage(ops.process_id, processes))
    assert set(run_apart(builder)).isdisjoint(run_apart(builder))


# -- priorities


def test_priority_pools_pass_as_they_are() -> None:
    """Entry points of one pool are of one pool there, in the pipeline's process."""
    with PriorityThreadPoolExecutor(1) as pool:
        builder = build_of(
            range(6),
            stage(ops.with_thread, pool.get_executor()),
            stage(ops.with_thread, pool.get_executor()),
        )
        items = list(run_apart(builder))
    assert [item for (item, _, _), _, _ in items] == list(range(6))
    assert len({thread for (_, _, thread), _, _ in items} | {thread for _, _, thread in items}) == 1


@pytest.mark.slow
def test_priority_pools_of_processes_pass_as_they_are() -> None:
    """Their workers are children of the pipeline's process."""
    with PriorityProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        builder = build_of(
            range(6),
            lambda b: b.pipe(ops.with_process_id),
            stage(ops.relations, pool.get_executor()),
        )
        items = list(run_apart(builder))
    assert [item for (item, _), *_ in items] == list(range(6))
    assert {parent for _, _, parent, _ in items} == {pid for (_, pid), *_ in items}
    for _, pid, _, _ in items:
        remote.await_end(pid)
