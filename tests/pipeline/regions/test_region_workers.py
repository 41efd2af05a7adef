"""The workers of a region: how many, how they start, what they have, and how far ahead they run."""

import multiprocessing
import os
from itertools import count
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    ProcessPoolExecutorConfig,
)
from tests.support import ops, remote, remote_hooks
from tests.support.region_kinds import IN_PROCESSES, RegionKind
from tests.support.regions import region, with_region
from tests.support.running import TIMEOUT, build_of, run, running


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_worker_gets_its_turn(workers: int) -> None:
    """Round-robin: with a barrier for every worker, each of them has to come."""
    builder = with_region(range(30), lambda b: b.pipe(ops.with_process_id), workers=workers)
    items = run(builder)
    assert sorted(item for item, _ in items) == list(range(30))
    assert len({pid for _, pid in items}) == workers


@pytest.mark.parametrize("workers", [1, 3])
@IN_PROCESSES
def test_all_workers_take_part(kind: RegionKind, workers: int) -> None:
    """Those that are ready later join the others."""
    found: dict[int, int] = {}
    with running(kind.with_region(count(), lambda b: b.pipe(ops.with_process_id), workers=workers)) as pipeline:
        while len(set(found.values())) < workers:
            item, pid = pipeline.get_item(timeout=TIMEOUT)
            assert item not in found
            found[item] = pid


def test_the_number_of_workers_is_that_of_the_cpus_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing else is said."""
    builder = PipelineBuilder[Any, Any]().add_source(range(200)).to(ProcessPoolExecutorConfig())
    items = run(builder.pipe(ops.process_id).to(MAIN_PROCESS).add_sink())
    assert 1 <= len(set(items)) <= (os.cpu_count() or 1)


def test_concurrency_is_per_worker(kind: RegionKind) -> None:
    """Two calls that wait for each other end, in a worker alone."""
    builder = kind.with_region(range(2), lambda b: b.pipe(ops.meet_another, concurrency=2))
    assert sorted(run(builder, num_threads=2)) == [0, 1]


@IN_PROCESSES
def test_the_initializer_runs_once_in_each_worker_before_anything_else(kind: RegionKind) -> None:
    """With its arguments."""
    builder = kind.with_region(
        range(20),
        lambda b: b.pipe(ops.notes_and_process_id),
        workers=2,
        initializer=remote.note,
        initargs=("hello",),
    )
    items = run(builder)
    assert all(notes == ["hello"] for notes, _ in items)
    pids = {pid for _, pid in items}
    assert len(pids) <= 2 if kind.are_actors else len(pids) == 2
    assert "hello" not in remote.noted()


def test_workers_are_daemonic_and_children_of_this_process() -> None:
    """As ``multiprocessing`` shows them there."""
    builder = with_region(range(2), lambda b: b.pipe(ops.parent_and_daemon))
    assert run(builder) == [(os.getpid(), True)] * 2


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_workers_are_started_as_asked(context: str) -> None:
    """By this process, or by the fork server."""
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this platform")
    builder = with_region(range(2), lambda b: b.pipe(ops.starter), mp_context=context)
    assert {pid == os.getpid() for pid in run(builder)} == {context == "spawn"}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12 on
def test_a_fork_next_to_other_threads_is_warned_of() -> None:
    """RuntimeWarning; the engine itself runs threads."""
    builder = build_of(range(3), lambda b: region(b, lambda b: b.pipe(ops.double), mp_context="fork"))
    with pytest.warns(RuntimeWarning, match="can deadlock"):
        assert run(builder) == [0, 2, 4]


@IN_PROCESSES
def test_a_builder_with_a_region_can_be_built_twice(kind: RegionKind) -> None:
    """Each with workers of its own."""
    builder = kind.with_region(range(4), lambda b: b.pipe(ops.process_id))
    first, second = set(run(builder)), set(run(builder))
    assert len(first) == len(second) == 1
    assert first != second


def test_a_slow_consumer_holds_the_workers_back(kind: RegionKind) -> None:
    """At most a bounded number of items is taken from the source while nobody reads."""
    taken = remote.Endless()
    builder = kind.with_region(taken, lambda b: b.pipe(ops.same), workers=2, inputs=2, outputs=2, sink=1)
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        assert sorted(pipeline.get_item(timeout=TIMEOUT) for _ in range(1)) != []
        stats = pipeline.stats()
        assert stats.stages[0].num_emitted < 200


@IN_PROCESSES
def test_defaults_set_by_the_initializer_apply_in_the_workers(kind: RegionKind) -> None:
    """Hooks and queues; those given to ``build`` do not cross."""
    builder = kind.with_region(range(3), lambda b: b.pipe(ops.noted_by_now), initializer=remote_hooks.set_defaults)
    items = run(builder)
    assert {"hook made", "queue made"} <= {word for _, words in items for word in words}
    builder = kind.with_region(range(3), lambda b: b.pipe(ops.noted_by_now))
    assert (
        run(builder, task_hook_factory=remote_hooks.make_hooks, queue_class=remote_hooks.NotingQueue)
        == [(not kind.are_actors, [])] * 3
    )
    remote.noted().clear()


def test_stages_around_a_region_are_hooked_here(kind: RegionKind) -> None:
    """One for the region itself is asked for as for any stage, or not at all; its neighbours' are."""
    names: list[str] = []

    def factory(info: Any) -> list[Any]:
        names.append(info.stage_name)
        return []

    builder = PipelineBuilder[Any, Any]().add_source(range(3)).pipe(ops.double, name="before")
    kind.region(builder, lambda b: b.pipe(ops.same))
    assert run(builder.pipe(ops.double, name="after").add_sink(), task_hook_factory=factory) == [0, 4, 8]
    assert [name for name in names if not name.startswith("subprocess_pipeline")] == ["before", "after"]
