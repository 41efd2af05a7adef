"""Regions of a pipeline in a subprocess: their workers belong to the main process."""

import gc
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, WorkerDiedError, WorkerError
from spdl.pipeline import run_pipeline_in_subprocess as run
from spdl.pipeline._remote._run_pipeline import has_regions
from spdl.pipeline.defs import MAIN_PROCESS, Merge, Pipe, PipelineConfig, ProcessPoolExecutorConfig, SinkConfig
from tests.pipeline.remote import ops
from tests.support import ops as shared_ops
from tests.support import remote
from tests.support.leaving import run_apart
from tests.support.regions import with_region
from tests.support.timeouts import TIMEOUT


def build(source: Any, *region: Any, continuous: bool = False, **options: Any) -> PipelineBuilder[Any, Any]:
    """A region between two stages that tell where they run."""
    builder = PipelineBuilder[Any, Any]().add_source(source, continuous=continuous)
    builder.to(ProcessPoolExecutorConfig(**{"max_workers": 2, **options}), buffer_size=2)
    for op in region:
        builder.pipe(op)
    return builder.to(MAIN_PROCESS).pipe(ops.then_where, name="after").add_sink(2)


def test_workers_belong_to_the_main_process() -> None:
    """Each iteration has the same ones."""
    items = run(build(range(12), ops.where), num_threads=1, timeout=TIMEOUT)
    rounds = [list(items) for _ in range(3)]
    assert [sorted(item for item, *_ in each) for each in rounds] == [list(range(12))] * 3
    every = [item for each in rounds for item in each]
    assert {owner for _, _, owner, _ in every} == {os.getpid()}
    workers, pipelines = {worker for _, worker, *_ in every}, {pid for *_, pid in every}
    assert (len(workers), len(pipelines), workers & pipelines) == (2, 1, set())


def test_epochs_have_the_same_workers() -> None:
    """With a break in the first."""
    items = run(build(ops.Epochs(8), ops.where, continuous=True), num_threads=1, timeout=TIMEOUT)
    assert next(iter(items))[0][0] == 0
    epochs = [list(items) for _ in range(2)]
    assert [sorted(item for item, *_ in each) for each in epochs] == [[(e, k) for k in range(8)] for e in (1, 2)]
    assert {owner for each in epochs for _, _, owner, _ in each} == {os.getpid()}


def test_a_break_leaves_the_workers_to_the_next() -> None:
    """What was under way is dropped."""
    items = run(build(ops.Epochs(40), ops.where), num_threads=1, timeout=TIMEOUT)
    for epoch in range(5):
        assert next(iter(items))[0][0] == epoch
    assert sorted(item for item, *_ in items) == [(5, k) for k in range(40)]


def test_a_dead_worker_is_named() -> None:
    """The subprocess knows who is gone, this process how."""
    builder = build(range(50), partial(ops.die, at=7), ops.where, max_workers=1)
    with pytest.raises(WorkerDiedError, match="Failed to fetch the next item: pipeline stages failed") as info:
        list(run(builder, num_threads=1, timeout=TIMEOUT))
    assert info.value.exit_code == -9
    assert "killed by SIGKILL" in str(info.value)


def test_a_failing_region_is_told() -> None:
    """With the text that it has without a subprocess."""
    items = run(build(range(5), ops.refuse), num_threads=1, max_failures=0, timeout=TIMEOUT)
    with pytest.raises(WorkerError, match=r"(?s)Failed to fetch the next item: .*Fused subprocess pipeline failed:"):
        list(items)


def test_a_failing_initializer_is_told() -> None:
    """At the first item."""
    items = run(build(range(5), ops.where, initializer=ops.fail), num_threads=1, timeout=TIMEOUT)
    with pytest.raises(WorkerError, match="no disk"):
        list(items)


def test_a_region_that_replaces_workers_is_refused() -> None:
    """They could not be reached; nothing is left of the others."""
    with pytest.raises(ValueError, match="restart=True"):
        run(build(range(5), ops.where, restart=True))


def test_workers_end_with_the_iterable() -> None:
    """In the middle too; the check for leaks looks for them."""
    assert len(next(iter(run(build(range(1000), ops.where), num_threads=1, timeout=TIMEOUT)))) == 4
    gc.collect()


def test_regions_are_found_in_merges() -> None:
    """At any depth."""
    for stages in ([], [Pipe(ops.double)]):
        plain: PipelineConfig[Any] = PipelineConfig(
            Merge([PipelineBuilder[Any, Any]().add_source(range(1)).add_sink(1).get_config()]), stages, SinkConfig(1)
        )
        assert not has_regions(plain)
        inner = build(range(1), ops.where).get_config()
        assert has_regions(PipelineConfig(Merge([plain, inner]), stages, SinkConfig(1)))


def test_initializers_of_workers_run() -> None:
    """With their arguments."""
    builder = with_region(
        range(2), lambda b: b.pipe(shared_ops.noted_by_now), initializer=remote.note, initargs=("hi",)
    )
    assert [notes for _, notes in run_apart(builder)] == [["hi"]] * 2


def test_an_executor_of_a_stage_is_ignored() -> None:
    """The region's workers run it."""
    with ProcessPoolExecutor(1) as pool:
        builder = with_region(range(4), lambda b: b.pipe(shared_ops.parent_and_daemon, executor=pool))
        assert list(run_apart(builder)) == [(os.getpid(), True)] * 4
