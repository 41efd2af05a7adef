"""benchmarks/transport: like is compared with like, and judged as it says. No time is asserted here."""

import importlib
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks._contest.contest import Case, Peer
from benchmarks._contest.contestants import start_one
from benchmarks._contest.environments import CHECKOUT
from benchmarks._contest.figures import Figure
from benchmarks._contest.processes import cpu_seconds_of, descendants
from benchmarks._contest.required import AtMost, Ratio
from benchmarks._contest.result import Result
from benchmarks._contest.running import run
from benchmarks._contest.turns import outputs_of
from benchmarks.transport._cases import CONTEST, OURS, PEERS, Filling, check_items, make_cases
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


FILLING = [peer for peer in PEERS if peer.adapter.endswith("no_transport")]
MOVING = [peer for peer in PEERS if peer.environment == CHECKOUT and peer not in FILLING]


@pytest.mark.parametrize("peer", FILLING, ids=lambda peer: peer.name)
def test_filling_alone_makes_the_same(peer: Peer) -> None:
    """Into fresh memory and into the same; again in each iteration."""
    adapter: Any = importlib.import_module(peer.adapter)
    for work in SMALL_WORKS:
        items = adapter.open_way(ExitStack(), peer.settings["way"], work, 4)
        if items is not None:
            assert [digest(work, items) for _ in range(2)] == [digest(work, Producer(work, 4))] * 2


@pytest.mark.slow
@pytest.mark.parametrize("peer", MOVING, ids=lambda peer: peer.name)
def test_peer_moves_what_is_made(peer: Peer, tmp_path: Path) -> None:
    """Every item arrives in order, in each of two iterations; what a process takes is on its own bill."""
    moved = 0
    with ExitStack() as stack:
        contestant = start_one(stack, CONTEST, peer, peer.name)
        for work in SMALL_WORKS:
            if contestant.open(
                Case("small", "", {**asdict(work), "num_checked": 6}), {**asdict(work), "num_checked": 6}
            ):
                assert check_items(work, 6, outputs_of(contestant, tmp_path / "items.npz")) is None
                taken = contestant.client.ask("measure")
                assert min(taken["wall_us"], taken["consumer_us"]) > 0
                moved += 1
        contestant.client.ask("close")
    assert moved >= 2


def test_figures_name_cases_and_peers_that_exist() -> None:
    """A figure that can never be measured would never be missed."""
    cases, peers = {case.name: case for case in make_cases(Path(), False)}, {peer.name for peer in PEERS}
    for required in CONTEST.required:
        assert isinstance(required, Ratio | AtMost)
        for case, peer, *_ in [required.of, required.over] if isinstance(required, Ratio) else [required.of]:
            assert peer in (cases[case].peers or peers)


def result_of(case: str = "uint8", **costs: dict[str, Any]) -> Result:
    return Result({"cases": [{"name": case, "costs": {name.replace("_", "-"): each for name, each in costs.items()}}]})


def figure_of(title: str, result: Result) -> Figure:
    """The figure with that title."""
    [figure] = [
        figure for figure in (required.measured(result) for required in CONTEST.required) if figure.title == title
    ]
    return figure


def test_ratio_is_of_the_same_round() -> None:
    """The median of the ratios is judged; the spread is theirs; who is missing has not passed."""
    result = result_of(spdl={"wall_us": [1, 2, 4]}, reference={"wall_us": [6, 10, 40]})
    figure = figure_of("uint8: reference over spdl", result)
    assert (figure.measured, figure.spread, figure.verdict) == (6, (5, 10), "PASS")
    result = result_of(spdl={"wall_us": [1, 2, 4]}, reference={"wall_us": [5.9, 10, 40]})
    assert figure_of("uint8: reference over spdl", result).verdict == "MISS"
    assert figure_of("uint8: torch over spdl", result).verdict == "NOT MEASURED"
    assert figure_of("small: reference over spdl", result).verdict == "NOT MEASURED"


def test_consumer_is_judged_by_its_own_cpu() -> None:
    """Microseconds for an item."""
    title = "uint8: CPU of the consumer, spdl"
    figure = figure_of(title, result_of(spdl={"wall_us": [1] * 3, "consumer_us": [50, 100, 200]}))
    assert (figure.measured, figure.spread, figure.verdict) == (100, (50, 200), "PASS")
    assert figure_of(title, result_of(spdl={"wall_us": [1], "consumer_us": [101]})).verdict == "MISS"
    assert figure_of(title, result_of(spdl_born={"consumer_us": [1]})).verdict == "NOT MEASURED"


def test_filling_is_of_warm_memory_where_batches_are_made_in_it() -> None:
    """Elsewhere it is of the producer's own memory."""
    result = result_of(
        fill={"wall_us": [1]}, fill_reused={"wall_us": [0.5]}, spdl={"wall_us": [2]}, spdl_born={"wall_us": [1]}
    )
    assert [Filling().cell(result, "uint8", peer) for peer in (OURS, "spdl-born")] == ["50 %", "50 %"]


def test_start_is_judged_by_method() -> None:
    """Ours against the reference, and the second against the first."""
    titles = [f"first item by {method}: spdl over reference" for method in ("forkserver", "spawn")]
    titles.append("first item by forkserver: the first over the second")
    theirs = {"first_ms": [100.0] * 2, "second_ms": [100.0] * 2}
    result = result_of("start-forkserver", spdl={"first_ms": [120.0] * 2, "second_ms": [60.0] * 2}, reference=theirs)
    assert [figure_of(title, result).verdict for title in titles] == ["PASS", "NOT MEASURED", "PASS"]
    result = result_of("start-forkserver", spdl={"first_ms": [121.0] * 2, "second_ms": [61.0] * 2}, reference=theirs)
    assert [figure_of(title, result).verdict for title in titles] == ["MISS", "NOT MEASURED", "MISS"]


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
        run(CONTEST, ["--peers", "nonesuch"])
    assert "unknown name 'nonesuch'; there are: fill, " in capsys.readouterr().err
