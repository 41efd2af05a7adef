"""Origins: errors name the true source position, and a position is consumed exactly when nothing of it is left."""

from typing import Any

from hypothesis import given

from tests.strategies.endings import Ending, endings, run_until
from tests.strategies.graphs import Agg, Disagg, Graph, Paths, graphs, sources_of, stages_of
from tests.strategies.items import Position, positions_of
from tests.strategies.profiles import cases
from tests.strategies.running import OpError, Run
from tests.strategies.watch import nothing_left


def consumed_positions(run: Run) -> set[Position]:
    """As the engine accounts for them."""
    with run.engine.lock:
        return {
            (number, index)
            for number, positions in enumerate(run.engine.ledger.sources)
            for index in range(positions.num_issued)
            if positions.is_consumed(index)
        }


def discards(graph: Graph) -> bool:
    """An aggregate may drop its last items, which no op sees."""
    return any(isinstance(stage, Agg) and stage.drop_last for stage in stages_of(graph))


def check_pending(run: Run) -> None:
    """What still waits, or is in an op's hands, is not consumed."""
    if not discards(run.graph):
        before = consumed_positions(run)  # first: what is consumed now cannot become live again
        assert not before & run.outstanding()


@cases(300)
@given(graph=graphs(continuous=False))
def test_everything_is_consumed_at_the_end_and_nothing_before(graph: Graph) -> None:
    """While reading a position with something left is pending; after exhaustion none is."""
    with nothing_left():
        run, _ = run_until(graph, Ending("exhaust"), look=check_pending)
    for source, positions in zip(sources_of(graph.src), run.engine.ledger.sources, strict=True):
        assert positions.num_issued == positions.num_consumed == positions.low == source.sizes[0]
        assert not positions.pending


@cases(500)
@given(graph=graphs(), ending=endings())
def test_after_a_stop_exactly_what_was_discarded_is_pending(graph: Graph, ending: Ending) -> None:
    """Whatever ended it: taken means consumed, discarded means pending."""
    with nothing_left():
        run, _ = run_until(graph, ending)
    check_pending(run)
    if any(isinstance(stage, Disagg) or (isinstance(stage, Paths) and stage.batched) for stage in stages_of(graph)):
        return  # the elements of a batch are consumed together, whatever becomes of them one by one
    consumed = consumed_positions(run)
    left = run.outstanding() | run.unsure
    for number, positions in enumerate(run.engine.ledger.sources):
        assert positions.num_issued <= run.sources[number].num_given
        for index in range(positions.num_issued):
            assert (number, index) in left or (number, index) in consumed, (
                f"{(number, index)} is all taken, but pending"
            )


@cases(300)
@given(graph=graphs(continuous=False))
def test_failures_name_the_source_positions_of_their_item(graph: Graph) -> None:
    """The origin of an ``ItemFailure`` leads to the positions that the item itself knows it came from."""
    with nothing_left():
        run, _ = run_until(graph, Ending("exhaust"))
    for stage in run.pipeline.stats().stages:
        for failure in stage.failures:
            if isinstance(failure.error, OpError):
                item = failure.error.args[1]
                assert any(positions_of(item) <= reading for reading in readings(failure.origin)), failure
                assert any(failure.stage in note for note in failure.error.__notes__), failure


def readings(origin: Any) -> set[frozenset[Position]]:
    """The sets of positions that an origin may stand for.

    There may be several: ``(3, 1)`` is the second output for item 3, or the aggregate of the items 3 and 1.
    """
    if isinstance(origin, int):
        return {frozenset([(0, origin)])}
    if hasattr(origin, "position"):
        return {frozenset([(origin.source, origin.position)])}
    found = {frozenset[Position]()}
    for one in origin:
        found = {head | tail for head in found for tail in readings(one)}
    if len(origin) == 2 and isinstance(origin[1], int):
        found |= readings(origin[0])
    return found
