"""Whatever ends a pipeline, and whenever: it ends, and leaves nothing."""

from hypothesis import given

from tests.strategies.endings import Ending, Observed, check_all_closed, endings, run_until
from tests.strategies.graphs import Graph, graphs
from tests.strategies.model import check_mix, expect
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left


def check_outputs(graph: Graph, seen: Observed) -> None:
    """What was read is the beginning, or a part, of what was to come."""
    for number, outputs in enumerate(seen.epochs):
        expected = expect(graph, number)
        if expected.is_exact:
            check_mix(expected.strands, outputs, whole=False)


@cases(800)
@given(graph=graphs(), ending=endings())
def test_every_way_out_ends_and_leaves_nothing(graph: Graph, ending: Ending) -> None:
    """Stop, break, an exception, collection, cancellation, a stop inside an op: joined, closed, in order."""
    with nothing_left():
        run, seen = run_until(graph, ending)
    check_all_closed(run)
    assert seen.failure is None
    check_outputs(graph, seen)


@cases(300)
@given(graph=graphs(continuous=False))
def test_exhaustion_leaves_nothing(graph: Graph) -> None:
    """The end of the stream joins and closes like a stop."""
    with nothing_left():
        run, _ = run_until(graph, Ending("exhaust"))
    check_all_closed(run)
    assert run.pipeline.stats().state == "ended"
