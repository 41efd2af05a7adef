"""Regions over epochs, and what is observed in and around them."""

import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import Pipe
from tests.support import ops, remote, remote_hooks
from tests.support.leaving import run_apart
from tests.support.regions import region, with_region
from tests.support.running import TIMEOUT, build_of, run


def epochs(builder: Any, num_epochs: int = 4, **options: Any) -> list[list[Any]]:
    """What each of the first epochs gives."""
    pipeline: Pipeline[Any] = builder.build(num_threads=2, **options)
    with pipeline.auto_stop():
        return [list(pipeline.get_iterator(timeout=TIMEOUT)) for _ in range(num_epochs)]


# -- epochs


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (3, 2), (100, 100)])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_epoch_end_is_a_barrier_over_all_workers(workers: int, inputs: int, outputs: int) -> None:
    """No item crosses it, and incomplete transfers are flushed."""
    builder = with_region(
        remote.Epochs(7),
        lambda b: b.pipe(ops.same),
        continuous=True,
        workers=workers,
        inputs=inputs,
        outputs=outputs,
    )
    assert [sorted(each) for each in epochs(builder)] == [[(epoch, k) for k in range(7)] for epoch in range(4)]


@pytest.mark.parametrize("sizes", [(0, 2, 0), (3, 0, 0, 1), (0, 0, 5)])
@pytest.mark.parametrize("workers", [1, 2])
def test_epochs_that_are_empty_or_small(sizes: tuple[int, ...], workers: int) -> None:
    """They lose and double nothing."""
    builder = with_region(
        remote.Sizes(*sizes, 4),
        lambda b: b.pipe(ops.same),
        continuous=True,
        workers=workers,
        inputs=2,
        outputs=3,
    )
    assert [sorted(each) for each in epochs(builder, len(sizes) + 1)] == [
        [(epoch, k) for k in range(size)] for epoch, size in enumerate((*sizes, 4))
    ]


def test_workers_stay_warm_over_epochs() -> None:
    """The same processes, and initializers run once."""
    builder = with_region(
        range(6),
        lambda b: b.pipe(ops.notes_and_process_id),
        continuous=True,
        workers=2,
        initializer=remote.note,
        initargs=("hello",),
    )
    items = [item for each in epochs(builder, 5) for item in each]
    assert len(items) == 30
    assert len({pid for _, pid in items}) == 2
    assert all(notes == ["hello"] for notes, _ in items)


def test_aggregates_inside_are_flushed_at_epoch_ends() -> None:
    """Or discarded with ``drop_last``."""
    builder = with_region(range(5), lambda b: b.aggregate(3), continuous=True, inputs=2)
    assert epochs(builder, 3) == [[[0, 1, 2], [3, 4]]] * 3
    builder = with_region(range(5), lambda b: b.aggregate(3, drop_last=True), continuous=True, inputs=2)
    assert epochs(builder, 3) == [[[0, 1, 2]]] * 3


def test_generators_and_path_variants_inside_over_epochs() -> None:
    """Everything of an epoch comes before its end."""
    paths: Any = [[Pipe(ops.double)], [Pipe(ops.twice)]]
    builder = with_region(range(4), lambda b: b.path_variants(ops.parity, paths), continuous=True, workers=2)
    assert [sorted(each) for each in epochs(builder, 3)] == [[0, 1, 1, 3, 3, 4]] * 3


def test_two_regions_over_epochs() -> None:
    """Each is a barrier."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(range(6), continuous=True)
    region(builder, lambda b: b.pipe(ops.double), workers=2, inputs=2)
    builder.aggregate(4)
    region(builder, lambda b: b.pipe(len))
    assert epochs(builder.add_sink(), 3) == [[4, 2]] * 3


def test_a_break_leaves_the_rest_of_the_epoch() -> None:
    """As without a region."""
    builder = with_region(range(5), lambda b: b.pipe(ops.same), continuous=True)
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        assert next(iter(pipeline)) == 0
        assert list(pipeline) == [1, 2, 3, 4]
        assert list(pipeline) == [0, 1, 2, 3, 4]


def test_failed_items_do_not_hold_an_epoch_up() -> None:
    """Nor do dropped ones."""
    builder = with_region(
        range(6),
        lambda b: b.pipe(ops.odd_fails),
        lambda b: b.pipe(ops.drop_fours),
        continuous=True,
        workers=2,
    )
    assert [sorted(each) for each in epochs(builder, 3)] == [[0, 2]] * 3


# -- what is observed


def test_defaults_set_by_the_initializer_apply_in_the_workers() -> None:
    """Hooks and queues; those given to ``build`` do not cross."""
    builder = with_region(range(3), lambda b: b.pipe(ops.noted_by_now), initializer=remote_hooks.set_defaults)
    items = run(builder)
    assert {"hook made", "queue made"} <= {word for _, words in items for word in words}
    builder = with_region(range(3), lambda b: b.pipe(ops.noted_by_now))
    assert (
        run(builder, task_hook_factory=remote_hooks.make_hooks, queue_class=remote_hooks.NotingQueue)
        == [(True, [])] * 3
    )
    remote.noted().clear()


def test_stages_around_a_region_are_hooked_here() -> None:
    """One for the region itself is asked for as for any stage, or not at all; its neighbours' are."""
    names: list[str] = []

    def factory(info: Any) -> list[Any]:
        names.append(info.stage_name)
        return []

    builder = PipelineBuilder[Any, Any]().add_source(range(3)).pipe(ops.double, name="before")
    region(builder, lambda b: b.pipe(ops.same))
    assert run(builder.pipe(ops.double, name="after").add_sink(), task_hook_factory=factory) == [0, 4, 8]
    assert [name for name in names if not name.startswith("subprocess_pipeline")] == ["before", "after"]


