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

from benchmarks.migration import _main, plot
from benchmarks.migration._cases import BATCHES, CELLS, PEERS, WORKERS, Cell, cell_named, peers_in
from benchmarks.migration._figures import figures_of
from benchmarks.migration._forked import in_child
from benchmarks.migration._main import main
from benchmarks.migration._measure import OutputMismatch, check_samples, compare, is_unsure, likeness_to, worker
from benchmarks.migration._memory import Watcher, memory_of_tree
from benchmarks.migration._photos import Photos
from benchmarks.migration._report import guide_parts, page
from benchmarks.migration._result import Result


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
    """A made up result: the last step twice as fast as torch in two cells of one worker."""

    def cell(batch: int, workers: int) -> dict[str, Any]:
        turns = {
            name: [{"wall": 1.0, "cpu": 0.5, "images": speed * (100 + step), "first": 1 / speed} for step in (0, 2, 4)]
            for name, speed in (("torch", 1), ("io", 2))
        }
        memory = {
            "torch": {"before": 1, "peak": 2_000_000, "pss_peak": 1_000_000},
            "io": {"before": 1, "peak": 1_000_000 + batch, "pss_peak": 1_100_000},
        }
        return {"batch": batch, "workers": workers, "turns": turns, "memory": memory}

    stored = {
        "environment": {
            "python": "CPython 3.11", "cpu": "a processor", "cores": 2, "os": "Linux", "date": "2026-01-01T00:00",
            "revision": "abc", "command": "python run.py",
        },
        "peers": {"torch": {"torch": "2.0"}, "io": {"spdl": "1.0"}},
        "missing": {},
        "cells": [cell(batch, workers) for batch in BATCHES for workers in WORKERS],
        "auto": {
            "photographs": {"thread": [{"wall": 1.0}], "process": [{"wall": 2.0}],
                            "auto": [{"wall": 1.25, "choice": "workers='thread', for it was faster"}]},
        },
    }  # fmt: skip
    return Result(stored | changes)


needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


@pytest.fixture(scope="module")
def clients() -> Iterator[list[Any]]:
    """The steps of the study, each in a process that has imported what it needs."""
    with ExitStack() as stack:
        yield [stack.enter_context(worker(peer.name)) for peer in PEERS]


@pytest.mark.slow
@needs_torch
def test_steps_give_what_torch_gives(clients: list[Any], photos: list[str]) -> None:
    """Labels and sizes, and pixels as near as their rows say."""
    likeness = compare(clients, photos)
    assert {name for name, given in likeness.items() if given is None} == {"torch", "drop-in", "threads"}


@pytest.mark.slow
@needs_torch
def test_steps_can_be_timed(clients: list[Any], photos: list[str]) -> None:
    """Each tells how many images, and how long the first batch and all took."""
    for client in clients:
        turn = client.ask("time", paths=photos, batch=4, workers=2, seconds=0.0)
        assert (turn["images"] % 8, turn["first"] > 0, turn["wall"] > 0) == (0, True, True)


@pytest.mark.slow
@needs_torch
def test_memory_of_a_step_is_watched(clients: list[Any], photos: list[str]) -> None:
    """From another process, while it runs."""
    with Watcher(clients[-1].ask("pid")) as watcher:
        clients[-1].ask("run", paths=photos, batch=4, workers=2, seconds=0.0)
    assert watcher.peak > 1_000_000 or not Path("/proc/self/smaps_rollup").exists()


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
    check_samples("x", cell, given, photos)
    for wrong, message in (
        ({"labels": 1 - given["labels"]}, "other labels"),
        ({"images": given["images"][:, :, :-1]}, "not uint8 of"),
        ({"sizes": np.array([16, 16])}, r"batches of \[16, 16\]"),
    ):
        with pytest.raises(OutputMismatch, match=message):
            check_samples("x", cell, given | wrong, photos)
    other = given | {"images": given["images"] + np.uint8(8)}
    assert likeness_to(given, given, "x", None) is None
    assert likeness_to(given, other, "x", 28.0) == pytest.approx(30.07, abs=0.01)
    for least_psnr, message in ((None, "other pixels"), (40.0, "30.1 dB")):
        with pytest.raises(OutputMismatch, match=message):
            likeness_to(given, other, "x", least_psnr)


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
    assert "NOT MEASURED" in {figure.verdict for figure in figures_of(result_with(cells=[]))}


