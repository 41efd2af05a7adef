"""Items that fail in a worker of a region, and limits that trip there."""

from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, WorkerError
from tests.support import ops, remote
from tests.support.region_kinds import RegionKind
from tests.support.regions import counts
from tests.support.running import drain, fail, run

# -- items


def test_an_input_that_does_not_pickle_costs_that_item(kind: RegionKind) -> None:
    """It is that item's failure; those dealt with it arrive."""
    builder = kind.with_region([1, remote.Unpicklable(), 2, 3], lambda b: b.pipe(ops.same), inputs=4)
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([1, 2, 3], None)
    assert counts(pipeline) == (3, 0, 1)


def test_an_output_that_does_not_pickle_costs_that_item(kind: RegionKind) -> None:
    """In the worker."""
    builder = kind.with_region(range(5), lambda b: b.pipe(partial(ops.unpicklable_result, at=2)), outputs=5)
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([0, 1, 3, 4], None)
    assert counts(pipeline) == (4, 0, 1)


def test_what_does_not_unpickle_costs_that_item(kind: RegionKind) -> None:
    """On either side of the boundary."""
    builder = kind.with_region([1, remote.BreaksOnArrival(), 2], lambda b: b.pipe(ops.same))
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([1, 2], None)
    builder = kind.with_region(range(4), lambda b: b.pipe(partial(ops.broken_result, at=1)), outputs=4)
    pipeline = builder.build(num_threads=1)
    assert drain(pipeline) == ([0, 2, 3], None)
    assert counts(pipeline) == (3, 0, 1)


def test_a_generator_that_fails_keeps_what_it_gave(kind: RegionKind) -> None:
    """As it does here."""
    pipeline = kind.with_region(range(3), lambda b: b.pipe(ops.one_then_fail)).build(num_threads=1)
    assert drain(pipeline) == ([0, 1, 2], None)


# -- limits


@pytest.mark.parametrize("how", ["stage", "build"])
def test_a_limit_that_trips_inside_fails_the_region(kind: RegionKind, how: str) -> None:
    """``Fused subprocess pipeline failed:`` with the traceback from there, of the stage ``subprocess_pipeline(…)``."""
    limit = 1 if how == "stage" else None
    builder = kind.with_region(
        range(50), lambda b: b.pipe(ops.same), lambda b: b.pipe(ops.odd_fails, max_failures=limit)
    )
    items, error = fail(builder, **({} if how == "stage" else {"max_failures": 1}))
    assert isinstance(error, WorkerError)
    assert "Fused subprocess pipeline failed:" in str(error)
    assert "failed 2 times, which exceeds the threshold (1)" in str(error)
    assert "Traceback" in str(error)
    assert any(note.endswith("subprocess_pipeline(same+odd_fails)") for note in error.__notes__)
    assert items == [0, 2]


def test_no_failure_at_all_is_allowed_by_a_limit_of_none(kind: RegionKind) -> None:
    """``max_failures=0`` at build applies inside too."""
    items, error = fail(kind.with_region(range(9), lambda b: b.pipe(ops.odd_fails)), max_failures=0)
    assert items == [0]
    assert "failed 1 times, which exceeds the threshold (0)" in str(error)


def test_a_stage_inside_may_be_exempt(kind: RegionKind) -> None:
    """By ``max_failures=-1``."""
    builder = kind.with_region(range(9), lambda b: b.pipe(ops.odd_fails, max_failures=-1))
    assert run(builder, max_failures=0) == [0, 2, 4, 6, 8]


def test_a_rate_inside_never_trips_at_one(kind: RegionKind) -> None:
    """``Fraction(1, 1)``."""
    assert run(kind.with_region(range(9), lambda b: b.pipe(ops.refuse, max_failures=Fraction(1, 1)))) == []


def test_an_aggregator_that_fails_inside_fails_the_region(kind: RegionKind) -> None:
    """As it fails its stage here."""
    _, error = fail(kind.with_region(range(5), lambda b: b.aggregate(ops.BrokenAggregator())))
    assert "Fused subprocess pipeline failed:" in str(error)
    assert "no more room" in str(error)


def test_a_router_that_points_nowhere_inside_fails_the_region(kind: RegionKind) -> None:
    """IndexError there."""
    from spdl.pipeline.defs import Pipe

    _, error = fail(kind.with_region(range(5), lambda b: b.path_variants(ops.same, [[Pipe(ops.same)]])))
    assert "Fused subprocess pipeline failed:" in str(error)
    assert "IndexError" in str(error)


def test_stages_after_the_region_finish_what_came(kind: RegionKind) -> None:
    """And those before it are cancelled: the source, which never ends, is closed."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(remote.Endless())
    kind.region(builder, lambda b: b.pipe(ops.second), lambda b: b.pipe(ops.odd_fails, max_failures=0))
    items, error = fail(builder.pipe(ops.double).add_sink(2))
    assert items == [0]
    assert isinstance(error, WorkerError)