# -- inside a pipeline that runs elsewhere


def test_workers_of_a_region_belong_to_the_main_process() -> None:
    """Though the pipeline that they work for is in a subprocess."""
    builder = build_of(
        range(6),
        lambda b: b.pipe(ops.with_process_id),
        lambda b: region(b, lambda b: b.pipe(ops.with_parent_id)),
    )
    items = list(run_apart(builder))
    assert [item for (item, _), _ in items] == list(range(6))
    assert {parent for _, parent in items} == {os.getpid()}
    assert {pid for (_, pid), _ in items}.isdisjoint({os.getpid()})


def test_workers_of_a_region_are_reused_by_every_iteration() -> None:
    """With an ordinary source, which gives a fresh pipeline each time, and with a continuous one."""
    for continuous in (False, True):
        builder = with_region(
            remote.Epochs(5), lambda b: b.pipe(ops.with_process_id), continuous=continuous, workers=2, inputs=2
        )
        apart = run_apart(builder)
        rounds = [list(apart) for _ in range(3)]
        assert [sorted(item for item, _ in each) for each in rounds] == [
            [(epoch, k) for k in range(5)] for epoch in range(3)
        ]
        assert len({pid for each in rounds for _, pid in each}) == 2


def test_a_break_leaves_the_workers_of_a_region_alive() -> None:
    """The next iteration gets its own items only."""
    apart = run_apart(with_region(remote.Epochs(40), lambda b: b.pipe(ops.with_process_id), inputs=2, outputs=2))
    pids = set()
    for epoch in range(3):
        item, pid = next(iter(apart))
        assert item == (epoch, 0)
        pids.add(pid)
    rest = list(apart)
    assert [item for item, _ in rest] == [(3, k) for k in range(40)]
    assert len(pids | {pid for _, pid in rest}) == 1


def test_failures_in_a_region_elsewhere_are_told() -> None:
    """Limits with their words; and workers that die by exit code."""
    builder = with_region(range(9), lambda b: b.pipe(ops.odd_fails, max_failures=0))
    iterator = iter(run_apart(builder))
    assert next(iterator) == 0
    with pytest.raises(RuntimeError, match="Failed to fetch the next item: pipeline stages failed") as info:
        next(iterator)
    assert "Fused subprocess pipeline failed:" in str(info.value)
    builder = with_region([11, 10, 12], lambda b: b.pipe(ops.die_at_tens))
    iterator = iter(run_apart(builder))
    with pytest.raises(RuntimeError, match="Failed to fetch the next item") as info:
        list(iterator)
    assert "SIGKILL" in str(info.value)


def test_initializers_of_workers_elsewhere_run_and_fail_as_here() -> None:
    """With their arguments; a failure has its text."""
    builder = with_region(range(2), lambda b: b.pipe(ops.noted_by_now), initializer=remote.note, initargs=("hi",))
    assert [notes for _, notes in run_apart(builder)] == [["hi"]] * 2
    builder = with_region(
        range(2), lambda b: b.pipe(ops.same), initializer=remote.fail_here, initargs=(KeyError("no key"),)
    )
    with pytest.raises(RuntimeError, match="no key"):
        list(run_apart(builder))


def test_an_executor_in_a_region_elsewhere_is_ignored() -> None:
    """As in a region here; the region's workers run the stage."""
    with ProcessPoolExecutor(1) as pool:
        builder = with_region(range(4), lambda b: b.pipe(ops.parent_and_daemon, executor=pool))
        assert list(run_apart(builder)) == [(os.getpid(), True)] * 4
