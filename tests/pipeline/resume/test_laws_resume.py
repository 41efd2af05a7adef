"""Laws of resuming: whatever the pipeline is and wherever it stops, every item is read exactly once."""

import warnings
from collections import Counter
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline
from spdl.pipeline._engine import _passes
from tests.contract.running import TIMEOUT
from tests.pipeline.resume.graphs import Graph, build, executor, expected, leaves
from tests.pipeline.resume.strategies import graphs
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left

#: Epochs of a continuous source that are read.
NUM_EPOCHS = 3


class Reader:
    """Reads a pipeline again and again, going on in a new one after each stop."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.epochs: list[list[Any]] = [[]]  # leaves that were read, by epoch
        self.num_epochs = NUM_EPOCHS if graph.continuous else 1

    @property
    def is_done(self) -> bool:
        return len(self.epochs) > self.num_epochs

    def read(self, pipeline: Pipeline[Any], most: int | None) -> dict[str, str]:
        """Read at most that many items and ends of epochs; return the state after them."""
        with pipeline.auto_stop():
            while not self.is_done and (most is None or most > 0):
                try:
                    value = pipeline.get_item(timeout=TIMEOUT)
                except EOFError:
                    self.epochs.append([])
                else:
                    self.epochs[-1] += leaves(value)
                if most is not None:
                    most -= 1
            return pipeline.state_dict()


def resumed(graph: Graph, state: Any) -> Pipeline[Any]:
    pipeline = build(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a source that is iterated from its beginning
        pipeline.load_state_dict(state)
    assert pipeline.state_dict() == state
    return pipeline


@cases(600)
@given(graph=graphs(), stops=st.lists(st.integers(0, 12), min_size=1, max_size=4), share=st.sampled_from([0.01, 1e9]))
def test_every_item_is_read_once_however_often_a_run_is_resumed(graph: Graph, stops: list[int], share: float) -> None:
    """By epoch; in the same order, where every stage keeps the order; with states of sources now and then or always."""
    reader = Reader(graph)
    with nothing_left(), executor(), patch.object(_passes, "_SNAPSHOT_SHARE", share):
        pipeline = build(graph)
        for most in stops:
            state = reader.read(pipeline, most)
            pipeline = resumed(graph, state)
            if reader.is_done:
                break
        reader.read(pipeline, None)
    for epoch in range(reader.num_epochs):
        wanted = expected(graph, epoch)
        assert Counter(reader.epochs[epoch]) == Counter(wanted), f"epoch {epoch}"
        if graph.keeps_order:
            assert reader.epochs[epoch] == wanted, f"epoch {epoch}"
