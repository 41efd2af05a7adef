"""``spdl report``: what it makes of which files, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from spdl._cli import main
from spdl.pipeline import PipelineBuilder


def saved(path: Path) -> str:
    pipeline = PipelineBuilder().add_source(range(3)).pipe(str, name="decode").add_sink().build()
    assert len(list(pipeline)) == 3
    pipeline.stats().to_json(path)
    return str(path)


def test_page_is_made_of_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the name of each; the name of the page is printed."""
    files = [saved(tmp_path / name) for name in ("rank0.json", "rank1.json")]
    page = tmp_path / "page.html"
    assert main(["report", *files, "-o", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    text = page.read_text(encoding="utf-8")
    assert [name in text for name in ("rank0.json", "rank1.json", "decode")] == [True] * 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a file of stats().to_json()"),
        ("[]", "has no entry 'spdl_stats'"),
        ('{"spdl_stats": 9}', "of version 9, and this spdl reads version 1"),
        ('{"spdl_stats": 1}', "is damaged"),
    ],
)
def test_other_files_are_refused(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the name of the file and why; nothing is written."""
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    assert main(["report", str(tmp_path / "x.json"), "-o", str(tmp_path / "page.html")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"spdl report: {tmp_path / 'x.json'} ")
    assert words in said
    assert not (tmp_path / "page.html").exists()


def test_damaged_files_do_not_crash_it(tmp_path: Path) -> None:
    """Whichever entry is missing or of another type."""
    whole = json.loads(Path(saved(tmp_path / "whole.json")).read_text(encoding="utf-8"))
    for key in whole:
        values: tuple[Any, ...] = (None, "x", -1, [[]])
        for value in () if key == "spdl_stats" else values:
            (tmp_path / "x.json").write_text(json.dumps({**whole, key: value}), encoding="utf-8")
            assert main(["report", str(tmp_path / "x.json"), "-o", str(tmp_path / "page.html")]) in (0, 1), (key, value)


def test_missing_file_and_unwritable_page_have_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """3 for what cannot be read, 1 for what cannot be written."""
    assert main(["report", str(tmp_path / "no.json")]) == 3
    assert main(["report", saved(tmp_path / "a.json"), "-o", str(tmp_path / "no" / "page.html")]) == 1
    assert capsys.readouterr().err.count("No such file or directory") == 2
