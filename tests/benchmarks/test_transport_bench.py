"""benchmarks/transport: like is compared with like, and judged as it says. No time is asserted here."""

import importlib
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from benchmarks._contest.environments import CHECKOUT
from benchmarks._contest.processes import cpu_seconds_of, descendants
from benchmarks.transport._cases import CASES, REQUIRED, ConsumerAtMost, TimesAsFast
from benchmarks.transport._main import main
from benchmarks.transport._measure import Client
from benchmarks.transport._peers import OURS, PEERS, Peer, peer_named
from benchmarks.transport._report import rows_of, start_figures
from benchmarks.transport._work import Producer, Work, digest, expected_total, touch

SMALL_WORKS = [
    Work("uint8", (2, 3, 40, 50), 3),
    Work("float32", (3, 3, 40, 50), 3),
    Work("bytes", (200_000,), 3),
    Work("bytes", (100,), 16),
]


@pytest.mark.parametrize("work", SMALL_WORKS, ids=lambda work: f"{work.dtype}-{work.num_bytes}")
def test_items_have_the_size_and_the_total_they_are_to_have(work: Work) -> None:
    """What the consumer sees of them adds up to what is expected, and they differ from each other."""
    items = list(Producer(work, 5))
    assert sum(touch(work, item) for item in items) == expected_total(work, 5)
    made = digest(work, items)
    assert made[0] == 5
    assert digest(work, items[::-1]) != made
    assert digest(work, [*items[:3], items[2], items[4]]) != made


def test_other_items_are_refused() -> None:
    """Another element type, shape or size is no item of the case."""
    work = SMALL_WORKS[0]
    for wrong in (np.zeros(work.shape, np.int8), np.zeros(work.shape[1:], np.uint8)):
        with pytest.raises(ValueError, match="item 0 is"):
            digest(work, [wrong])
    with pytest.raises(ValueError, match="item 0 has 99 bytes, expected 100"):
        digest(SMALL_WORKS[3], [bytes(99)])


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.adapter == "no_transport"], ids=lambda peer: peer.name)
def test_filling_alone_makes_the_same(peer: Peer) -> None:
    """Into fresh memory and into the same; again in each iteration."""
    adapter: Any = importlib.import_module(f"benchmarks.transport.adapters.{peer.adapter}")
    for work in SMALL_WORKS:
        items = adapter.open_way(ExitStack(), peer.way, work, 4)
        if items is not None:
            assert [digest(work, items) for _ in range(2)] == [digest(work, Producer(work, 4))] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "peer",
    [peer for peer in PEERS if peer.environment == CHECKOUT and peer.adapter != "no_transport"],
    ids=lambda peer: peer.name,
)
def test_peer_moves_what_is_made(peer: Peer) -> None:
    """Every item arrives in order, in each of two iterations; what a process takes is on its own bill."""
    moved = 0
    with Client(peer) as client:
        for work in SMALL_WORKS:
            asked = {"dtype": work.dtype, "shape": work.shape, "buffer_size": work.buffer_size}
            if client.ask("open", work=asked, num_items=6):
                assert client.ask("digest") == digest(work, Producer(work, 6))
                taken = client.ask("time")
                assert taken["total"] == expected_total(work, 6)
                assert min(taken["wall"], taken["consumer"]) > 0
                moved += 1
    assert moved >= 2


def test_figures_name_cases_and_peers_that_exist() -> None:
    """A figure that can never be measured would never be missed."""
    cases, peers = {case.name for case in CASES}, {peer.name for peer in PEERS}
    for required in REQUIRED:
        assert required.case in cases
        named = {required.peer} if isinstance(required, ConsumerAtMost) else {required.ours, required.theirs}
        assert named <= peers
    assert peer_named(OURS).name == OURS


def _passes(*walls: float) -> list[dict[str, float]]:
    return [{"wall": wall, "consumer": wall / 2, "producer": wall} for wall in walls]


PASSES = {"uint8": {"fill": _passes(1, 1, 1), OURS: _passes(1, 2, 4), "reference": _passes(6, 10, 40)}}


def test_ratio_is_of_the_same_round() -> None:
    """The median of the ratios is judged; the spread is theirs; who is missing has not passed."""
    figure = TimesAsFast("uint8", OURS, "reference", 6).measured(PASSES)
    assert (figure.measured, figure.spread, figure.verdict) == (6, (5, 10), "PASS")
    assert TimesAsFast("uint8", OURS, "reference", 6.1).measured(PASSES).verdict == "MISS"
    assert TimesAsFast("uint8", OURS, "torch", 1).measured(PASSES).verdict == "NOT MEASURED"
    assert TimesAsFast("small", OURS, "reference", 1).measured(PASSES).verdict == "NOT MEASURED"


def test_consumer_is_judged_by_its_own_cpu() -> None:
    """Microseconds for an item."""
    figure = ConsumerAtMost("uint8", OURS, 1e6).measured(PASSES)
    assert (figure.measured, figure.spread, figure.verdict) == (1e6, (5e5, 2e6), "PASS")
    assert ConsumerAtMost("uint8", OURS, 9e5).measured(PASSES).verdict == "MISS"
    assert ConsumerAtMost("uint8", "torch", 1).measured(PASSES).verdict == "NOT MEASURED"


def test_rows_say_what_share_is_the_filling() -> None:
    """Of the producer's own memory, or of memory that is warm where batches are born in it."""
    [case] = [case for case in CASES if case.name == "uint8"]
    passes = {**PASSES["uint8"], "fill-reused": _passes(0.5), "spdl-born": _passes(1, 1, 1)}
    rows = {row["name"]: row for row in rows_of(case, passes)}
    assert (rows[OURS]["filling"], rows["spdl-born"]["filling"]) == (0.5, 0.5)
    assert (rows["reference"]["ratio"], rows["reference"]["ratio_min"], rows["reference"]["ratio_max"]) == (6, 5, 10)
    assert rows["reference"]["mb_per_s"] == case.work.num_bytes / 10 / 1e6
    assert rows_of(case, {"torch": _passes(1)})[0]["ratio"] is None


def test_start_is_judged_by_method() -> None:
    """Ours against the reference, and the second against the first."""
    ours, theirs = [{"first": 120.0, "second": 60.0}] * 2, [{"first": 100.0, "second": 100.0}] * 2
    figures = start_figures({"forkserver": {OURS: ours, "reference": theirs}, "spawn": {OURS: theirs}})
    assert [figure.verdict for figure in figures] == ["PASS", "NOT MEASURED", "PASS"]
    slower = [{"first": 121.0, "second": 61.0}] * 2
    figures = start_figures({"forkserver": {OURS: slower, "reference": theirs}})
    assert [figure.verdict for figure in figures] == ["MISS", "NOT MEASURED", "MISS"]


@pytest.mark.skipif(sys.platform != "linux", reason="CPU time of other processes is known on Linux only")
def test_cpu_of_other_processes_is_read_from_their_clocks() -> None:
    """That of this process is what it says itself; a process is found among the descendants while it lives."""
    before = time.process_time()
    seen = cpu_seconds_of([os.getpid()])
    assert before <= seen <= time.process_time()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in descendants()
        child.communicate(b"\n")
    assert child.pid not in descendants()
    assert cpu_seconds_of([child.pid]) == 0


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists those there are."""
    with pytest.raises(SystemExit):
        main(["--peers", "nonesuch"])
    assert "unknown name 'nonesuch'; there are: fill, " in capsys.readouterr().err
