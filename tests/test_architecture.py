"""The map, and the pages beside the packages, name files that are there."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.tree

MAP = ROOT / "docs" / "architecture.md"
PAGES = [MAP, ROOT / "native/README.md", *sorted((ROOT / "src/spdl").rglob("README.md"))]


def files() -> list[str]:
    """Every source file, with a slash before the first folder."""
    folders = ("src", "native", "tests", "benchmarks", "scripts", "examples")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return ["/" + path.relative_to(ROOT).as_posix() for path in found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_name_files_that_exist(page: Path) -> None:
    """A name may be the end of a path, a pattern, or a template such as ``_<kind>.py``."""
    known = files()
    named = set(re.findall(r"`([\w/*.-]+\.(?:py|h|cpp))`", page.read_text(encoding="utf-8")))
    missing = sorted(name for name in named if not any(fnmatch(path, f"*/{name}") for path in known))
    assert not missing, f"{page.relative_to(ROOT)} names files that do not exist: {', '.join(missing)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_table_of_files_has_all_files(page: Path) -> None:
    """Of its package; so that what is added to the package is told there."""
    text = page.read_text(encoding="utf-8")
    if "| file | what it is |" not in text:
        pytest.skip("it has no table of files")
    modules = {path.name for path in page.parent.glob("*.py")} - {"__init__.py"}
    assert sorted(name for name in modules if name not in text) == []


def test_the_map_leads_to_every_page() -> None:
    """So that a reader of one package finds its page."""
    text = MAP.read_text(encoding="utf-8")
    assert [page.as_posix() for page in PAGES[1:] if f"](../{page.relative_to(ROOT)}" not in text] == []


def test_the_map_is_short() -> None:
    """What explains one part stands beside it."""
    assert len(MAP.read_text(encoding="utf-8").splitlines()) <= 200
