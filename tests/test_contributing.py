"""What contributors are given: the workflow of continuous integration, and the script that makes a release."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.tree

ROOT = Path(__file__).resolve().parent.parent
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _git(folder: Path, *arguments: str) -> str:
    author = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    done = _run(folder, "git", *author, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean clone of what is tracked here, with its own history, and with the changes that are not committed yet."""
    folder = tmp_path_factory.mktemp("contributing") / "clone"
    listed = _run(ROOT, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed.returncode:
        pytest.skip("this tree is no clone")
    for name in listed.stdout.split("\0"):
        if (
            name
            and (ROOT / name).is_file()
            and name.startswith(("docs/", "scripts/", ".git", "Makefile", "CHANGE", "pyproj"))
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    _git(folder, "init", "--quiet", "--initial-branch", "main")
    _git(folder, "config", "user.name", "nobody")
    _git(folder, "config", "user.email", "nobody@example.org")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "begin")
    return folder


def test_each_step_of_the_workflow_is_one_target() -> None:
    """And so runs on any machine; only what a bare container lacks comes before."""
    steps = re.findall(r"- run: (.*)", WORKFLOW)
    assert "run: |" not in WORKFLOW
    assert set(steps) == {
        "apt-get update && apt-get install --yes git make",
        "make check",
        "make test",
        "make wheel",
        "make docs",
    }


def test_each_step_is_known_to_make(tree: Path) -> None:
    """In a clean clone."""
    for step in re.findall(r"- run: make (\w+)", WORKFLOW):
        done = _run(tree, "make", "--dry-run", step)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"scripts/{'wheels' if step == 'wheel' else step}\n"
        assert (tree / done.stdout.strip()).is_file()


def test_the_workflow_has_every_python_that_is_promised() -> None:
    """In the project's classifiers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)]
    matrix = re.search(r"python: \[(.*)\]", WORKFLOW)
    assert matrix is not None
    assert re.findall(r'"([\d.]+)"', matrix[1]) == promised


def test_quick_names_files_that_exist() -> None:
    """Pytest would say that it found none."""
    listed = re.search(r"^files=\(\n(.*?)^\)", (ROOT / "scripts/quick").read_text(encoding="utf-8"), re.M | re.S)
    assert listed is not None
    assert [path for path in listed[1].split() if not (ROOT / "tests" / path).exists()] == []


def test_a_release_is_a_commit_and_a_tag(tree: Path) -> None:
    """With the version in the project's file, and the changes in the changelog and nowhere else."""
    (tree / "docs/changelog.d/a-thing.added.md").write_text("A thing, see [it](../guides/it.md).\n", encoding="utf-8")
    _git(tree, "add", "--all")
    _git(tree, "commit", "--quiet", "--message", "add a thing")
    done = _run(tree, "scripts/release", "7.0.0", "--skip-checks")
    assert done.returncode == 0, done.stderr
    assert _git(tree, "status", "--porcelain") == ""
    assert _git(tree, "describe", "--tags") == "v7.0.0"
    assert 'version = "7.0.0"' in (tree / "pyproject.toml").read_text(encoding="utf-8")
    assert [path.name for path in (tree / "docs/changelog.d").iterdir()] == ["README.md"]
    changelog = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    section = changelog[changelog.index("## 7.0.0, ") :]
    assert "### Added\n\n- A thing, see [it](docs/guides/it.md)." in section
    assert section.index("A thing") < section.index("## 0.9.0")
    assert _run(tree, "scripts/release", "7.0.1", "--skip-checks").returncode == 0


@pytest.mark.parametrize("version", ["1.0", "v9.0.0", "6.9.9", "7.0.0rc1"])
def test_a_version_that_is_not_above_the_last_is_refused(tree: Path, version: str) -> None:
    """Before anything is changed."""
    if not _git(tree, "tag"):
        _git(tree, "tag", "v7.0.0")
    done = _run(tree, "scripts/release", version, "--skip-checks")
    assert done.returncode == 1
    assert version in done.stderr
    assert _git(tree, "status", "--porcelain") == ""


def test_a_changed_tree_is_refused(tree: Path) -> None:
    """The release would not be what was tested."""
    (tree / "new.txt").write_text("new")
    done = _run(tree, "scripts/release", "8.0.0", "--skip-checks")
    (tree / "new.txt").unlink()
    assert (done.returncode, "new.txt" in done.stderr) == (1, True)


def test_the_text_that_waits_for_a_release_becomes_its_section(tree: Path) -> None:
    """With the day; nothing of it stays behind."""
    path = tree / "CHANGELOG.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(
        "# Changes\n\n## 9.0.0, not released yet\n\nIt is new.\n\n" + text.partition("\n## ")[2], encoding="utf-8"
    )
    _git(tree, "commit", "--all", "--quiet", "--message", "wait")
    assert _run(tree, "scripts/release", "9.0.0", "--skip-checks").returncode == 0
    text = path.read_text(encoding="utf-8")
    assert re.search(r"## 9\.0\.0, 20\d\d-\d\d-\d\d\n\nIt is new\.\n", text)
    assert "9.0.0, not released yet" not in text


def test_a_check_that_fails_leaves_the_tree_as_it_was(tree: Path) -> None:
    """And no tag."""
    (tree / "scripts/check").write_text("#!/bin/sh\nexit 3\n")
    _git(tree, "commit", "--all", "--quiet", "--message", "break the check")
    tags = _git(tree, "tag")
    done = _run(tree, "scripts/release", "10.0.0")
    assert done.returncode == 1
    assert "`make check` failed" in done.stderr
    assert (_git(tree, "status", "--porcelain"), _git(tree, "tag")) == ("", tags)
