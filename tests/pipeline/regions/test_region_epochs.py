"""Continuous sources: an epoch's end is a barrier over all workers, which stay warm."""

from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import Pipe
from tests.support import ops, remote
from tests.support.region_kinds import IN_PROCESSES, RegionKind
from tests.support.running import TIMEOUT


def epochs(builder: Any, num_epochs: int = 4, **options: Any) -> list[list[Any]]:
    """What each of the first epochs gives."""
    pipeline: Pipeline[Any] = builder.build(num_threads=2, **options)
    with pipeline.auto_stop():
        return [list(pipeline.get_iterator(timeout=TIMEOUT)) for _ in range(num_epochs)]


# -- epochs


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (3, 2), (100, 100)])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_epoch_end_is_a_barrier_over_all_workers(kind: RegionKind, workers: int, inputs: int, outputs: int) -> None:
    """No item crosses it, and incomplete transfers are flushed."""
    builder = kind.with_region(
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
def test_epochs_that_are_empty_or_small(kind: RegionKind, sizes: tuple[int, ...], workers: int) -> None:
    """They lose and double nothing."""
    builder = kind.with_region(
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


@IN_PROCESSES
def test_workers_stay_warm_over_epochs(kind: RegionKind) -> None:
    """The same processes, and initializers run once."""
    builder = kind.with_region(
        range(6),
        lambda b: b.pipe(ops.notes_and_process_id),
        continuous=True,
        workers=2,
        initializer=remote.note,
        initargs=("hello",),
    )
    items = [item for each in epochs(builder, 5) for item in each]
    assert len(items) == 30
    pids = {pid for _, pid in items}
    assert len(pids) <= 2 if kind.are_actors else len(pids) == 2  # actors join when they are ready
    assert all(notes == ["hello"] for notes, _ in items)


def test_aggregates_inside_are_flushed_at_epoch_ends(kind: RegionKind) -> None:
    """Or discarded with ``drop_last``."""
    builder = kind.with_region(range(5), lambda b: b.aggregate(3), continuous=True, inputs=2)
    assert epochs(builder, 3) == [[[0, 1, 2], [3, 4]]] * 3
    builder = kind.with_region(range(5), lambda b: b.aggregate(3, drop_last=True), continuous=True, inputs=2)
    assert epochs(builder, 3) == [[[0, 1, 2]]] * 3


def test_generators_and_path_variants_inside_over_epochs(kind: RegionKind) -> None:
    """Everything of an epoch comes before its end."""
    paths: Any = [[Pipe(ops.double)], [Pipe(ops.twice)]]
    builder = kind.with_region(range(4), lambda b: b.path_variants(ops.parity, paths), continuous=True, workers=2)
    assert [sorted(each) for each in epochs(builder, 3)] == [[0, 1, 1, 3, 3, 4]] * 3


def test_two_regions_over_epochs(kind: RegionKind) -> None:
    """Each is a barrier."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(range(6), continuous=True)
    kind.region(builder, lambda b: b.pipe(ops.double), workers=2, inputs=2)
    builder.aggregate(4)
    kind.region(builder, lambda b: b.pipe(len))
    assert epochs(builder.add_sink(), 3) == [[4, 2]] * 3


def test_a_break_leaves_the_rest_of_the_epoch(kind: RegionKind) -> None:
    """As without a region."""
    builder = kind.with_region(range(5), lambda b: b.pipe(ops.same), continuous=True)
    pipeline = builder.build(num_threads=1)
    with pipeline.auto_stop():
        assert next(iter(pipeline)) == 0
        assert list(pipeline) == [1, 2, 3, 4]
        assert list(pipeline) == [0, 1, 2, 3, 4]


def test_failed_items_do_not_hold_an_epoch_up(kind: RegionKind) -> None:
    """Nor do dropped ones."""
    builder = kind.with_region(
        range(6),
        lambda b: b.pipe(ops.odd_fails),
        lambda b: b.pipe(ops.drop_fours),
        continuous=True,
        workers=2,
    )
    assert [sorted(each) for each in epochs(builder, 3)] == [[0, 2]] * 3
