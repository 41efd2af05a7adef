"""Every item comes out once, in the declared order, or is counted as dropped or failed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.endings import Ending, run_until
from tests.strategies.graphs import Graph, Op, graphs, stages_of
from tests.strategies.items import label_of
from tests.strategies.model import check_mix, expect
from tests.strategies.profiles import cases
from tests.strategies.running import Run
from tests.strategies.watch import nothing_left


@cases(500)
@given(graph=graphs(continuous=False))
def test_each_item_comes_out_once_in_the_declared_order(graph: Graph) -> None:
    """What comes out is what one item after the other would give, mixed only where order is not declared."""
    with nothing_left():
        _, seen = run_until(graph, Ending("exhaust"))
    expected = expect(graph)
    assert seen.failure is None
    if expected.is_exact:
        check_mix(expected.strands, seen.outputs)
    labels = Counter(repr(label_of(value)) for value in seen.outputs)
    assert not [label for label, count in labels.items() if count > 1]


@cases(300)
@given(graph=graphs(continuous=True, max_items=6))
def test_no_item_crosses_an_epoch_end(graph: Graph) -> None:
    """Each epoch gives what its own items give, aggregates and reorder buffers included."""
    with nothing_left():
        _, seen = run_until(graph, Ending("exhaust"))
    assert seen.failure is None
    assert len(seen.epochs) == 3
    for number, outputs in enumerate(seen.epochs):
        expected = expect(graph, number)
        if expected.is_exact:
            check_mix(expected.strands, outputs)


@cases(300)
@given(graph=graphs(continuous=False))
def test_in_is_out_plus_dropped_plus_failed(graph: Graph) -> None:
    """At the end the counters of each stage add up, and are those of the model."""
    with nothing_left():
        run, _ = run_until(graph, Ending("exhaust"))
    stats = run.pipeline.stats()
    by_name = {stage.info.stage_name: stage for stage in stats.stages}
    expected = expect(graph)
    assert stats.state == "ended"
    for op in stages_of(graph):
        if not isinstance(op, Op):
            continue
        stage = by_name[f"op{op.id}"]
        assert stage.num_in_flight == 0
        assert stage.num_calls == stage.num_emitted + stage.num_dropped + stage.num_failures, stage
        if op.id in expected.counted:
            counts = expected.counts[op.id]
            found = (stage.num_calls, stage.num_emitted, stage.num_dropped, stage.num_failures)
            assert found == (counts.num_calls, counts.num_emitted, counts.num_dropped, counts.num_failures), stage


@cases(300)
@given(graph=graphs(), data=st.data())
def test_counters_never_say_what_cannot_be(graph: Graph, data: st.DataObject) -> None:
    """At any moment: in flight <= concurrency, waiting <= capacity, and no more out than in."""
    moments = data.draw(st.sets(st.integers(0, 12), max_size=3))
    limits = {f"op{op.id}": op.concurrency for op in stages_of(graph) if isinstance(op, Op)}

    def look(run: Run) -> None:
        if run.pipeline.stats().num_items not in moments:
            return
        for stage in run.pipeline.stats().stages:
            limit = limits.get(stage.info.stage_name)
            if limit is not None:
                assert 0 <= stage.num_in_flight <= limit, stage
                assert stage.num_emitted + stage.num_dropped + stage.num_failures <= stage.num_calls, stage
            assert 0 <= stage.queue_len <= stage.queue_capacity, stage
            assert min(stage.busy, stage.starved, stage.blocked) >= 0, stage

    with nothing_left():
        run, _ = run_until(graph, Ending("exhaust"), look=look)
    for op in stages_of(graph):
        if isinstance(op, Op):
            assert run.most_running[op.id] <= op.concurrency, op
