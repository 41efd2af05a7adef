"""benchmarks/starting: the contestants give the same, and what is shown is what was measured. No time is asserted."""

import pytest

from benchmarks._contest.client import Client
from benchmarks._contest.environments import CHECKOUT
from benchmarks.starting._main import figure_of


@pytest.mark.slow
def test_each_epoch_gives_the_same_batches() -> None:
    """Of 16, and each epoch can be timed."""
    pytest.importorskip("torch")
    with Client("spdl", CHECKOUT, "benchmarks.starting._worker", "spdl") as client:
        given = client.ask("digest")
        assert [len(batch) for batch in given] == [4] * 16
        assert [number for batch in given for number in batch] == [index**2 for index in range(64)]
        assert client.ask("epoch") > 0


def test_the_figure_is_a_ratio_of_pairs() -> None:
    """Its median decides; without the peer nothing was measured."""
    figure = figure_of({"spdl": [1.0, 4.0, 3.0], "torch_fork": [1.0, 2.0, 2.0]})
    assert (figure.measured, figure.spread, figure.passed) == (1.5, (1.0, 2.0), True)
    assert figure_of({"spdl": [1.0]}).verdict == "NOT MEASURED"
    assert not figure_of({"spdl": [2.0], "torch_fork": [1.0]}).passed
