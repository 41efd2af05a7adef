"""Laws of resuming: whatever the pipeline is and wherever it stops, every item is read exactly once."""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._engine import _passes
from tests.pipeline.resume.graphs import Graph, build, describe, executor, expected, leaves
from tests.pipeline.resume.iterating import OnThread, Prefetched
from tests.pipeline.resume.strategies import graphs
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left
from tests.support.running import TIMEOUT

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

    def read(self, pipeline: Any, most: int | None) -> dict[str, str]:
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
            state: dict[str, str] = pipeline.state_dict()
            return state


def resumed(pipeline: Any, state: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a source that is iterated from its beginning
        pipeline.load_state_dict(state)
    assert pipeline.state_dict() == state
    return pipeline


def check(make: Callable[[], Any], graph: Graph, stops: list[int]) -> None:
    """Read what ``make`` makes of ``graph``, stopping after so many items, and compare."""
    reader = Reader(graph)
    pipeline = make()
    for most in stops:
        state = reader.read(pipeline, most)
        pipeline = resumed(make(), state)
        if reader.is_done:
            break
    reader.read(pipeline, None)
    for epoch in range(reader.num_epochs):
        wanted = expected(graph, epoch)
        assert Counter(reader.epochs[epoch]) == Counter(wanted), f"epoch {epoch}"
        if graph.keeps_order:
            assert reader.epochs[epoch] == wanted, f"epoch {epoch}"


STOPS = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@cases(600)
@given(graph=graphs(), stops=STOPS, share=st.sampled_from([0.01, 1e9]))
def test_every_item_is_read_once_however_often_a_run_is_resumed(graph: Graph, stops: list[int], share: float) -> None:
    """By epoch; in the same order, where every stage keeps the order; with states of sources now and then or always."""
    with nothing_left(), executor(), patch.object(_passes, "_SNAPSHOT_SHARE", share):
        check(lambda: build(graph), graph, stops)


@cases(200)
@given(graph=graphs(), stops=STOPS, buffer_size=st.sampled_from([1, 2, 3, 8, 40]))
def test_the_same_in_another_process(graph: Graph, stops: list[int], buffer_size: int) -> None:
    """What was sent and not read is not consumed, whatever the credits are."""
    check(lambda: OnThread(*describe(graph), buffer_size), graph, stops)


@cases(200)
@given(graph=graphs(), stops=STOPS, num_prefetch=st.sampled_from([1, 2, 5, 40]))
def test_the_same_read_ahead(graph: Graph, stops: list[int], num_prefetch: int) -> None:
    """What ``prefetch_to_device`` holds and the user has not seen is not consumed."""
    with nothing_left(), executor(), patch("spdl.dataloader._device.get_torch", lambda: None):
        check(lambda: Prefetched(build(graph), num_prefetch), graph, stops)


@pytest.mark.soak(only=True)
@cases(60)
@given(graph=graphs(in_processes=True), stops=STOPS)
def test_the_same_with_regions_of_worker_processes(graph: Graph, stops: list[int]) -> None:
    """What was dealt to a worker, and had not come back when the run was stopped, is not consumed."""
    with executor():
        check(lambda: build(graph), graph, stops)
