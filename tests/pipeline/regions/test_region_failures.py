"""What the ledger says of items that fail in a worker, and what cannot cross or start."""

from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, RemoteOpError, WorkerError
from spdl.pipeline.defs import MAIN_PROCESS, ExecutorConfig, ProcessPoolExecutorConfig
from tests.pipeline.regions import ops
from tests.support.region_kinds import IN_PROCESSES, RegionKind

#: Items that cannot cross.
UNRULY = {
    "lambda": lambda: 1,
    "unloadable": ops.Unloadable(1),
    "exits on departure": ops.ExitsOnDeparture(1),
    "exits on arrival": ops.ExitsOnArrival(1),
}


def pipeline_of(workers: ExecutorConfig, *stages: Any, source: Any = range(12), **options: Any) -> Pipeline[Any]:
    builder = PipelineBuilder().add_source(source).to(workers)
    for op in stages:
        builder.pipe(op)
    return builder.to(MAIN_PROCESS).add_sink().build(**{"num_threads": 2, **options})


def read_to_failure(pipeline: Pipeline[Any]) -> tuple[list[Any], PipelineFailure]:
    items: list[Any] = []
    with pytest.raises(PipelineFailure) as caught, pipeline.auto_stop():
        items.extend(pipeline)  # what came before the failure is kept
    return items, caught.value


def test_failed_items_are_counted_with_their_origin(kind: RegionKind) -> None:
    """The ledger names the stage inside, the position in the source, the item and the error."""
    pipeline = pipeline_of(kind.workers(2), ops.fail_on_multiples_of_three)
    with pipeline.auto_stop():
        items = sorted(pipeline)
    assert items == [1, 2, 4, 5, 7, 8, 10, 11]
    stage = pipeline.stats().stages[1]
    assert (stage.num_calls, stage.num_emitted, stage.num_failures) == (12, 8, 4)
    assert {failure.origin for failure in stage.failures} == {0, 3, 6, 9}
    for failure in stage.failures:
        assert "fail_on_multiples_of_three" in failure.stage
        assert failure.item_repr == str(failure.origin)
        assert isinstance(failure.error, RemoteOpError)
        assert failure.error.type_name == "ValueError"
        assert "is a multiple of three" in failure.error.remote_traceback
    assert pipeline._engine.ledger.sources[0].num_consumed == 12


def test_origins_go_on_after_the_region(kind: RegionKind) -> None:
    """An item that fails behind a region is named by its position in the source."""
    pipeline = (
        PipelineBuilder()
        .add_source(range(10, 16))
        .to(kind.workers(2))
        .pipe(ops.plus_one)
        .to(MAIN_PROCESS)
        .pipe(ops.fail_on_multiples_of_three)
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        assert sorted(pipeline) == [11, 13, 14, 16]
    assert {failure.origin for failure in pipeline.stats().stages[2].failures} == {1, 4}


@pytest.mark.parametrize("name", UNRULY)
def test_an_item_that_does_not_pickle_costs_itself_only(kind: RegionKind, name: str) -> None:
    """To be pickled, and to be unpickled. Even if that asks for the end of the process."""
    pipeline = pipeline_of(kind.workers(1), ops.with_pid, source=[0, UNRULY[name], 2])
    with pipeline.auto_stop():
        assert [item for item, _ in pipeline] == [0, 2]
    stage = pipeline.stats().stages[1]
    assert (stage.num_calls, stage.num_emitted, stage.num_failures) == (3, 2, 1)
    assert stage.failures[0].origin == 1


@pytest.mark.parametrize(
    "op",
    [
        ops.unpicklable_for_odd,
        ops.unloadable_for_odd,
        ops.exit_on_arrival_for_odd,
        ops.exit_on_departure_for_odd,
    ],
)
def test_an_output_that_does_not_pickle_costs_itself_only(kind: RegionKind, op: Any) -> None:
    """The same."""
    pipeline = pipeline_of(kind.workers(1), op, source=range(4))
    with pipeline.auto_stop():
        assert list(pipeline) == [0, 2]
    stage = pipeline.stats().stages[1]
    assert (stage.num_calls, stage.num_emitted, stage.num_failures) == (4, 2, 2)
    assert [failure.origin for failure in stage.failures] == [1, 3]


def test_an_exception_that_does_not_pickle_comes_as_text(kind: RegionKind) -> None:
    """Its class and its traceback are told."""
    pipeline = pipeline_of(kind.workers(1), ops.raise_what_does_not_pickle, source=range(2), max_failures=Fraction(1))
    with pipeline.auto_stop():
        assert list(pipeline) == []
    error = pipeline.stats().stages[1].failures[0].error
    assert isinstance(error, RemoteOpError)
    assert error.type_name == "NeedsArguments"


def test_an_op_that_exits_the_interpreter_fails_the_region(kind: RegionKind) -> None:
    """SystemExit is no ordinary exception, there as here."""
    _, failure = read_to_failure(pipeline_of(kind.workers(1), ops.system_exit))
    assert "Fused subprocess pipeline failed: " in str(failure.exceptions[0])


@pytest.mark.parametrize("initializer", [ops.fail_to_start, ops.exit_at_start])
@pytest.mark.parametrize("restart", [False, True])
@IN_PROCESSES
def test_a_failing_initializer_fails_the_region(kind: RegionKind, initializer: Any, restart: bool) -> None:
    """Also where workers are replaced: the next one would fail as well."""
    workers = kind.workers(1 if kind.are_actors else 2, initializer=initializer, restart=restart)
    _, failure = read_to_failure(pipeline_of(workers, ops.double))
    (error,) = failure.exceptions
    assert isinstance(error, WorkerError)
    if initializer is ops.fail_to_start:
        assert "no such model" in str(error)
    elif not kind.are_actors:  # Ray does not tell
        assert "exit code 7" in str(error)


def test_an_op_that_does_not_pickle_fails_the_region() -> None:
    """It is named."""
    pipeline = pipeline_of(ProcessPoolExecutorConfig(1, mp_context="spawn"), lambda item: item)
    _, failure = read_to_failure(pipeline)
    assert isinstance(failure.exceptions[0], TypeError)
    assert "lambda" in str(failure.exceptions[0])


@IN_PROCESSES
def test_a_failure_behind_the_region_ends_its_workers(kind: RegionKind) -> None:
    """Though their calls would go on for ever."""
    builder = PipelineBuilder().add_source(range(100)).to(kind.workers(2)).pipe(ops.stuck_but_for_zero)
    builder.to(MAIN_PROCESS).pipe(ops.fail_on_multiples_of_three)
    _, failure = read_to_failure(builder.add_sink().build(num_threads=1, max_failures=0))
    assert "failed 1 times" in str(failure.exceptions[0])
