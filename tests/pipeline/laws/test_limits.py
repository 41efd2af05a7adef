"""Limits: of failures, of calls in flight, of what is buffered."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import FailureLimitError, NoSuccessError, PipelineBuilder, PipelineFailure
from tests.strategies.endings import Ending, check_all_closed, run_until
from tests.strategies.graphs import Agg, Disagg, Graph, Op, Source, Stage, graphs, sources_of, stages_of
from tests.strategies.model import check_mix, expect
from tests.strategies.profiles import cases
from tests.strategies.running import OpError, SourceError
from tests.strategies.watch import nothing_left


def _has_no_success(failure: PipelineFailure) -> bool:
    return any(isinstance(error, NoSuccessError) for error in failure.exceptions)


def _own_limit(stage: Op | Disagg) -> int | Fraction | None:
    return stage.max_failures if isinstance(stage, Op) else None


@cases(500)
@given(graph=graphs(continuous=False, limits=True, max_items=8))
def test_a_limit_fails_the_pipeline_when_it_is_crossed_and_only_then(graph: Graph) -> None:
    """Stages with a limit of their own go by their own count, others by the sum; sources that raise fail at once."""
    with nothing_left():
        run, seen = run_until(graph, Ending("exhaust"))
    check_all_closed(run)
    raised = {source.source.id for source in run.sources if source.num_raised}
    expected = expect(graph)
    calls = [stage for stage in stages_of(graph) if isinstance(stage, Op | Disagg)]
    if expected.is_exact and not any(s.error_at is not None for s in sources_of(graph.src)):
        failures = {stage.id: expected.counts[stage.id].num_failures for stage in calls}
        own = [stage for stage in calls if _own_limit(stage) is not None]
        shared = sum(failures[stage.id] for stage in calls if _own_limit(stage) is None)
        # Rates are looked at from the 100th call on, which none of these graphs gets to.
        counts = isinstance(graph.max_failures, int) and graph.max_failures >= 0
        must = counts and shared > graph.max_failures
        may = counts and sum(failures.values()) > graph.max_failures
        for stage in own:
            limit = _own_limit(stage)
            if isinstance(limit, int) and 0 <= limit < failures[stage.id]:
                must = True
        assert seen.failure is not None or not must
        assert seen.failure is None or must or may or _has_no_success(seen.failure)
    if expected.is_exact and not any(isinstance(stage, Agg) for stage in stages_of(graph)):
        check_mix(expected.strands, seen.outputs, whole=seen.failure is None and not raised)
    assert not raised or seen.failure is not None
    for error in seen.failure.exceptions if seen.failure is not None else ():
        assert isinstance(error, FailureLimitError | SourceError | NoSuccessError)
        if isinstance(error, FailureLimitError):
            assert error.num_failures > error.limit
            assert isinstance(error.__cause__, OpError | TypeError)  # TypeError: disaggregate of what is not iterable


@cases(200)
@given(
    num_items=st.integers(0, 20),
    failing=st.sets(st.integers(0, 20)),
    limit=st.integers(0, 4),
    ordered=st.booleans(),
    lane=st.sampled_from(["sync", "async"]),
)
def test_a_stage_that_trips_leaves_exactly_what_came_before(
    num_items: int, failing: set[int], limit: int, ordered: bool, lane: str
) -> None:
    """One call at a time: everything before the failure that crosses the limit comes out, nothing after it."""

    def op(item: int) -> int:
        if item in failing:
            raise ValueError(item)
        return item

    async def async_op(item: int) -> int:
        return op(item)

    builder: PipelineBuilder[int, int] = PipelineBuilder().add_source(range(num_items))
    builder.pipe(
        op if lane == "sync" else async_op, max_failures=limit, output_order="input" if ordered else "completion"
    )
    pipeline = builder.pipe(lambda x: x, concurrency=2, output_order="input").add_sink(1).build(num_threads=2)
    crossing = sorted(item for item in failing if item < num_items)[limit:]
    seen: list[int] = []
    with nothing_left():
        if crossing:
            with pytest.raises(PipelineFailure) as failed:
                seen.extend(pipeline)
            (error,) = failed.value.exceptions
            assert isinstance(error, FailureLimitError)
            assert error.num_failures == limit + 1
            assert error.__cause__ is not None
            assert error.__cause__.args == (crossing[0],)
        elif num_items and failing >= {*range(num_items)}:
            with pytest.raises(PipelineFailure) as failed:
                seen.extend(pipeline)
            assert [type(error) for error in failed.value.exceptions] == [NoSuccessError]
        else:
            seen.extend(pipeline)
    end = crossing[0] if crossing else num_items
    assert seen == [item for item in range(end) if item not in failing]


@cases(60)
@given(period=st.integers(2, 6), denominator=st.integers(2, 6), num_items=st.integers(95, 130))
def test_a_rate_is_looked_at_from_the_hundredth_call_on(period: int, denominator: int, num_items: int) -> None:
    """Every ``period``-th call fails; the stage trips at the first call from the 100th on where that is too many."""

    def op(item: int) -> int:
        if (item + 1) % period == 0:
            raise ValueError(item)
        return item

    limit = Fraction(1, denominator)
    builder: PipelineBuilder[int, int] = PipelineBuilder()
    pipeline = builder.add_source(range(num_items)).pipe(op, max_failures=limit).add_sink().build()
    trips = [n for n in range(100, num_items + 1) if Fraction(n // period, n) > limit]
    with nothing_left():
        if trips:
            with pytest.raises(PipelineFailure) as failed:
                list(pipeline)
            (error,) = failed.value.exceptions
            assert isinstance(error, FailureLimitError)
            assert (error.num_calls, error.num_failures) == (trips[0], trips[0] // period)
        else:
            assert len(list(pipeline)) == num_items - num_items // period


def most_ahead(graph: Graph) -> int:
    """How many items of the source may be in the pipeline: two between stages, one in each call, the sink's."""
    ahead = graph.sink
    for stage in reversed(graph.stages):
        if isinstance(stage, Agg):
            ahead = (ahead + 1) * stage.size + stage.size - 1
        elif isinstance(stage, Op):
            ahead += stage.concurrency
        ahead += 2
    return ahead + 1


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """Stages with at most one output for an input, so that what is buffered can be counted."""
    graph = draw(graphs(continuous=False, max_items=0, merges=False))
    stages: list[Stage] = []
    for stage in stages_of(graph)[:3]:
        if (isinstance(stage, Op) and stage.shape == "call") or isinstance(stage, Agg):
            stages.append(stage)
    source = Source(0, draw(st.sampled_from(["generator", "iterator", "async"])), (60,))
    return Graph(source, tuple(stages), graph.sink, graph.num_threads)


@cases(300)
@given(graph=chains(), num_read=st.integers(0, 5))
def test_the_source_runs_ahead_by_no_more_than_the_buffers_hold(graph: Graph, num_read: int) -> None:
    """What the source has given and nobody has taken fits into channels, calls and sink, at any moment."""
    bound = most_ahead(graph) + min(num_read, 1)  # one may be in the consumer's hands, not yet noted as taken
    with nothing_left():
        run, _ = run_until(graph, Ending("stop", num_read))
    assert run.most_live <= bound, f"{run.most_live} items were in the pipeline, {bound} fit"
