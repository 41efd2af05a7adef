"""The scripts behind the front door, as far as they can be tested without installing anything."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from tests.support.timeouts import TIMEOUT

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.tree

SCRIPTS = ROOT / "scripts"


def _loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def make_photos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """``scripts/make_photos.py``, with two noisy pictures in the place of the wallpapers."""
    module = _loaded("make_photos", monkeypatch)
    wallpapers = tmp_path / "wallpapers"
    wallpapers.mkdir()
    for name, size in (("a_by_nobody", (700, 600)), ("b_by_nobody", (520, 520))):
        Image.effect_noise(size, 60).save(wallpapers / f"{name}.jpg")
    monkeypatch.setattr(module, "WALLPAPERS", wallpapers)
    return module


def _run(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["make_photos.py", *words])
    code = module.main()
    assert isinstance(code, int)
    return code


@pytest.mark.slow
def test_photos_are_the_same_each_time(
    make_photos: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same arguments give the same files; a folder that is complete is left as it is."""
    for folder in ("one", "two"):
        assert _run(make_photos, monkeypatch, "--count", "5", str(tmp_path / folder)) == 0
    one, two = ([path.read_bytes() for path in sorted((tmp_path / name).rglob("*.jpg"))] for name in ("one", "two"))
    assert len(one) == 5
    assert one == two
    capsys.readouterr()
    assert _run(make_photos, monkeypatch, "--count", "5", str(tmp_path / "one")) == 0
    assert "made earlier" in capsys.readouterr().out


@pytest.mark.slow
def test_photos_of_another_recipe_are_replaced(
    make_photos: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder with files missing, or of another count, is made anew; nothing else is left beside it."""
    folder = tmp_path / "photos" / "set"
    _run(make_photos, monkeypatch, "--count", "2", str(folder))
    _run(make_photos, monkeypatch, "--count", "3", str(folder))
    assert len(list(folder.rglob("*.jpg"))) == 3
    next(folder.rglob("*.jpg")).unlink()
    _run(make_photos, monkeypatch, "--count", "3", str(folder))
    assert len(list(folder.rglob("*.jpg"))) == 3
    assert os.listdir(folder.parent) == ["set"]


def test_photos_never_replace_a_folder_of_somebody_else(
    make_photos: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that the script did not make is left alone."""
    (tmp_path / "mine").mkdir()
    assert _run(make_photos, monkeypatch, "--count", "2", str(tmp_path / "mine")) == 1
    assert "was not made by this script" in capsys.readouterr().err


def test_no_photographs_is_one_sentence(
    make_photos: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without photographs the script says what to install."""
    monkeypatch.setattr(make_photos, "WALLPAPERS", tmp_path / "nowhere")
    monkeypatch.setattr(make_photos, "SHIPPED", {})
    assert _run(make_photos, monkeypatch, str(tmp_path / "photos")) == 1
    assert "install Debian's lomiri-wallpapers-16.04" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["nonsense"]])
def test_setup_says_what_it_takes(words: list[str]) -> None:
    """A wrong purpose changes nothing and exits with 2."""
    result = subprocess.run([SCRIPTS / "setup", *words], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (result.returncode, result.stderr) == (
        2,
        "usage: scripts/setup check|test|soak|coverage|demo|bench|docs|wheel|pythons\n",
    )


def test_pythons_names_a_wheel_that_is_not_there() -> None:
    """Nothing is set up for it."""
    command = [str(SCRIPTS / "pythons"), "--wheel", "nowhere.whl", "--only", "3.12"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (result.returncode, result.stderr) == (2, "pythons: there is no wheel nowhere.whl\n")


@pytest.mark.parametrize("name", ["SOAK_MINUTES", "SOAK_SEED"])
def test_soak_says_what_it_takes(name: str) -> None:
    """A time or a seed that is no number starts nothing and exits with 2."""
    result = subprocess.run(
        [SCRIPTS / "soak"],
        env={**os.environ, name: "long"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr == "soak: SOAK_MINUTES and SOAK_SEED must be whole numbers, got 'long'\n"


def test_make_names_only_scripts_that_are_there() -> None:
    """Each target of the Makefile but ``help`` and ``clean`` is one executable script."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^\t@(scripts/\S+)$", text, flags=re.MULTILINE)
    targets = set(text.partition(".PHONY:")[2].partition("\n")[0].split()) - {"help", "clean"}
    assert len(named) == len(targets) >= 6
    assert [name for name in named if not os.access(ROOT / name, os.X_OK)] == []


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``scripts/measure_coverage.py``."""
    return _loaded("measure_coverage", monkeypatch)


def test_coverage_is_added_up_by_package(measuring: ModuleType) -> None:
    """A line for each package and one for each language; single modules are those of ``spdl``."""
    python = {
        "src/spdl/io/_a.py": measuring.Covered(10, 5, 4, 1),
        "src/spdl/io/_images/_b.py": measuring.Covered(10, 10, 0, 0),
        "src/spdl/_numbers.py": measuring.Covered(4, 3, 0, 0),
    }
    native = {"native/jpeg/load.cpp": measuring.Covered(3, 3, 2, 2)}
    assert [line.split() for line in measuring.table(measuring.Report(python, native)).splitlines()] == [
        ["lines", "branches"],
        ["spdl", "75.0", "%", "3/4", "-", "0/0"],
        ["spdl.io", "75.0", "%", "15/20", "25.0", "%", "1/4"],
        ["Python", "75.0", "%", "18/24", "25.0", "%", "1/4"],
        [],
        ["native/jpeg", "100.0", "%", "3/3", "100.0", "%", "2/2"],
        ["native", "100.0", "%", "3/3", "100.0", "%", "2/2"],
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_tree_is_copied_as_it_is_now(measuring: ModuleType, tmp_path: Path) -> None:
    """Files that git does not ignore; those that have not changed are not written again, others are removed."""
    tree, copy, record = tmp_path / "tree", tmp_path / "copy", tmp_path / "copied.json"
    (tree / "src").mkdir(parents=True)
    for name, text in ((".gitignore", "*.so\n"), ("src/kept.py", "1"), ("src/old.py", "1"), ("src/lib.so", "1")):
        (tree / name).write_text(text)
    subprocess.run(["git", "init", "--quiet", tree], check=True)
    measuring.copy_tree(tree, copy, record)
    os.utime(copy / "src" / "kept.py", (1, 1))
    (tree / "src" / "old.py").unlink()
    (tree / "src" / "new.py").write_text("2")
    measuring.copy_tree(tree, copy, record)
    assert sorted(path.name for path in copy.rglob("*") if path.is_file()) == [".gitignore", "kept.py", "new.py"]
    assert (copy / "src" / "kept.py").stat().st_mtime == 1


def test_coverage_refuses_what_is_no_checkout(
    measuring: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says which folder it was given, and does nothing."""
    with pytest.raises(SystemExit):
        measuring.main(["--tree", str(tmp_path)])
    assert f"{tmp_path} is no checkout of SPDL" in capsys.readouterr().err
