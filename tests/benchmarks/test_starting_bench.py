"""benchmarks/starting: the contestants give the same, and what is shown is what was measured. No time is asserted."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks._contest.figures import Figure
from benchmarks._contest.result import Result
from benchmarks._contest.running import run
from benchmarks.starting._cases import CONTEST, check


@pytest.mark.slow
def test_each_epoch_gives_all_batches(tmp_path: Path) -> None:
    """They are compared before an epoch is timed; a turn is one epoch."""
    pytest.importorskip("torch")
    path = tmp_path / "result.json"
    assert run(CONTEST, ["--quick", "--rounds", "1", "--peers", "spdl", "--json", str(path)]) == 0
    result = Result(json.loads(path.read_text(encoding="utf-8")))
    assert result.once("epoch", "spdl", "num_calls") == 1
    assert len(result.values("epoch", "spdl", "wall_us")) == 1


def test_other_batches_are_refused() -> None:
    """A lost batch, or another order."""
    batches = np.array([index**2 for index in range(64)]).reshape(16, 4)
    assert check({"batches": batches}) is None
    assert "not 16 batches" in str(check({"batches": batches[1:]}))
    assert "not 16 batches" in str(check({"batches": batches[::-1]}))


def test_the_figure_is_a_ratio_of_pairs() -> None:
    """Its median decides; without the peer nothing was measured."""

    def figure_of(**walls: list[float]) -> Figure:
        costs = {peer: {"wall_us": wall} for peer, wall in walls.items()}
        [required] = CONTEST.required
        return required.measured(Result({"cases": [{"name": "epoch", "costs": costs}]}))

    figure = figure_of(spdl=[1.0, 4.0, 3.0], torch_fork=[1.0, 2.0, 2.0])
    assert (figure.measured, figure.spread, figure.passed) == (1.5, (1.0, 2.0), True)
    assert figure_of(spdl=[1.0]).verdict == "NOT MEASURED"
    assert not figure_of(spdl=[2.0], torch_fork=[1.0]).passed
