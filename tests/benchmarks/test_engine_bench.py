"""benchmarks/engine: that it compares like with like, and judges as it says. No time is asserted here."""

import importlib
import importlib.util
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks._contest.client import PeerError
from benchmarks._contest.contest import Peer
from benchmarks._contest.contestants import Contestant, start_one
from benchmarks._contest.environments import CHECKOUT, REPOSITORY
from benchmarks._contest.figures import Figure
from benchmarks._contest.page import page
from benchmarks._contest.required import AtMost, Ratio
from benchmarks._contest.result import Result
from benchmarks._contest.running import run
from benchmarks._contest.session import Task
from benchmarks._contest.turns import outputs_of
from benchmarks.engine import _session
from benchmarks.engine._cases import CONTEST, OURS, PEERS, REFERENCE, check_items, make_cases
from benchmarks.engine._shapes import SHAPES, Shape

#: Peers that need nothing but this checkout. The reference is left to the benchmark itself: it has to be downloaded.
IN_PROCESS = [peer for peer in PEERS if peer.name in (OURS, "futures")]
TORCH = [peer for peer in PEERS if peer.name.startswith(("torch", "dataloader")) and peer.environment == CHECKOUT]
CASES = {case.name: case for case in make_cases(Path(), True)}


def adapter_of(peer: Peer) -> Any:
    return importlib.import_module(peer.adapter)


def contestant(stack: ExitStack, name: str) -> Contestant:
    """A peer in a process of its own."""
    [peer] = [peer for peer in PEERS if peer.name == name]
    return start_one(stack, CONTEST, peer, name)


def result_of(case: str, **costs: dict[str, list[Any]]) -> Result:
    return Result({"peers": {peer: {} for peer in costs}, "cases": [{"name": case, "costs": costs}]})


def figures_of(case: str, result: Result) -> list[Figure]:
    """The figures that need a case."""
    return [required.measured(result) for required in CONTEST.required if case in required.cases()]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize("peer", IN_PROCESS, ids=lambda peer: peer.name)
def test_adapter_emits_each_item_once(peer: Peer, shape: Shape) -> None:
    """Each item comes out once, in order where the shape promises it, in full batches where it aggregates."""
    run_shape = adapter_of(peer).make(shape, peer.settings)
    if run_shape is None:
        assert (peer.name, shape.kind) == ("futures", "async")
        return
    emitted = run_shape(100, list)
    if shape.batch_size is not None:
        assert [len(batch) for batch in emitted] == [32, 32, 32, 4]
        emitted = [item for batch in emitted for item in batch]
    assert (emitted if shape.promises_order else sorted(emitted)) == list(range(100))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("peer", TORCH, ids=lambda peer: peer.name)
