"""benchmarks/shards: like is compared with like. No time is asserted here."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest.environments import CHECKOUT
from benchmarks._contest.required import AtMost, Ratio
from benchmarks.shards._contest import CONTEST, differ, make_cases


def test_peers_of_this_interpreter_give_the_same(tmp_path: Path) -> None:
    """Every sample, in order and shuffled."""
    peers = [peer for peer in CONTEST.peers if peer.environment == CHECKOUT]
    for case in make_cases(tmp_path, is_quick=True):
        given = {}
        for peer in peers:
            adapter: Any = importlib.import_module(peer.adapter)
            call = adapter.prepare(case.name, case.inputs())
            if call is not None:
                given[peer.name] = adapter.outputs(case.name, call())
        assert len(given) == (1 if case.name == "open" else 3)
        assert {name: case.differ(given[CONTEST.ours], found) for name, found in given.items()} == dict.fromkeys(given)
        if case.name != "open":
            assert len(given[CONTEST.ours]) == case.per


def test_differences_are_named() -> None:
    """A sample that is missing, has other files, or is too many."""
    ours = {"a": np.zeros(3)}
    assert differ(ours, {"a": np.zeros(3)}) is None
    assert "'a' is missing" in str(differ(ours, {"b": np.zeros(3)}))
    assert "'a' is missing or has other files" in str(differ(ours, {"a": np.ones(3)}))
    assert "it has 2 samples, SPDL 1" in str(differ(ours, {"a": np.zeros(3), "b": np.zeros(3)}))


def test_figures_name_cases_and_peers_that_exist(tmp_path: Path) -> None:
    """A figure that can never be measured would never be missed."""
    cases, peers = {case.name for case in make_cases(tmp_path, is_quick=True)}, {peer.name for peer in CONTEST.peers}
    for required in CONTEST.required:
        assert isinstance(required, Ratio | AtMost)
        pairs = [required.of, required.over] if isinstance(required, Ratio) else [required.of]
        assert all(pair[0] in cases and pair[1] in peers for pair in pairs)
