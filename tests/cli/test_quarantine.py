"""``spdl quarantine``: show, retry, exclude."""

from pathlib import Path
from typing import Any

import pytest

from spdl._cli import ExitCode, main
from spdl.pipeline import read_quarantine
from tests.support.running import build_of, run

MODULE = """
def load(key):
    if key in ("b.jpg", 7):
        raise OSError(f"still no {key}")
    return None

not_callable = 3

class Loader:
    def load(self, key):
        return key

loader = Loader()
"""


def refuse(item: Any) -> Any:
    if item == "good":
        return item
    if item == "a.jpg":
        raise ValueError("not an image\nat all")
    raise OSError(f"cannot read {item}")


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.jsonl"
    items = ["a.jpg", "b.jpg", "good", 7, "c.jpg", "b.jpg"]
    run(build_of(items, lambda b: b.pipe(refuse, name="decode")), quarantine=path)

    def collate(batch: list[Any]) -> list[Any]:
        if 1 in batch:
            raise KeyError("size")
        return batch

    run(build_of(range(4), lambda b: b.aggregate(2), lambda b: b.pipe(collate)), quarantine=path)
    return str(path)


def test_show_counts_by_stage_and_error(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the newest of each, in lines of at most 100 characters."""
    assert main(["quarantine", "show", bad]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["failures", "stage", "error", "newest"]
    assert lines[1].split(maxsplit=3) == ["4", "decode", "OSError", "b.jpg: cannot read b.jpg"]
    assert lines[2].split(maxsplit=3)[:3] == ["1", "collate", "KeyError"]
    assert lines[3].split(maxsplit=3) == ["1", "decode", "ValueError", "a.jpg: not an image at all"]
    assert lines[4] == "6 failures, 4 different keys, 1 whole batches"
    assert max(map(len, lines)) <= 100


def test_show_of_an_empty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says so."""
    (tmp_path / "bad.jsonl").touch()
    assert main(["quarantine", "show", str(tmp_path / "bad.jsonl")]) == ExitCode.OK
    assert "no failed items" in capsys.readouterr().out


def test_exclude_lists_keys(bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each once; of a stage or an error alone; to a file."""
    assert main(["quarantine", "exclude", bad]) == ExitCode.OK
    output = capsys.readouterr()
    assert output.out.splitlines() == ["a.jpg", "b.jpg", "7", "c.jpg"]
    assert "1 failures without a key" in output.err
    assert main(["quarantine", "exclude", bad, "--error", "ValueError"]) == ExitCode.OK
    assert capsys.readouterr().out == "a.jpg\n"
    out = tmp_path / "keys.txt"
    assert main(["quarantine", "exclude", bad, "--stage", "decode", "--out", str(out)]) == ExitCode.OK
    assert out.read_text().splitlines() == ["a.jpg", "b.jpg", "7", "c.jpg"]
    assert main(["quarantine", "exclude", bad, "--out", str(tmp_path / "no" / "keys")]) == ExitCode.FAILED


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"retry_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_retry_says_what_succeeds_now(
    bad: str, module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines of what still fails can be kept."""
    out = tmp_path / "still.jsonl"
    assert main(["quarantine", "retry", bad, f"{module}:load", "-j", "2", "--out", str(out)]) == ExitCode.FAILED
    *lines, last = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [
        "fails  7: OSError: still no 7",
        "fails  b.jpg: OSError: still no b.jpg",
        "ok     a.jpg",
        "ok     c.jpg",
    ]
    assert last == "2 of 4 succeed now, 2 still fail"
    assert [line.keys for line in read_quarantine(out)] == [("b.jpg",), (7,), ("b.jpg",), (0, 1)]
    assert main(["quarantine", "retry", bad, f"{module}:loader.load"]) == ExitCode.OK
    assert "4 of 4 succeed now, 0 still fail" in capsys.readouterr().out


@pytest.mark.parametrize("op", ["load", "{}:missing", "missing_module:load", "{}:not_callable", ":load", "{}:"])
def test_what_is_no_function_is_refused(bad: str, module: str, op: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what it should be."""
    assert main(["quarantine", "retry", bad, op.format(module)]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("spdl quarantine: ")


def test_a_module_that_fails_while_it_is_imported(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the module and its error."""
    (tmp_path / "quarantined_typo.py").write_text("load = undefined\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["quarantine", "retry", bad, "quarantined_typo:load"]) == ExitCode.USAGE
    assert "cannot import quarantined_typo: NameError: name 'undefined'" in capsys.readouterr().err


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and an exit code of its own."""
    for action in ("show", "exclude"):
        assert main(["quarantine", action, str(tmp_path / "missing")]) == ExitCode.PATH_UNREADABLE
    assert "cannot read" in capsys.readouterr().err
    assert main(["quarantine"]) == ExitCode.USAGE
