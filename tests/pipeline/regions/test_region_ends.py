"""How regions end: stop, break, collection, exit of the interpreter, calls that do not return, moved workers."""

import gc
import os
import subprocess
import sys
import textwrap
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spdl._processes._child import Child
from spdl._processes._transport._connection import wait_readable
from spdl._processes._transport._link import Link
from spdl.pipeline import Pipeline, PipelineBuilder, build_pipeline
from spdl.pipeline._engine._region._lane import RegionLane
from spdl.pipeline._remote._moved import MovedWorkers
from spdl.pipeline._remote._regions import move_regions
from spdl.pipeline.defs import MAIN_PROCESS, PipelineConfig, ProcessPoolExecutorConfig
from tests.pipeline.regions import ops
from tests.support.region_kinds import IN_PROCESSES, RegionKind
from tests.support.timeouts import TIMEOUT

ROOT = Path(__file__).parents[3]
TWO = ProcessPoolExecutorConfig(2)


def builder_of(op: Any, source: Any = range(10**6), workers: Any = TWO) -> PipelineBuilder[Any, Any]:
    return PipelineBuilder().add_source(source).to(workers).pipe(op).to(MAIN_PROCESS).add_sink()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ends(pid: int) -> bool:
    """It has ended, or does so soon."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(wait_readable([fd], TIMEOUT))
    finally:
        os.close(fd)


def pids_of(pipeline: Pipeline[Any]) -> set[int]:
    return {pipeline.get_item()[1] for _ in range(20)}


def have_ended(kind: RegionKind, pids: set[int]) -> bool:
    """Ray sees to the end of its actors, and nobody waits for it."""
    return all(map(ends, pids)) if kind.are_actors else not any(map(is_alive, pids))


@IN_PROCESSES
def test_a_stop_ends_the_workers(kind: RegionKind) -> None:
    """Also in the middle of an endless stream; leaving the block is enough."""
    pipeline = builder_of(ops.with_pid, workers=kind.workers(2)).build(num_threads=1)
    with pipeline.auto_stop():
        pids = pids_of(pipeline)
    assert have_ended(kind, pids)


@IN_PROCESSES
def test_collection_ends_the_workers(kind: RegionKind) -> None:
    """Of a pipeline that nobody stopped."""
    pipeline = builder_of(ops.with_pid, workers=kind.workers(2)).build(num_threads=1)
    pids = pids_of(pipeline)
    del pipeline
    gc.collect()
    assert have_ended(kind, pids)


@IN_PROCESSES
def test_a_call_that_does_not_return_is_named(kind: RegionKind) -> None:
    """With its worker, which is killed, and its item."""
    pipeline = builder_of(ops.stuck_but_for_zero, range(2), kind.workers(1)).build(num_threads=1)
    assert pipeline.get_item() == 0
    with pytest.raises(TimeoutError, match=r"subprocess_pipeline\(stuck_but_for_zero\).*on item 1"):
        pipeline.stop(timeout=0.01)
    (lane,) = (lane for lane in pipeline._engine.lanes if isinstance(lane, RegionLane))
    assert lane.collector is not None
    lane.collector.join(TIMEOUT)
    assert not lane.collector.is_alive()


@IN_PROCESSES
def test_ops_are_let_go_of_at_the_end(kind: RegionKind) -> None:
    """Though the pipeline is still there to be asked for its statistics."""
    op = partial(ops.with_pid)
    pipeline = builder_of(op, range(3), kind.workers(2)).build(num_threads=1)
    with pipeline.auto_stop():
        assert len(list(pipeline)) == 3
    gone = weakref.ref(op)
    del op
    gc.collect()
    assert gone() is None
    assert pipeline.stats().num_items == 3


def test_statistics_show_what_runs_in_the_workers(kind: RegionKind) -> None:
    """In flight is what they have been given."""
    pipeline = builder_of(ops.with_pid, range(5), kind.workers(2)).build(num_threads=1)
    with pipeline.auto_stop():
        assert len(list(pipeline)) == 5
        stage = pipeline.stats().stages[1]
    assert stage.num_in_flight == 0
    assert stage.num_calls == stage.num_emitted == 5
    assert stage.runs_on == "region"  # whoever its workers are


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes that are not its children")
@pytest.mark.parametrize("ending", ["pass", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_workers_end_with_the_interpreter(ending: str) -> None:
    """However it ends."""
    script = f"""
        import os, signal, sys
        from tests.pipeline.regions.test_region_ends import builder_of, ops, pids_of
        if __name__ == "__main__":
            pipeline = builder_of(ops.with_pid).build(num_threads=1)
            print(*pids_of(pipeline), flush=True)
            {ending}
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert pids, done.stderr
    assert all(map(ends, pids))
    assert "Traceback" not in done.stderr


def run_moved(link: Link, config: PipelineConfig[Any]) -> None:
    """Body of a process: two pipelines of one description, the first left early."""
    for num_items in (3, 100):
        pipeline: Pipeline[Any] = build_pipeline(config, num_threads=1)
        with pipeline.auto_stop():
            link.send(1, 0, [item for item, _ in zip(pipeline, range(num_items), strict=False)])
    with pytest.raises(EOFError):
        link.recv()


def test_moved_workers_serve_one_pipeline_after_the_other() -> None:
    """They are children of the process that moved the pipeline, and outlive the one that uses them."""
    workers = MovedWorkers()
    config = move_regions(builder_of(ops.with_pid, range(50)).get_config(), {}, workers)
    children = list(workers.children)
    user = Child.start(run_moved, config, name="user", what="the user of the workers")
    try:
        workers.close_ends()
        assert len(user.recv(30).load()) == 3
        items = user.recv(30).load()
        assert sorted(item for item, _ in items) == list(range(50))
        assert {pid for _, pid in items} == {child.pid for child in children}
        user.stop()
        assert all(child.is_alive() for child in children)
    finally:
        user.stop()
        for child in children:
            child.stop()
    assert [child.exit_code() for child in children] == [0, 0]


def test_a_pipeline_that_was_never_started_leaves_no_worker(kind: RegionKind) -> None:
    """Built and dropped, or built and stopped."""
    builder = builder_of(ops.with_pid, range(5), kind.workers(2))
    builder.build(num_threads=1)
    builder.build(num_threads=1).stop()
    gc.collect()
