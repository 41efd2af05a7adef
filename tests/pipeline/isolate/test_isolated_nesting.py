"""Isolated stages work wherever a pipeline does: in children, also daemonic ones, and in isolated ops themselves."""

import multiprocessing
import os
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ExecutorConfig, ProcessPoolExecutorConfig
from tests.support.child import run_child
from tests.support.region_kinds import IN_ACTORS, RegionKind

from . import ops
from .running import TIMEOUT, run

pytestmark = pytest.mark.slow


def test_in_the_child_of_an_isolated_stage() -> None:
    """An op may run a pipeline that has an isolated stage."""
    outputs, _ = run(ops.sum_in_own_child, [3, 4])
    assert outputs == [6, 12]


def test_in_a_pipeline_in_a_subprocess() -> None:
    """A crash there costs an item there."""
    builder = PipelineBuilder[Any, Any]().add_source([1, "exit", 3]).pipe(ops.die_or_double, isolate=True).add_sink()
    iterable = run_pipeline_in_subprocess(builder, num_threads=1, timeout=TIMEOUT)
    assert [list(iterable), list(iterable)] == [[2, 6], [2, 6]]


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_in_a_daemon_of_multiprocessing(method: str) -> None:
    """As a worker of a DataLoader of torch is."""
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    daemon = context.Process(target=ops.send_sum, args=(theirs,), daemon=True)
    daemon.start()
    theirs.close()
    assert ours.poll(TIMEOUT)
    assert ours.recv() == 6
    ours.close()
    daemon.join(TIMEOUT)
    assert daemon.exitcode == 0
    daemon.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_in_a_forked_child() -> None:
    """It starts a fork server of its own: the parent's is none of its children."""
    ended = run_child("""
import os
from tests.pipeline.isolate import ops
if __name__ == "__main__":
    print(ops.sum_in_own_child(3), flush=True)
    pid = os.fork()
    print(ops.sum_in_own_child(4), flush=True)
    if pid:
        print(os.waitpid(pid, 0)[1])
""")
    ended.check("6 12 12 0")


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_in_a_worker_of_a_region(method: str) -> None:
    """A crash costs an item of that worker, which goes on."""
    check_in_a_worker(ProcessPoolExecutorConfig(max_workers=1, mp_context=method))


@IN_ACTORS
def test_in_an_actor(kind: RegionKind) -> None:
    """The same."""
    check_in_a_worker(kind.workers(1))


def check_in_a_worker(workers: ExecutorConfig) -> None:
    builder = PipelineBuilder[Any, Any]().add_source([1, "exit", 3, 4])
    builder.to(workers).pipe(ops.die_or_double, isolate=True)
    pipeline = builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [2, 6, 8]
    assert pipeline.stats().stages[1].num_failures == 1
