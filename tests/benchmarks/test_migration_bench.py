"""benchmarks/migration: the steps give what torch gives, and what is shown is what was measured.

No time is asserted here.
"""

import importlib.util
import json
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from benchmarks._contest import result as _contest
from benchmarks._contest import running
from benchmarks._contest.contest import Case, OutputMismatch
from benchmarks._contest.contestants import Contestant, Started, start_one
from benchmarks._contest.page import page
from benchmarks._contest.turns import outputs_of
from benchmarks.migration import plot
from benchmarks.migration._cases import CONTEST, check_samples, is_unsure, likeness_to, make_cases
from benchmarks.migration._cells import BATCHES, LOADERS, MEMORY_BATCHES, MODES, WORKERS, Cell, loaders_in
from benchmarks.migration._figures import figures_of
from benchmarks.migration._forked import in_child
from benchmarks.migration._memory import Watcher, memory_of_tree
from benchmarks.migration._photos import Photos
from benchmarks.migration._report import guide_parts
from benchmarks.migration._result import Result, in_todays_format


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three smooth pictures that differ, of two classes."""
    folder = tmp_path_factory.mktemp("photos")
    for number in range(3):
        path = folder / str(number // 2) / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.linear_gradient("L").rotate(90 * number).resize((300, 260)).convert("RGB").save(path, quality=95)
    return sorted(map(str, folder.rglob("*.jpg")))


def result_with(**changes: Any) -> Result:
    """A made up result: the last step twice as fast as torch in all cells."""

    def cell(batch: int, workers: int) -> dict[str, Any]:
        costs = {
            name: {
                "wall_us": [1e6 / (speed * (100 + step)) for step in (0, 2, 4)],
                "cpu_us": [5e3] * 3,
                "first_s": [1 / speed] * 3,
            }
            for name, speed in (("torch", 1), ("io", 2))
        }
        return {"name": f"{batch}x{workers}", "costs": costs}

    def memory(batch: int, workers: int) -> dict[str, Any]:
        costs = {
            "torch": {"before": [1], "peak": [2_000_000], "pss_peak": [1_000_000]},
            "io": {"before": [1], "peak": [1_000_000 + batch], "pss_peak": [1_100_000]},
        }
        return {"name": f"{batch}x{workers}-memory", "costs": costs}

    epochs = {
        "thread": {"wall_s": [1.0], "choice": [""]},
        "process": {"wall_s": [2.0], "choice": [""]},
        "auto": {"wall_s": [1.25], "choice": ["workers='thread', for it was faster"]},
    }
    stored = {
        "environment": {
            "python": "CPython 3.11", "cpu": "a processor", "cores": 2, "os": "Linux", "date": "2026-01-01T00:00",
            "revision": "abc", "command": "python run.py",
        },
        "peers": {"torch": {"torch": "2.0"}, "io": {"spdl": "1.0"}},
        "missing": {},
        "cases": [
            *(cell(batch, workers) for batch in BATCHES for workers in WORKERS),
            *(memory(batch, workers) for batch in MEMORY_BATCHES for workers in WORKERS),
            {"name": "auto-photographs", "costs": epochs},
        ],
    }  # fmt: skip
    return Result(stored | changes)


needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


@pytest.fixture(scope="module")
def contestants() -> Iterator[dict[str, Contestant]]:
    """The steps of the study, each in a process that has imported what it needs."""
    with ExitStack() as stack:
        peers = [peer for peer in CONTEST.peers if peer.name not in MODES]
        yield {peer.name: start_one(stack, CONTEST, peer, peer.name) for peer in peers}


def case_of(name: str, photos: list[str], **data: Any) -> tuple[Case, dict[str, Any]]:
    [case] = [case for case in make_cases(Path(), True) if case.name == name]
    return case, data | {"paths": photos, "is_memory": False, "num_checked": 4}


@pytest.mark.slow
@needs_torch
def test_steps_give_what_torch_gives(contestants: dict[str, Contestant], photos: list[str], tmp_path: Path) -> None:
    """Labels and sizes, and pixels as near as their rows say."""
    likeness: dict[str, float | None] = {}
    for name, cell in (("32x2", Cell(4, 2)), ("0x2", Cell(0, 2))):
        case, data = case_of(name, photos, batch=cell.batch, workers=2)
        given = {}
        for peer in case.peers or ():
            assert contestants[peer].open(case, data)
            given[peer] = outputs_of(contestants[peer], tmp_path / "outputs.npz")
            assert check_samples(cell, photos, given[peer]) is None
        likeness |= {peer: likeness_to(peer, given["torch"], outputs) for peer, outputs in given.items()}
    assert {name for name, alike in likeness.items() if alike is None} == {"torch", "drop-in", "threads"}


@pytest.mark.slow
@needs_torch
def test_steps_can_be_timed(contestants: dict[str, Contestant], photos: list[str]) -> None:
    """Each tells what an image took, and the first batch."""
    for contestant in contestants.values():
        assert contestant.open(*case_of("32x2", photos, batch=4, workers=2))
        contestant.client.ask("calibrate", seconds=0.0)
        assert min(contestant.client.ask("measure").values()) > 0


@pytest.mark.slow
@needs_torch
def test_memory_of_a_step_is_watched(contestants: dict[str, Contestant], photos: list[str]) -> None:
    """From another process, while it runs."""
    case, data = case_of("32x2-memory", photos, batch=4, workers=2)
    assert contestants["io"].open(case, data | {"is_memory": True})
    contestants["io"].client.ask("calibrate", seconds=0.0)
    measured = contestants["io"].client.ask("measure")
    assert measured["peak"] > 1_000_000 or not Path("/proc/self/smaps_rollup").exists()


def test_child_gives_what_is_called_in_it() -> None:
    """In another process, each time."""
    assert in_child(os.getpid) not in (os.getpid(), in_child(os.getpid))


def test_child_that_raises_is_an_error_with_its_traceback() -> None:
    """So is one that ends."""
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        in_child(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="exit code 3"):
        in_child(lambda: os._exit(3))


def test_samples_go_round(photos: list[str]) -> None:
    """However few files there are; the folder is the label."""
    samples = [Photos.of(photos).sample(index) for index in range(4)]
    assert samples == [(photos[0], 0), (photos[1], 0), (photos[2], 1), (photos[0], 0)]


def test_other_labels_shapes_and_pixels_are_refused(photos: list[str]) -> None:
    """Whatever is wrong is said."""
    given = {
        "images": np.zeros((32, 3, 224, 224), np.uint8),
        "labels": np.array([Photos.of(photos).sample(index)[1] for index in range(32)]),
        "sizes": np.array([32]),
    }
    cell = Cell(32, 2)
    assert check_samples(cell, photos, given) is None
    for wrong, message in (
        ({"labels": 1 - given["labels"]}, "other labels"),
        ({"images": given["images"][:, :, :-1]}, "not uint8 of"),
        ({"sizes": np.array([16, 16])}, "batches of [16, 16]"),
    ):
        assert message in str(check_samples(cell, photos, given | wrong))
    other = given | {"images": given["images"] + np.uint8(8)}
    assert likeness_to("threads", given, given) is None
    assert likeness_to("frames", given, other) == pytest.approx(30.07, abs=0.01)
    for name, message in (("threads", "other pixels"), ("io", "30.1 dB")):
        with pytest.raises(OutputMismatch, match=message):
            likeness_to(name, given, other)


def test_figures_are_of_the_worst_case() -> None:
    """Each says whether it is reached; what was not measured is not."""
    result = result_with()
    figures = {figure.title.partition(":")[0]: figure for figure in figures_of(result)}
    assert (figures["throughput"].measured, figures["throughput"].passed) == (2, True)
    assert (figures["first batch, 8 workers"].measured, figures["first batch, 8 workers"].passed) == (2, False)
    memory = figures["memory of the process tree, 1 worker"]
    assert (memory.measured, memory.passed) == (1_000_256 / 2_000_000, True)
    assert figures['workers="auto" on photographs'].measured == pytest.approx(0.8)
    assert figures['workers="auto" on python'].verdict == "NOT MEASURED"
    assert "NOT MEASURED" in {figure.verdict for figure in figures_of(result_with(cases=[]))}


def test_page_shows_what_was_measured() -> None:
    """Medians with the least and the greatest value, and what was chosen."""
    text = page(CONTEST, [], _contest.Result(result_with().stored), [])
    assert "| step 3: load_image_batch | 204 (200 to 208) |" in text
    assert "for it was faster" in text
    assert "a processor, 2 cores" in text
    assert "1.10 with 1, 1.10 with 2" in guide_parts(result_with())["memory"]


def test_earlier_format_is_read() -> None:
    """Of the stored result, whose cells have turns and memory."""
    turn = {"wall": 1.0, "cpu": 0.5, "images": 100, "first": 0.2}
    memory = {"torch": {"before": 1, "peak": 3, "pss_peak": 2}}
    cells = [{"batch": 32, "workers": 2, "turns": {"torch": [turn]}, "memory": memory}]
    auto = {"python": {"auto": [{"wall": 2.0, "choice": "x"}]}}
    result = Result(in_todays_format({"peers": {"torch": {}}, "cells": cells, "auto": auto}))
    cell = Cell(32, 2)
    assert (result.cells, result.peers) == ([cell], ["torch"])
    values = [result.value(measure, cell, "torch") for measure in ("rate", "first", "cpu", "memory", "pss")]
    assert values == [pytest.approx(100), 0.2, pytest.approx(5), 3, 2]
    assert (result.epochs("python", "auto"), result.choices("python")) == ([2.0], ["x"])
    assert in_todays_format(result.stored) is result.stored


def test_guide_has_a_place_for_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of docs/migration.md, as it is now. Nothing is drawn."""
    monkeypatch.setattr(plot, "draw", lambda result, folder: [])
    guide = tmp_path / "migration.md"
    guide.write_text(plot.GUIDE.read_text(encoding="utf-8"), encoding="utf-8")
    plot.into_guide(result_with(), guide, tmp_path)
    written = guide.read_text(encoding="utf-8")
    assert all(part in written for part in guide_parts(result_with()).values())