def test_torch_adapter_emits_each_item_once(peer: Peer, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What is asked of the others, in a process of its own: torch is heavy, and warns about what it finds."""
    if peer.name != "dataloader-2":  # has processes of its own
        request.getfixturevalue("forked_workers")
    with ExitStack() as stack:
        one = contestant(stack, peer.name)
        for shape in SHAPES:
            if one.open(CASES[shape.name], {}):
                assert check_items(shape, outputs_of(one, tmp_path / "outputs.npz")) is None


@pytest.mark.parametrize("peer", IN_PROCESS, ids=lambda peer: peer.name)
def test_adapter_spreads_calls_over_threads(peer: Peer) -> None:
    """With one thread or two, every item is given to the op once."""
    each = adapter_of(peer).each
    for num_threads in (1, 2):
        assert each(len, [b"a", b"bb", b"ccc"], num_threads) == 6
    assert each(len, [], 1) == 0


def test_ours_gives_a_first_item_and_stops() -> None:
    """The small pipeline is stopped at work, and what it gave was one of its items."""
    assert adapter_of(IN_PROCESS[0]).first_item() in range(1000)


def shape_named(name: str) -> Shape:
    [shape] = [shape for shape in SHAPES if shape.name == name]
    return shape


ITEMS = list(range(1000))


@pytest.mark.parametrize(
    ("items", "sizes", "problem"),
    [
        (ITEMS, [], None),
        (ITEMS[1:], [], "999 items"),
        ([0, *ITEMS[:-1]], [], "not the integers below 1000"),
        (ITEMS[::-1], [], "another order"),
        (ITEMS, [1000], r"batches of [1000], expected []"),
    ],
)
def test_wrong_output_is_described(items: list[int], sizes: list[int], problem: str | None) -> None:
    """A lost item, another item, lost order or batches nobody asked for."""
    outputs = {"items": np.array(items), "batch_sizes": np.array(sizes)}
    told = check_items(shape_named("source_sink"), outputs)
    assert told is None if problem is None else problem in str(told)


def test_order_is_not_asked_where_it_is_not_promised() -> None:
    """Several calls in flight without input order may emit in any order."""
    outputs = {"items": np.array(ITEMS[::-1]), "batch_sizes": np.array([])}
    assert check_items(shape_named("sync_c4"), outputs) is None


def test_batches_are_full_except_the_last() -> None:
    """1000 items in batches of 32."""
    outputs = {"items": np.array(ITEMS), "batch_sizes": np.array([32] * 31 + [8])}
    assert check_items(shape_named("aggregate32"), outputs) is None


def test_cost_is_without_start_and_end() -> None:
    """Of a turn of as many items as take the seconds of a turn."""
    session = _session.open(adapter_of(IN_PROCESS[1]), Task("aggregate32", {}))
    assert session is not None
    num_items = session.calibrate(0.001)["n"]
    assert (num_items >= 256, num_items % 32) == (True, 0)
    assert set(session.measure()) == {"wall_us", "cpu_us", "start_ms"}


def test_figure_is_the_ratio_of_the_medians() -> None:
    """The spread is that of the rounds, each against its own; a figure that equals what is required passes."""
    costs = {OURS: {"wall_us": [1, 2, 3]}, REFERENCE: {"wall_us": [100, 90, 150]}}
    [figure] = figures_of("source_sink", result_of("source_sink", **costs))
    assert (figure.measured, figure.spread, figure.verdict) == (50, (45, 100), "PASS")
    costs = {OURS: {"wall_us": [2]}, REFERENCE: {"wall_us": [99]}}
    assert [figure.verdict for figure in figures_of("source_sink", result_of("source_sink", **costs))] == ["MISS"]


def test_figure_without_a_peer_is_not_passed() -> None:
    """What could not be measured is neither passed nor hidden."""
    for case in ("source_sink", "first_item", "import", "zlib"):
        figures = figures_of(case, result_of(case))
        assert figures
        assert {(figure.verdict, figure.passed) for figure in figures} == {("NOT MEASURED", False)}


def test_figures_name_cases_and_peers_that_exist() -> None:
    """A figure that can never be measured would never be missed."""
    for required in CONTEST.required:
        assert set(required.cases()) <= set(CASES)
        if isinstance(required, Ratio | AtMost):
            assert required.of[1] in {peer.name for peer in PEERS}


def test_import_that_brings_numpy_is_a_miss() -> None:
    """Fast is not enough: the module that came along is named."""
    time, clean = figures_of("import", result_of("import", spdl={"ms": [50.0, 60.0], "brought": ["", "numpy"]}))
    assert (time.verdict, clean.verdict) == ("PASS", "MISS")
    assert "numpy" in clean.title
    _, clean = figures_of("import", result_of("import", spdl={"ms": [50.0], "brought": [""]}))
    assert (clean.measured, clean.verdict) == (0, "PASS")


def test_compression_is_compared_by_threads() -> None:
    """Of ours, one thread over two."""
    [figure] = figures_of("zlib", result_of("zlib", spdl={"one_us": [20.0], "two_us": [10.0]}))
    assert (figure.measured, figure.verdict) == (2, "PASS")


def test_table_shows_a_dash_where_a_peer_has_no_way() -> None:
    """A peer that cannot do a case has a cell all the same."""
    stored = {
        "environment": dict.fromkeys(("python", "cpu", "cores", "os", "date", "revision", "command"), ""),
        "peers": {OURS: {}, "futures": {}},
        "missing": {},
        "cases": [{"name": "async_c1", "costs": {OURS: {"wall_us": [3.0, 5.0, 4.0], "cpu_us": [6.0]}}}],
    }
    lines = page(CONTEST, [CASES["async_c1"]], Result(stored), []).splitlines()
    assert lines[0] == "| µs an item, wall (min to max) / CPU | spdl | futures |"
    assert lines[2] == "| one async stage, concurrency 1 (default) | 4 (3 to 5) / 6 | — |"


@pytest.mark.slow
def test_failure_of_a_peer_carries_its_traceback(tmp_path: Path) -> None:
    """The worker's exception is raised here with its traceback, and the worker goes on."""
    with ExitStack() as stack:
        futures = contestant(stack, "futures")
        with pytest.raises(PeerError, match=r"(?s)futures: open .*ValueError"):
            futures.client.ask("open", case="nonesuch", data={})
        assert futures.open(CASES["source_sink"], {})
        assert outputs_of(futures, tmp_path / "outputs.npz")["items"].tolist() == ITEMS


@pytest.mark.slow
def test_run_writes_result_with_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A short run stores costs, figures and where they come from; without the reference --require fails it."""
    path = tmp_path / "result.json"
    arguments = ["--quick", "--rounds", "1", "--peers", "spdl,futures", "--json", str(path)]
    assert run(CONTEST, [*arguments, "--cases", "source_sink,aggregate32,zlib,import", "--require"]) == 1
    assert "NOT MEASURED" in capsys.readouterr().out
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert {"date", "command", "python", "os", "cpu", "cores"} <= stored["environment"].keys()
    result = Result(stored)
    for case in ("source_sink", "aggregate32"):
        assert [len(result.values(case, "futures", name)) for name in ("wall_us", "cpu_us", "start_ms")] == [1, 1, 1]
    assert result.peers_of("import") == [OURS]
    assert [figure["verdict"] for figure in stored["figures"][:2]] == ["NOT MEASURED"] * 2


@pytest.mark.slow
@pytest.mark.tree
def test_another_checkout_takes_turns_as_a_twin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each peer that is SPDL has one; the report compares the two. A folder without SPDL is refused."""
    tree = tmp_path / "tree"
    (tree / ".venv" / "bin").mkdir(parents=True)
    interpreter = tree / ".venv" / "bin" / "python"
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    arguments = ["--quick", "--rounds", "1", "--peers", "spdl,futures", "--cases", "aggregate32"]
    assert run(CONTEST, [*arguments, "--spdl-tree", str(tree)]) == 2
    assert f"not from {tree / 'src'}" in capsys.readouterr().err
    (tree / "src").symlink_to(REPOSITORY / "src")
    assert run(CONTEST, [*arguments, "--spdl-tree", str(tree), "--json", str(tmp_path / "a.json")]) == 0
    assert "### Before over now" in capsys.readouterr().out
    assert list(json.loads((tmp_path / "a.json").read_text())["peers"]) == ["spdl", "spdl-before", "futures"]


def test_tree_without_an_interpreter_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what is missing."""
    assert run(CONTEST, ["--quick", "--peers", "spdl", "--spdl-tree", str(tmp_path)]) == 2
    assert "build that checkout first" in capsys.readouterr().err


def test_unknown_peer_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """So is an unknown case. Nothing is measured."""
    with pytest.raises(SystemExit, match="2"):
        run(CONTEST, ["--peers", "nonesuch"])
    assert "unknown name 'nonesuch'; there are: spdl, reference" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run(CONTEST, ["--cases", "source_sink,none*"])
    assert "no case is called 'none*'; there are: source_sink, " in capsys.readouterr().err
