"""``docs/reference/additions.md`` lists what is public here and not in SPDL 0.8: all of it, and nothing else."""

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from .test_package import PRESENT

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "reference" / "additions.md"
#: Parameters by module, name and method; the empty method is the name itself.
KNOWN: dict[str, dict[str, dict[str, list[str]]]] = json.loads(
    (TESTS / "golden" / "spdl_0_8_names.json").read_text(encoding="utf-8")
)["names"]


def section(title: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    return re.split(r"^## ", text.split(f"## {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def rows(title: str) -> list[tuple[list[str], list[str]]]:
    """What is in code type in both columns of a table."""
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [tuple(re.findall(r"`([^`]+)`", cell) for cell in line.split(" | ", 1)) for line in lines]  # type: ignore[misc]


def find(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return getattr(find(module), name)


@pytest.mark.parametrize("module", PRESENT)
def test_names_are_listed(module: str) -> None:
    """Whoever adds a public name adds it to the page."""
    ours = {name for name in importlib.import_module(module).__all__ if name not in KNOWN.get(module, {})}
    listed = {name for (first, *_), names in rows("Names") if first == module for name in names if name.isidentifier()}
    listed -= {"spdl"}  # a command, in a link
    if module != "spdl":  # its version is all it has
        assert ours == listed, f"of {module}: add to docs/reference/additions.md, or remove from it"


def parameters_of(thing: Any) -> set[str]:
    """Those that can be passed by name."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return set()
    by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return {parameter.name for parameter in parameters if parameter.kind in by_name}


def test_arguments_are_listed() -> None:
    """Of functions and methods that both have."""
    ours = set()
    for module, names in KNOWN.items():
        for name, methods in names.items():
            thing = getattr(importlib.import_module(module), name, None)
            for method, known in methods.items():
                found = getattr(thing, method, None) if method else thing
                if found is None or inspect.isclass(found) or {"args", "kwargs"} & set(known):
                    continue
                if str(getattr(found, "__module__", "")).startswith("concurrent."):  # inherited: of this Python
                    continue
                path = ".".join(filter(None, (module, name, method)))
                ours |= {f"{path}({parameter}=)" for parameter in parameters_of(found) - set(known)}
    assert ours == {each for first, _ in rows("Arguments") for each in first}


def test_attributes_are_there() -> None:
    """As far as the page promises."""
    for owners, names in rows("Attributes and methods"):
        for owner in owners:
            assert [name for name in names if not hasattr(find(owner), name)] == [], owner


def test_what_is_there_in_name_only_is_there() -> None:
    """Nothing on the page is a slip of the pen."""
    named = re.findall(r"`([a-z0-9_]+)`", section("What is there in name only"))
    assert len(named) == 7
    assert [name for name in named if not hasattr(importlib.import_module("spdl.io"), name)] == []
