"""``spdl load`` from the outside: files in; counts, tables and exit codes out."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import spdl.io
from spdl._cli import main
from spdl._cli._report import Counts, Progress


@pytest.fixture
def photos(tmp_path: Path) -> Callable[..., Path]:
    """Make a folder with some images, of which the last few are corrupt."""

    def make(good: int, corrupt: int = 0) -> Path:
        folder = tmp_path / "photos"
        folder.mkdir()
        for index in range(good):
            Image.new("RGB", (40, 30), (index, 128, 200)).save(folder / f"{index:03d}.jpg")
        for index in range(good, good + corrupt):
            (folder / f"{index:03d}.jpg").write_bytes(b"this is no JPEG")
        return folder

    return make


def _json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    result = json.loads(capsys.readouterr().out)
    assert isinstance(result, dict)
    return result


def test_folder_comes_out_as_batches(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Every image is in one batch, and the JSON tells how it went, stage by stage."""
    folder = photos(10)
    assert main(["load", "--json", "--size", "16x8", "--batch-size", "4", "--threads", "2", str(folder)]) == 0
    result = _json(capsys)
    assert (result["status"], result["exit_code"]) == ("ok", 0)
    assert (result["num_files"], result["num_images"], result["num_batches"], result["num_failures"]) == (10, 10, 3, 0)
    assert (result["width"], result["height"], result["num_bytes"]) == (16, 8, 10 * 16 * 8 * 3)
    assert result["num_threads"] == 2
    assert result["elapsed"] > 0
    names = [stage["name"] for stage in result["stages"]]
    assert (names[0], names[2], names[-1]) == ("src", "load_batch", "sink")
    assert result["stages"][2]["num_calls"] == 3
    assert result["limiting_stage"] is None  # three batches are too few to tell


