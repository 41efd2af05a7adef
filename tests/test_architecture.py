"""docs/architecture.md names files that are there."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.tree

PAGE = ROOT / "docs" / "architecture.md"


def files() -> list[str]:
    """Every source file, with a slash before the first folder."""
    folders = ("src", "native", "tests", "benchmarks", "scripts", "examples")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return ["/" + path.relative_to(ROOT).as_posix() for path in found]


def test_the_architecture_page_names_files_that_exist() -> None:
    """A name may be the end of a path, a pattern, or a template such as ``_<kind>.py``."""
    known = files()
    named = set(re.findall(r"`([\w/*.-]+\.(?:py|h|cpp))`", PAGE.read_text(encoding="utf-8")))
    assert named
    missing = sorted(name for name in named if not any(fnmatch(path, f"*/{name}") for path in known))
    assert not missing, f"docs/architecture.md names files that do not exist: {', '.join(missing)}"