def test_run_is_stored_with_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--require`` says which figures are missed; docs/ stays as it is. Nothing is measured here."""
    cases = [case for case in result_with().stored["cases"] if case["name"] == "32x1"]
    started = Started([], {"torch": {"torch": "2.0"}, "io": {"spdl": "1.0"}}, {})
    monkeypatch.setattr(running, "_measure", lambda *_: (started, cases))
    path = tmp_path / "result.json"
    assert running.run(CONTEST, ["--quick", "--cases", "32x1", "--require", "--json", str(path)]) == 1
    told = capsys.readouterr()
    assert "requirements not met: " in told.err
    assert "| torch.utils.data.DataLoader | 102 (100 to 104) |" in told.out
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert Result(stored).value("rate", Cell(32, 1), "torch") == pytest.approx(102)
    assert stored["environment"]["command"].startswith("python benchmarks/migration/run.py --quick")
    assert [figure["verdict"] for figure in stored["figures"]] == ["PASS", "NOT MEASURED"]


@pytest.mark.slow
@pytest.mark.allow_leaks(reason="matplotlib keeps its fonts open")
def test_pictures_are_small_and_the_same_each_time(tmp_path: Path) -> None:
    """SVG, whose text is text."""
    pytest.importorskip("matplotlib")
    first, second = (plot.draw(result_with(), tmp_path / name) for name in ("a", "b"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert "workers or threads" in one.read_text(encoding="utf-8")
        assert one.stat().st_size < 100_000


def test_without_matplotlib_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is measured."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert running.run(CONTEST, []) == 2
    assert plot.main(["result.json"]) == 2
    assert capsys.readouterr().err.count("pip install '.[bench]'") == 2


def test_turns_that_are_far_apart_ask_for_more() -> None:
    """By their throughput."""
    assert is_unsure({"wall_us": [100.0, 110.0]})
    assert not is_unsure({"wall_us": [100.0, 102.0]})


def test_samples_have_fewer_peers_than_batches() -> None:
    """Where no batch is made, those that only make batches take no part."""
    assert loaders_in(Cell(0, 1)) == ["torch", "threads"]
    assert loaders_in(Cell(32, 1)) == [loader.name for loader in LOADERS]


def test_required_figures_name_cases_that_exist() -> None:
    """A figure that can never be measured would never be missed."""
    names = {case.name for case in make_cases(Path(), False)}
    assert all(set(required.cases()) <= names for required in CONTEST.required)


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists those there are."""
    with pytest.raises(SystemExit):
        running.run(CONTEST, ["--cases", "33x1"])
    assert "there are: 0x1, " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        running.run(CONTEST, ["--peers", "nonesuch"])
    assert "there are: torch, drop-in, threads, frames, io, thread, process, auto" in capsys.readouterr().err


def test_watcher_sees_a_process() -> None:
    """Once at least; it does not count itself."""
    with Watcher() as watcher:
        pass
    assert watcher.peak >= watcher.pss_peak > 0 or not Path("/proc/self/smaps_rollup").exists()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_shared_memory_that_nobody_maps_counts_once_more() -> None:
    """While it is mapped it is in the proportional set size."""
    size = 1 << 20
    file = os.memfd_create("a-batch")
    try:
        os.write(file, bytes(size))
        assert memory_of_tree(os.getpid())[1] == size
        with mmap.mmap(file, size):
            assert memory_of_tree(os.getpid())[1] == 0
    finally:
        os.close(file)
