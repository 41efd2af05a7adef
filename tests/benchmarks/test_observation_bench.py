"""benchmarks/observation: the contestants do the same work, and lost items are noticed. No time is asserted."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks._contest.result import Result
from benchmarks._contest.running import run
from benchmarks.observation._cases import CONTEST, check


@pytest.mark.slow
def test_watched_pipelines_give_what_unwatched_ones_do(tmp_path: Path) -> None:
    """Their outputs are compared before they are timed."""
    pytest.importorskip("prometheus_client")
    path = tmp_path / "result.json"
    assert run(CONTEST, ["--quick", "--rounds", "1", "--cases", "0.1ms", "--json", str(path)]) == 0
    result = Result(json.loads(path.read_text(encoding="utf-8")))
    for peer in ("trace", "off", "reports", "prometheus"):
        assert len(result.values("0.1ms", peer, "cpu_us")) == 1


def test_lost_items_are_noticed() -> None:
    """And others than those of the source."""
    assert check(3, {"items": np.array([0, 1, 2])}) is None
    assert "2 of 3" in str(check(3, {"items": np.array([0, 2])}))
