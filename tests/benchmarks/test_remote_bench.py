"""benchmarks/remote: all peers read the same bytes. No time is asserted here."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks._contest.environments import CHECKOUT
from benchmarks._contest.required import Ratio
from tests.support.object_server import warm_up

pytest.importorskip("obstore")

from benchmarks.remote import _server
from benchmarks.remote._contest import CONTEST, make_cases


@pytest.fixture(scope="module", autouse=True)
def _runtime() -> None:
    warm_up()


@pytest.fixture
def _stopped() -> Iterator[None]:
    yield
    _server.stop()


@pytest.mark.slow
@pytest.mark.allow_leaks(reason="adapters keep their stores, and these their connections, for the process")
@pytest.mark.usefixtures("_stopped")
@pytest.mark.skipif(_server.program() is None, reason="nginx is not installed")
def test_peers_of_this_interpreter_give_the_same(tmp_path: Path) -> None:
    """Every object and part, for all cases that a peer can do."""
    peers = [peer for peer in CONTEST.peers if peer.environment == CHECKOUT]
    for case in make_cases(tmp_path, is_quick=True):
        given = {}
        for peer in peers:
            if case.peers is not None and peer.name in case.peers:
                adapter: Any = importlib.import_module(peer.adapter)
                call = adapter.prepare(case.name, case.inputs())
                given[peer.name] = adapter.outputs(case.name, call())
        assert len(given) == 2
        assert {case.differ(given[CONTEST.ours], outputs) for outputs in given.values()} == {None}


def test_figures_name_cases_and_peers_that_exist(tmp_path: Path) -> None:
    """A figure that can never be measured would never be missed."""
    cases, peers = {case.name for case in make_cases(tmp_path, is_quick=True)}, {peer.name for peer in CONTEST.peers}
    for required in CONTEST.required:
        assert isinstance(required, Ratio)
        assert all(pair[0] in cases and pair[1] in peers for pair in (required.of, required.over))
