"""benchmarks/engine: that it compares like with like, and judges as it says. No time is asserted here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks._contest.client import PeerError
from benchmarks._contest.environments import CHECKOUT
from benchmarks.engine._cases import CASES, Case, case_named
from benchmarks.engine._client import Client
from benchmarks.engine._main import main
from benchmarks.engine._measure import CaseResult, Cost, OutputMismatch, check_outputs
from benchmarks.engine._peers import OURS, PEERS, REFERENCE, TORCH, Peer, peer_named
from benchmarks.engine._report import case_figure, import_figures, limit_figure, markdown, zlib_figure
from benchmarks.engine.adapters import Adapter, CompressesInThreads, GivesFirstItem

RUN = Path(__file__).resolve().parents[2] / "benchmarks" / "engine" / "run.py"

#: Peers that need nothing but this checkout. The reference is left to the benchmark itself: it has to be downloaded.
IN_PROCESS = [peer for peer in PEERS if peer.lives_in == CHECKOUT]


def available(peer: Peer) -> Adapter:
    adapter = peer.adapter()
    if not adapter.available():
        pytest.skip(f"{peer.name} is not installed")
    return adapter


class Emitting(Client):
    """A peer that answers ``digest`` with what it is told to, and runs nowhere."""

    def __init__(self, **digest: object) -> None:
        self.peer = peer_named("futures")
        self._digest = digest

    def ask(self, command: str, **arguments: object) -> Any:
        assert command == "digest"
        return self._digest


RIGHT = {"count": 1000, "checksum": "3e726f1b6f58ece8", "in_order": True, "batch_sizes": []}


@pytest.mark.parametrize(
    ("peer", "case"),
    [(peer, case) for peer in IN_PROCESS for case in CASES if peer.adapter().supports(case)],
    ids=lambda value: value.name,
)
def test_adapter_emits_each_item_once(peer: Peer, case: Case) -> None:
    """Each item comes out once, in order where the case promises it, in full batches where it aggregates."""
    emitted = available(peer).make(case)(100, list)
    if case.batch_size is not None:
        assert [len(batch) for batch in emitted] == [32, 32, 32, 4]
        emitted = [item for batch in emitted for item in batch]
    assert (emitted if case.promises_order else sorted(emitted)) == list(range(100))


@pytest.mark.slow
@pytest.mark.parametrize("name", [peer.name for peer in PEERS if peer.lives_in == TORCH])
def test_torch_adapter_emits_each_item_once(name: str) -> None:
    """What is asked of the others, in a process of its own: torch is heavy, and warns about what it finds."""
    with Client(peer_named(name)) as client:
        description = client.ask("describe", cases=[case.name for case in CASES])
        if not description["available"]:
            pytest.skip(f"{name} is not installed")
        check_outputs([client], map(case_named, description["cases"]), lambda client, case: True)


@pytest.mark.parametrize("peer", IN_PROCESS, ids=lambda peer: peer.name)
def test_adapter_spreads_calls_over_threads(peer: Peer) -> None:
    """With one thread or two, every item is given to the op once."""
    adapter = available(peer)
    if not isinstance(adapter, CompressesInThreads):
        pytest.skip(f"{peer.name} does not take part in zlib")
    for num_threads in (1, 2):
        assert adapter.each(len, [b"a", b"bb", b"ccc"], num_threads) == 6
    assert adapter.each(len, [], 1) == 0


def test_ours_gives_a_first_item_and_stops() -> None:
    """The small pipeline is stopped at work, and what it gave was one of its items."""
    adapter = available(peer_named(OURS))
    assert isinstance(adapter, GivesFirstItem)
    assert adapter.first_item() in range(1000)


def test_right_output_is_accepted() -> None:
    """A peer that emits what the case asks for may be timed."""
    check_outputs([Emitting(**RIGHT)], [case_named("source_sink")], lambda client, case: True)


@pytest.mark.parametrize(
    "wrong", [{"count": 999}, {"checksum": "0" * 16}, {"in_order": False}, {"batch_sizes": [1000]}], ids=str
)
def test_wrong_output_is_refused_before_timing(wrong: dict[str, object]) -> None:
    """A lost item, another item, lost order or batches nobody asked for: the message names peer and case."""
    with pytest.raises(OutputMismatch, match="futures at 'source_sink' emitted"):
        check_outputs([Emitting(**{**RIGHT, **wrong})], [case_named("source_sink")], lambda client, case: True)


def test_order_is_not_asked_where_it_is_not_promised() -> None:
    """Several calls in flight without input order may emit in any order."""
    check_outputs([Emitting(**{**RIGHT, "in_order": False})], [case_named("sync_c4")], lambda client, case: True)


def test_figure_is_the_ratio_of_the_medians() -> None:
    """The spread is that of the rounds, each against its own; a figure that equals what is required passes."""
    costs = {OURS: Cost(1, wall_us=[1, 2, 3]), REFERENCE: Cost(1, wall_us=[100, 90, 150])}
    figure = case_figure(CaseResult(case_named("source_sink"), costs))
    assert (figure.measured, figure.spread, figure.verdict) == (50, (45, 100), "PASS")


def test_lower_ratio_is_a_miss() -> None:
    """Under what is required is a miss, however little."""
    costs = {OURS: Cost(1, wall_us=[2]), REFERENCE: Cost(1, wall_us=[99])}
    assert case_figure(CaseResult(case_named("source_sink"), costs)).verdict == "MISS"


def test_figure_without_a_peer_is_not_passed() -> None:
    """What could not be measured is neither passed nor hidden."""
    figure = case_figure(CaseResult(case_named("source_sink"), {OURS: Cost(1, wall_us=[1])}))
    assert (figure.verdict, figure.passed) == ("NOT MEASURED", False)
    assert limit_figure("start", 2, None).verdict == "NOT MEASURED"
    assert zlib_figure("ours", 1.9, None).verdict == "NOT MEASURED"


def test_import_that_brings_numpy_is_a_miss() -> None:
    """Fast is not enough: the module that came along is named."""
    time, clean = import_figures(100, [50.0], ["numpy"])
    assert (time.verdict, clean.verdict) == ("PASS", "MISS")
    assert "numpy" in clean.title


def test_table_shows_a_dash_where_a_peer_has_no_way() -> None:
    """A peer that cannot do a case has a cell all the same."""
    table = markdown(
        [CaseResult(case_named("async_c1"), {OURS: Cost(1, [3.0, 5.0, 4.0], [6.0])})], [OURS, "futures"], []
    )
    assert table.splitlines()[-1] == "| one async stage, concurrency 1 (default) | 4 (3 to 5) / 6 | — |"


@pytest.mark.slow
def test_failure_of_a_peer_carries_its_traceback() -> None:
    """The worker's exception is raised here with its traceback, and the worker goes on."""
    with Client(peer_named("futures")) as client:
        with pytest.raises(PeerError, match=r"(?s)futures: time .*no case is called 'nonesuch'"):
            client.ask("time", case="nonesuch", n=1)
        assert client.ask("digest", case="source_sink", n=3)["count"] == 3


@pytest.mark.slow
def test_run_writes_result_with_environment(tmp_path: Path) -> None:
    """A short run stores costs, figures and where they come from; without the reference --require fails it."""
    path = tmp_path / "result.json"
    command = [sys.executable, str(RUN), "--quick", "--rounds", "1", "--peers", "spdl,futures", "--json", str(path)]
    command += ["--cases", "source_sink,aggregate32,zlib", "--require", "--markdown"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "NOT MEASURED" in done.stdout
    result = json.loads(path.read_text())
    assert {"date", "command", "python", "os", "cpu", "cores"} <= result["environment"].keys()
    for case in result["cases"]:
        cost = case["costs"]["futures"]
        assert (len(cost["wall_us"]), len(cost["cpu_us"]), cost["n"] % 32) == (1, 1, 0)
    assert [figure["verdict"] for figure in result["figures"][:2]] == ["NOT MEASURED"] * 2


def test_unknown_peer_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the pen measures nothing."""
    with pytest.raises(SystemExit, match="2"):
        main(["--peers", "nonesuch"])
    assert "unknown name 'nonesuch'; there are: spdl, reference" in capsys.readouterr().err
