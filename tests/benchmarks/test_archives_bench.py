"""benchmarks/archives, and what it shares with others: like is compared with like. No time is asserted here."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks._contest.contest import Case, Contest, Peer, is_same
from benchmarks._contest.environments import CHECKOUT
from benchmarks._contest.required import AtMost, Ratio
from benchmarks._contest.result import Result, add_turn
from benchmarks._contest.running import run
from benchmarks.archives._contest import CONTEST, make_cases


def test_peers_of_this_interpreter_give_the_same(tmp_path: Path) -> None:
    """Every member and array, for all cases that a peer can do."""
    peers = [peer for peer in CONTEST.peers if peer.environment == CHECKOUT]
    for case in make_cases(tmp_path, is_quick=True):
        given = {}
        for peer in peers:
            adapter: Any = importlib.import_module(peer.adapter)
            call = adapter.prepare(case.name, case.inputs())
            if call is not None:
                given[peer.name] = adapter.outputs(case.name, call())
        assert len(given) >= 2
        assert {name: case.differ(given[CONTEST.ours], outputs) for name, outputs in given.items()} == dict.fromkeys(
            given
        )


def test_figures_name_cases_and_peers_that_exist(tmp_path: Path) -> None:
    """A figure that can never be measured would never be missed."""
    cases, peers = {case.name for case in make_cases(tmp_path, is_quick=True)}, {peer.name for peer in CONTEST.peers}
    for required in CONTEST.required:
        assert isinstance(required, Ratio | AtMost)
        pairs = [required.of, required.over] if isinstance(required, Ratio) else [required.of, required.floor]
        assert all(pair is None or (pair[0] in cases and pair[1] in peers) for pair in pairs)


TURNS = Result(
    {
        "cases": [
            {"name": "a", "costs": {"ours": {"wall_us": [1.0, 2.0, 3.0]}, "theirs": {"wall_us": [10.0, 9.0, 30.0]}}}
        ]
    }
)


def test_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    """What equals the requirement passes."""
    figure = Ratio("t", ("a", "theirs"), ("a", "ours"), 5).measured(TURNS)
    assert (figure.measured, figure.spread, figure.verdict) == (5, (4.5, 10), "PASS")
    assert Ratio("t", ("a", "theirs"), ("a", "ours"), 5.1).measured(TURNS).verdict == "MISS"
    assert Ratio("t", ("b", "theirs"), ("a", "ours"), 5).measured(TURNS).verdict == "NOT MEASURED"


def test_ratio_of_rounds_is_the_median_of_their_ratios() -> None:
    """Pairs of the same round are compared; the limit may be a maximum."""
    figure = Ratio("t", ("a", "theirs"), ("a", "ours"), 10, of_rounds=True).measured(TURNS)
    assert (figure.measured, figure.spread, figure.required, figure.verdict) == (10, (4.5, 10), ">= 10", "PASS")
    figure = Ratio("t", ("a", "theirs"), ("a", "ours"), at_most=9.9, of_rounds=True).measured(TURNS)
    assert (figure.required, figure.verdict) == ("<= 9.9", "MISS")


def test_turns_are_collected_by_name() -> None:
    """A turn may have several values of one name; what is measured once is kept apart."""
    costs: dict[str, Any] = {"num_calls": 3}
    for wall in (1.0, 2.0):
        add_turn(costs, {"wall_us": wall, "each_us": [wall, 10 * wall], "choice": "threads"})
    result = Result({"cases": [{"name": "a", "costs": {"ours": costs}}]})
    assert result.values("a", "ours", "wall_us") == [1.0, 2.0]
    assert result.values("a", "ours", "each_us") == [1.0, 10.0, 2.0, 20.0]
    assert result.values("a", "ours", "choice") == ["threads", "threads"]
    assert (result.once("a", "ours", "num_calls"), result.values("a", "ours", "num_calls")) == (3, [])
    assert (result.median("a", "ours", "wall_us"), result.median("a", "theirs", "wall_us")) == (1.5, None)


def test_limit_takes_off_the_floor() -> None:
    """What a copy of the memory costs is on nobody's bill."""
    assert AtMost("t", ("a", "theirs"), 10).measured(TURNS).verdict == "PASS"
    figure = AtMost("t", ("a", "theirs"), 7, ("a", "ours")).measured(TURNS)
    assert (figure.measured, figure.spread, figure.verdict) == (8, (7, 27), "MISS")
    assert AtMost("t", ("a", "theirs"), 10, ("b", "ours")).measured(TURNS).verdict == "NOT MEASURED"


def test_difference_of_outputs_is_put_into_words() -> None:
    """Other names, other shapes, other values."""
    ours = {"x": np.zeros(3)}
    assert is_same(ours, {"x": np.zeros(3)}) is None
    assert "it has ['y']" in str(is_same(ours, {"y": np.zeros(3)}))
    assert "x is (4,)" in str(is_same(ours, {"x": np.zeros(4)}))
    assert "or values differ" in str(is_same(ours, {"x": np.ones(3)}))


def contest(*peers: str) -> Contest:
    """A contest on the smallest input, of these adapters."""
    return Contest(
        name="archives",
        question="?",
        ours=peers[0],
        unit="a file",
        peers=[Peer(peer, f"benchmarks.archives.adapters.{peer}") for peer in peers],
        make_cases=lambda folder, is_quick: [case for case in make_cases(folder, True) if case.name == "npy_view"],
        required=[AtMost("at all", ("npy_view", peers[0]), 1e9), AtMost("never", ("npz", peers[0]), 1)],
    )


@pytest.mark.slow
def test_run_stores_numbers_with_where_they_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One value a round, figures, versions, environment; a peer that cannot run is named, and does not stop the run."""
    path = tmp_path / "result.json"
    peers = contest("spdl_io", "standard_library", "nonesuch")
    assert run(peers, ["--quick", "--rounds", "2", "--json", str(path), "--require"]) == 1
    result = json.loads(path.read_text())
    assert {"date", "command", "python", "os", "cpu", "cores"} <= result["environment"].keys()
    (case,) = result["cases"]
    assert [len(case["costs"][peer]["wall_us"]) for peer in ("spdl_io", "standard_library")] == [2, 2]
    assert [figure["verdict"] for figure in result["figures"]] == ["PASS", "NOT MEASURED"]
    assert list(result["missing"]) == ["nonesuch"]
    assert "never (NOT MEASURED)" in capsys.readouterr().err


@pytest.mark.slow
def test_other_output_stops_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Its time would mean nothing."""
    other = contest("spdl_io", "standard_library")
    wrong = Contest(
        name=other.name,
        question="?",
        ours=other.ours,
        unit="a file",
        peers=other.peers,
        make_cases=lambda folder, is_quick: [
            Case(case.name, case.title, case.data, differ=lambda ours, theirs: "never the same")
            for case in other.make_cases(folder, is_quick)
        ],
    )
    assert run(wrong, ["--quick"]) == 2
    assert "does not do the work of 'npy_view': never the same" in capsys.readouterr().err
