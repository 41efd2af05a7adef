"""benchmarks/observation: the contestants do the same work, and lost items are noticed. No time is asserted."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks._contest.result import Result
from benchmarks._contest.running import run
from benchmarks.observation import live
from benchmarks.observation._cases import CONTEST, check


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
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


@pytest.mark.slow
def test_live_figures_are_all_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each, with its limit; a stall is really reported."""
    monkeypatch.setattr(live, "measure_monitor", lambda seconds, num_rounds: [0.004])
    monkeypatch.setattr(live, "measure_first_screen", lambda num_rounds: [2.0])
    assert live.main(["--quick"]) == 0
    assert live.main(["--quick", "--require"]) == 1
    text = capsys.readouterr().out
    assert "<= 0.5 % | 0.40 % (0.40 to 0.40) | PASS" in text
    assert "<= 1 s | 2.00 s (2.00 to 2.00) | MISS" in text
    assert text.count("a stall is reported") == 2
