"""benchmarks/verdict: its pipelines run, and what it says of a result is what was measured. No label is asserted."""

import json
from typing import Any

import pytest

from benchmarks.verdict import _cases, _one, run
from benchmarks.verdict._quota import NoQuotaError


def test_there_are_forty_pipelines_and_more_under_a_quota() -> None:
    """Each has its own name, and labels and stages that exist."""
    names = [case.name for case in _cases.CASES]
    assert len(names) == len(set(names))
    assert sum(case.quota == 0 for case in _cases.CASES) == 40
    assert sum(case.quota > 0 for case in _cases.CASES) == 4
    assert sum(case.is_mixture for case in _cases.CASES) >= 10
    known = {"consumer", "gil", "cpu", "io", "cap", "source", "oversubscribed"}
    for case in _cases.CASES:
        assert set(case.causes) <= known
        assert set(case.blames) <= {"src", *(stage.name for stage in case.stages)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixed-sleep-sha", "async-sleep-4", "source-sleep", "consumer-sha"])
def test_a_pipeline_is_measured(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict on it arrives as JSON; with so little time it is unsure."""
    _one.main([name, "0.2"])
    found = json.loads(capsys.readouterr().out)
    assert found["cause"] == "unsure"
    assert found["rate"] > 0
    assert [share["stage"] for share in found["shares"]] == ["src", "op"]


def test_a_quota_that_cannot_be_had_skips_the_pipeline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run goes on without it, and says why."""

    def refuse(cpus: float) -> None:
        raise NoQuotaError(f"no quota of {cpus}")

    monkeypatch.setattr(_one, "limited", refuse)
    _one.main(["quota-sleep", "6"])
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"skipped": "no quota of 0.5"}
    monkeypatch.setattr(run, "_measure", lambda name, seconds: answer)
    assert run.main(["--cases", "quota-sleep", "--require"]) == 0
    assert "quota-sleep: skipped: no quota of 0.5" in capsys.readouterr().err


def test_advice_is_applied_to_the_blamed_stage() -> None:
    """Numbers that are 0 stay as they are."""
    [case] = [case for case in _cases.CASES if case.name == "six-sleep"]
    changed = _one._changed(case, "slow", 3, 0, 0)
    assert [stage.concurrency for stage in changed.stages] == [4, 4, 4, 3, 4, 4]
    assert changed.pool_size == case.pool_size
    assert not any(stage.num_processes for stage in changed.stages)
    moved = _one._changed(case, "slow", 2, 30, 1)
    assert [stage.name for stage in moved.stages if stage.num_processes] == ["slow"]
    assert moved.pool_size == 30


def _found(cause: str, stage: str | None) -> dict[str, Any]:
    return {"cause": cause, "stage": stage, "rate": 100.0, "predicted_rate": 200.0, "cpus_outside": 0.0}


def test_labels_are_judged_with_their_stage() -> None:
    """The right cause at the wrong stage is wrong; unsure is neither."""
    [case] = [case for case in _cases.WITH_GIL if case.name == "mixed-issue"]
    assert run._judge(case, _found("gil", "decode")) == "right"
    assert run._judge(case, _found("gil", "store")) == "WRONG"
    assert run._judge(case, _found("io", "decode")) == "WRONG"
    assert run._judge(case, _found("unsure", "decode")) == "unsure"


def test_figures_are_shares() -> None:
    """Of the pure ones, of the mixtures, and of the predictions."""
    cases = [case for case in _cases.CASES if case.name in ("sleep-1", "sleep-4", "mixed-issue")]
    results: dict[str, Any] = {
        "sleep-1": {"judged": "right", "verdict": _found("io", "op"), "gain": {"ratio": 1.1, "rate": 220.0}},
        "sleep-4": {"judged": "WRONG", "verdict": _found("cpu", "op")},
        "mixed-issue": {"judged": "unsure", "verdict": _found("unsure", None), "gain": {"ratio": 0.7, "rate": 1.0}},
    }
    assert run._shares(results, cases) == {
        "pure: right": 0.5,
        "pure: wrong": 0.5,
        "mixture: right": 0.0,
        "mixture: wrong": 0.0,
        "predictions within 20 %": 0.5,
    }
    assert run._row(cases[0], results["sleep-1"]) == "| sleep-1 | io | io (op) | right | 100 | 0.0 | 200 | 220 | 1.10 |"