def test_no_batch_spans_two_epochs(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Five images in batches of two are three batches in each epoch."""
    assert main(["load", "--json", "--epochs", "3", "--batch-size", "2", "--size", "8", str(photos(5))]) == 0
    result = _json(capsys)
    assert (result["num_images"], result["num_batches"]) == (15, 9)


@pytest.mark.parametrize(("pix_fmt", "channels"), [("rgb24", 3), ("bgr24", 3), ("gray", 1)])
def test_pixel_formats(
    pix_fmt: str, channels: int, photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each format that is offered works."""
    assert main(["load", "--json", "--pix-fmt", pix_fmt, "--size", "8", str(photos(2))]) == 0
    assert _json(capsys)["num_bytes"] == 2 * 8 * 8 * channels


def test_text_has_table_and_verdict(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A person sees the numbers, a table of the stages, and which of them holds the pipeline back."""
    assert main(["load", "--size", "8", "--batch-size", "2", "--epochs", "3", str(photos(8))]) == 0
    out = capsys.readouterr().out
    assert out.startswith("24 images in 3 epochs in 12 batches of 2 x 8x8 rgb24: ")
    header = next(line for line in out.splitlines() if "calls" in line)
    assert header.split() == ["stage", "calls", "mean", "busy", "starved", "blocked", "queue", "fill"]
    assert "load_batch" in out
    assert "holds the pipeline back: " in out.splitlines()[-1]


def test_quiet_leaves_one_line(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """``--quiet`` shows neither progress nor table."""
    assert main(["load", "--quiet", "--size", "8", str(photos(3))]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert len(said.out.splitlines()) == 1


def test_corrupt_files_are_named_and_not_fatal(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A corrupt file costs itself only; the first few are named, and nothing else is said about them."""
    assert main(["load", "--size", "8", "--batch-size", "3", str(photos(4, corrupt=7))]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("4 images in ")
    assert "7 files could not be loaded:" in said.out
    assert "004.jpg: " in said.out
    assert "  and 2 more; --json names all" in said.out
    assert said.err == ""


def test_corrupt_files_are_all_in_json(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Each is listed once, with why and how many times."""
    folder = photos(3, corrupt=2)
    assert main(["load", "--json", "--epochs", "2", "--size", "8", str(folder)]) == 0
    result = _json(capsys)
    assert (result["num_images"], result["num_failures"]) == (6, 4)
    failures = sorted(result["failures"], key=lambda failure: str(failure["path"]))
    assert [failure["path"] for failure in failures] == [str(folder / "003.jpg"), str(folder / "004.jpg")]
    assert all(failure["times"] == 2 and failure["error"] for failure in failures)


def test_nothing_loadable_has_an_exit_code(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Images that are all corrupt are another matter than no images."""
    assert main(["load", "--json", "--size", "8", str(photos(0, corrupt=3))]) == 5
    result = _json(capsys)
    assert (result["status"], result["num_images"], result["num_batches"]) == ("nothing loaded", 0, 0)


def test_strict_ends_at_a_corrupt_file(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """``--strict`` ends the run, names the file and has its own exit code."""
    assert main(["load", "--strict", "--size", "8", "--epochs", "100", str(photos(3, corrupt=1))]) == 6
    out = capsys.readouterr().out
    assert out.startswith("ended by --strict after ")
    assert "003.jpg: " in out


def test_missing_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is not there: exit code 3 and its name."""
    assert main(["load", str(tmp_path / "nowhere")]) == 3
    assert "nowhere" in capsys.readouterr().err


def test_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without images: exit code 4."""
    assert main(["load", str(tmp_path)]) == 4
    assert "no image found" in capsys.readouterr().err


def test_other_formats_are_mentioned(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Images of unsupported formats are counted, in the text and in JSON."""
    folder = photos(1)
    (folder / "a.psd").touch()
    assert main(["load", "--size", "8", str(folder)]) == 0
    assert "ignored: 1 .psd" in capsys.readouterr().out
    assert main(["load", "--json", "--size", "8", str(folder)]) == 0
    assert _json(capsys)["unsupported"] == {".psd": 1}


def test_other_formats_are_loaded(photos: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """In one batch with JPEGs."""
    folder = photos(2)
    Image.new("RGB", (20, 10)).save(folder / "a.png")
    assert main(["load", "--json", "--size", "8", str(folder)]) == 0
    assert _json(capsys)["num_images"] == 3


def test_failure_of_the_pipeline_is_one_sentence(
    photos: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no file's fault ends the run with exit code 1 and its cause."""

    def broken(*args: object, **options: object) -> object:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(spdl.io, "load_image_batch", broken)
    assert main(["load", "--size", "8", str(photos(3))]) == 1
    said = capsys.readouterr()
    assert "the pipeline failed: OSError: the disk is on fire" in said.err
    assert said.out == ""


def test_interrupt_still_tells_how_far_it_came(
    photos: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while batches come out: exit code 130, with the result so far."""

    def interrupt(self: Progress, counts: Counts) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "update", interrupt)
    assert main(["load", "--json", "--epochs", "1000", "--batch-size", "2", "--size", "8", str(photos(4))]) == 130
    result = _json(capsys)
    assert (result["status"], result["num_images"]) == ("interrupted", 2)


@pytest.mark.slow
def test_interrupt_signal_ends_the_process(photos: Callable[..., Path]) -> None:
    """The signal itself, in a process of its own: it ends with 130 and without a traceback."""
    code = (
        "import signal, sys\nfrom spdl._cli import main\nfrom spdl._cli._report import Progress\n"
        # Shells start what runs in the background with the signal ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "Progress.update = lambda self, counts: print('ready', flush=True) if counts.batches == 1 else None\n"
        "sys.exit(main(['load', '--quiet', '--epochs', '10000000', '--size', '8', sys.argv[1]]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(photos(4))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert out.startswith("interrupted after ")
    assert err == ""


@pytest.mark.slow
def test_reader_that_went_away_is_no_traceback(photos: Callable[..., Path]) -> None:
    """``spdl load | head`` ends without a word when nobody reads the result."""
    read, write = os.pipe()
    os.close(read)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "spdl", "load", "--quiet", "--size", "8", str(photos(2))],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert (result.returncode, result.stderr) == (1, "")
