"""benchmarks/failures: every failure is told in each of the ways. No time is asserted."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks._contest.result import Result
from benchmarks._contest.running import run
from benchmarks.failures._cases import CASE, CONTEST, check


@pytest.mark.slow
def test_failures_are_told_in_each_of_the_ways(tmp_path: Path) -> None:
    """Outputs are compared before they are timed."""
    path = tmp_path / "result.json"
    assert run(CONTEST, ["--quick", "--rounds", "1", "--json", str(path)]) == 0
    result = Result(json.loads(path.read_text(encoding="utf-8")))
    for peer in ("quarantine", "skip", "substitute", "on_failure"):
        assert len(result.values(CASE, peer, "cpu_us")) == 1


def test_lost_items_and_failures_are_noticed() -> None:
    """An even item that is missing, and an odd one of which nobody was told."""
    assert check(4, {"kept": np.array([0, 2]), "num_failed": np.array([2])}) is None
    assert "1 of 2" in str(check(4, {"kept": np.array([0]), "num_failed": np.array([2])}))
    assert "told [1]" in str(check(4, {"kept": np.array([0, 2]), "num_failed": np.array([1])}))