def test_page_shows_what_was_measured() -> None:
    """Medians with the least and the greatest value, and what was chosen."""
    text = page(result_with())
    assert "| step 3: load_image_batch | 204 (200 to 208) |" in text
    assert "for it was faster" in text
    assert "a processor, 2 cores" in text
    assert "1.10 with 1, 1.10 with 2" in guide_parts(result_with())["memory"]


def test_guide_has_a_place_for_each_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of docs/migration.md, as it is now. Nothing is drawn."""
    monkeypatch.setattr(plot, "draw", lambda result, folder: [])
    guide = tmp_path / "migration.md"
    guide.write_text(plot.GUIDE.read_text(encoding="utf-8"), encoding="utf-8")
    plot.into_guide(result_with(), guide, tmp_path)
    written = guide.read_text(encoding="utf-8")
    assert all(part in written for part in guide_parts(result_with()).values())


def test_run_is_stored_with_its_environment(
    photos: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--require`` says which figures are missed; docs/ stays as it is. Nothing is measured here."""
    turns = {"torch": [{"wall": 1.0, "cpu": 1.0, "images": 64, "first": 1.0}]}
    monkeypatch.setattr(_main, "_photographs", lambda count: photos)
    monkeypatch.setattr(_main, "_start", lambda stack, names: ([], {"torch": {"torch": "2.0"}}, {}))
    monkeypatch.setattr(_main, "compare", lambda clients, paths: {"torch": None})
    monkeypatch.setattr(_main, "measure_cells", lambda clients, cells, *_: dict.fromkeys(cells, turns))
    monkeypatch.setattr(_main, "measure_memory", lambda *_: {})
    path = tmp_path / "result.json"
    assert main(["--quick", "--cells", "32x1", "--require", "--json", str(path)]) == 1
    said = capsys.readouterr()
    assert "requirements not met: throughput" in said.err
    assert "| torch.utils.data.DataLoader | 64 (64 to 64) |" in said.out
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert Result(stored).value("rate", Cell(32, 1), "torch") == 64
    assert stored["environment"]["command"].startswith("python benchmarks/migration/run.py --quick")
    assert [figure["verdict"] for figure in stored["figures"]] == ["NOT MEASURED"] * len(stored["figures"])


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
    assert main([]) == 2
    assert plot.main(["result.json"]) == 2
    assert capsys.readouterr().err.count("pip install '.[bench]'") == 2


def test_turns_that_are_far_apart_ask_for_more() -> None:
    """By their throughput."""
    assert is_unsure([{"images": 100, "wall": 1.0}, {"images": 110, "wall": 1.0}])
    assert not is_unsure([{"images": 100, "wall": 1.0}, {"images": 102, "wall": 1.0}])


def test_samples_have_fewer_peers_than_batches() -> None:
    """Where no batch is made, those that only make batches take no part."""
    names = [peer.name for peer in PEERS]
    assert peers_in(Cell(0, 1), names) == ["torch", "threads"]
    assert peers_in(Cell(32, 1), names) == names


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists those there are."""
    assert [cell_named(cell.name) for cell in CELLS] == list(CELLS)
    with pytest.raises(SystemExit):
        main(["--cells", "33x1"])
    assert "from 0x1 to 256x8" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--peers", "nonesuch"])
    assert "there are: torch, drop-in, threads, frames, io" in capsys.readouterr().err


def test_watcher_sees_a_process() -> None:
    """Once at least."""
    with Watcher(os.getpid()) as watcher:
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
