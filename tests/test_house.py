"""The bounds of the house: how many files there are and how long files and functions may be.

``scripts/measure_tree.py`` counts, and prints what is over a bound. What tests reach into may only become less: where a
public way exists, use it, and lower the number here.
"""

import runpy
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.tree

ROOT = Path(__file__).resolve().parent.parent
COUNTING: dict[str, Any] = runpy.run_path(str(ROOT / "scripts/measure_tree.py"))
MOST = {
    "files": 400,
    "files under 40 lines": 32,
    "files over 500 lines": 0,
    "functions over 60 lines": 0,
    "test files that import private modules": 157,
    "attributes that tests replace": 187,
}


def test_the_tree_keeps_its_bounds() -> None:
    """One concept a file, and no file or function that holds two."""
    found = COUNTING["measure"](ROOT)
    assert {name: found[name] for name, most in MOST.items() if found[name] > most} == {}


def test_what_is_counted(tmp_path: Path) -> None:
    """A tree of five modules, counted by hand."""
    package = tmp_path / "src" / "spdl"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "_a.py").write_text("from . import _b\n")
    (package / "_b.py").write_text("def late():\n    from ._a import name\n    return name\n")
    (package / "_c.py").write_text('def long():\n    """Doc."""\n' + "    x = 1\n" * 61)
    inner = "def whole():\n    def part():\n" + "        x = 1\n" * 40 + "    return part\n"
    (package / "_d.py").write_text(inner + "x = 1\n" * 460)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text("from spdl._a import name\nimport spdl.io\n")
    (tests / "test_b.py").write_text(
        "from spdl.io import load\ndef test(monkeypatch):\n    monkeypatch.setattr(load, 'x', 1)\n"
    )
    assert COUNTING["measure"](tmp_path) == {
        "lines of Python in src": 0 + 1 + 3 + 63 + 503,
        "files": 5,
        "files under 40 lines": 3,
        "files over 500 lines": 1,
        "functions over 60 lines": 1,
        "import circles": 1,
        "test files that import private modules": 1,
        "attributes that tests replace": 1,
    }
    assert COUNTING["circles"](tmp_path) == [["spdl._a", "spdl._b"]]
