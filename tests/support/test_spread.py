"""How a run is spread over processes."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.spread import import_share, long_first

_MODULE = "import pathlib\npathlib.Path(__file__).with_suffix('.seen').touch()\n"


class Named:
    """A test, as far as order goes: a capital letter is a slow one, a digit one that needs Ray."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_closest_marker(self, name: str) -> bool | None:
        return True if {"slow": self.name.isupper, "ray": self.name.isdigit}[name]() else None


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Makes what pytest knows in process ``index`` of ``count``."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(index: int = 0, count: int = 1, *words: str) -> Any:
        given = {"workerinput": {"workerid": f"gw{index}", "workercount": count}} if count > 1 else {}
        return SimpleNamespace(rootpath=tmp_path, args=words, **given)

    yield make
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(module)]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("names", "count", "arranged"),
    [
        *[("abCDef", 1, "abCDef"), ("abCDef", 2, "CabDef"), ("aBcdeFG", 3, "BaFcGde"), ("ABC", 2, "ABC")],
        *[("ab", 4, "ab"), ("a1bC2d", 2, "abd12C"), ("12a", 2, "a12"), ("1a2b", 1, "1a2b")],
    ],
)
def test_each_process_begins_with_slow_tests(
    names: str, count: int, arranged: str, configured: Callable[..., Any]
) -> None:
    """As many as the others; what is slow or not keeps its order, and one process keeps all of it."""
    items: list[Any] = [Named(name) for name in names]
    long_first(configured(0, count), items)
    assert "".join(item.name for item in items) == arranged


def test_each_process_imports_its_share_of_new_modules(
    configured: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of folders and single files; what fails or is skipped is left to the collection."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    folder = tmp_path / "of_spread"
    folder.mkdir()
    for name in ("__init__", "test_a", "test_b", "test_c", "other"):
        (folder / f"{name}.py").write_text(_MODULE)
    (folder / "test_d.py").write_text("1 / 0")
    (folder / "test_e.py").write_text("import pytest; pytest.importorskip('nonesuch')")
    (tmp_path / "test_of_spread.py").write_text(_MODULE)

    def seen() -> list[str]:
        return sorted(path.stem for path in tmp_path.rglob("*.seen") if path.stem != "__init__")

    words = "of_spread", "test_of_spread.py::test_one"
    for index, expected in (0, ["test_a", "test_c"]), (1, ["test_a", "test_b", "test_c", "test_of_spread"]):
        import_share(SimpleNamespace(config=configured(index, 2, *words)))  # type: ignore[arg-type]
        assert seen() == expected


def test_one_process_imports_nothing_beforehand(configured: Callable[..., Any], tmp_path: Path) -> None:
    """It would only do the same in another order."""
    (tmp_path / "test_alone.py").write_text(_MODULE)
    import_share(SimpleNamespace(config=configured(0, 1, "test_alone.py")))  # type: ignore[arg-type]
    assert not (tmp_path / "test_alone.seen").exists()
