"""Finds the tests whose outcome may depend on when things happen, by what they use.

These are the tests that use sockets, signals or child processes, and those that use threads together with time: clocks,
timeouts, waiting for events. ``pytest -m timing`` selects them, and ``scripts/repeat`` repeats them.

A test uses the names in its own code and in all code of ``tests`` that it reaches: functions, classes and constants by
their names, fixtures by its arguments. What only the package itself uses does not count, except that a pipeline, a
loader or a store has threads.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

__all__ = ["is_timed", "mark"]

_ROOT: Final = Path(__file__).resolve().parents[2]

#: Any of these is enough: what happens in another process, or in the kernel.
_ALONE: Final = {
    "_interpreters",
    "forkserver",
    "http",
    "kill",
    "multiprocessing",
    "os.fork",
    "os.kill",
    "select",
    "signal",
    "socket",
    "socketserver",
    "subprocess",
}
_THREADS: Final = {
    "_thread",
    "asyncio",
    "concurrent",
    "queue",
    "spdl.dataloader",
    "spdl.pipeline",
    "spdl.ray",
    "spdl.remote",
    "threading",
}
_TIME: Final = {"await_event", "monotonic", "perf_counter", "sleep", "time", "wait"}
#: Not looked into: it runs the ffmpeg tool, which decodes a file and ends.
_LEFT_OUT: Final = _ROOT / "tests" / "support" / "media.py"
#: Parts of names that have to do with time.
_TIME_PARTS: Final = ("clock", "deadline", "interval", "timeout", "waits")


def mark(items: Iterable[pytest.Item]) -> None:
    """Put the mark ``timing`` on the tests whose outcome may depend on when things happen."""
    for item in items:
        if isinstance(item, pytest.Function) and is_timed(item.path, item.originalname):
            item.add_marker("timing")


@cache
def is_timed(path: Path, name: str) -> bool:
    """Return whether the test ``name`` in the file ``path`` uses threads and time, or other processes."""
    used = set[str]()
    seen = set[tuple[Path, str]]()
    todo = [(path, name)]
    while todo:
        place = todo.pop()
        if place not in seen:
            seen.add(place)
            for each in _reached(*place):
                if isinstance(each, str):
                    used.add(each)
                else:
                    todo.append(each)
    has_time = bool(used & _TIME) or any(part in each.lower() for each in used for part in _TIME_PARTS)
    return bool(used & _ALONE) or (has_time and bool(used & _THREADS))


class _Module(NamedTuple):
    """What a file of tests defines at its top level, and where its imported names come from."""

    definitions: dict[str, list[ast.AST]]
    imports: dict[str, tuple[str, str | None]]  # by name: the module and the name in it; ``None``: the module itself


@cache
def _reached(path: Path, name: str) -> list[str | tuple[Path, str]]:
    """Return what a definition uses: names, and places in other code of ``tests``."""
    module = _module(path)
    if name not in module.definitions:
        if name in module.imports:
            return list(_imported(*module.imports[name]))
        # A fixture may be in the conftest.py of a folder above.
        above = path.parent.parent if path.name == "conftest.py" else path.parent
        return [(above / "conftest.py", name)] if above.is_relative_to(_ROOT / "tests") else []
    found: list[str | tuple[Path, str]] = []
    for node in module.definitions[name]:
        for each in _names(node):
            first, _, _ = each.partition(".")
            if first in module.imports:
                found += _imported(*module.imports[first])
            elif each in module.definitions:
                found.append((path, each))
            found.append(each)
    return found


def _imported(module: str, name: str | None) -> Iterator[str | tuple[Path, str]]:
    parts = module.split(".")
    yield from (parts[0], ".".join(parts[:2]))
    if name is not None:
        yield name
        if parts[0] == "tests" and (path := _path_of(module)) not in (None, _LEFT_OUT):
            yield (path, name)


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names in a definition; those after a module's name with it."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
            if isinstance(each.value, ast.Name):
                yield f"{each.value.id}.{each.attr}"
        elif isinstance(each, ast.arg | ast.keyword) and each.arg is not None:
            yield each.arg
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier():
            yield each.value  # ``usefixtures("name")``, or an attribute that is patched
        elif isinstance(each, ast.ImportFrom | ast.Import):
            yield from (getattr(each, "module", None) or "", *(alias.name for alias in each.names))


@cache
def _module(path: Path) -> _Module:
    definitions: dict[str, list[ast.AST]] = {}
    imports: dict[str, tuple[str, str | None]] = {}
    body = ast.parse(path.read_bytes()).body if path.is_file() else []
    package = path.relative_to(_ROOT).with_suffix("").parts[:-1] if path.is_relative_to(_ROOT) else ()
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                imports[alias.asname or alias.name.partition(".")[0]] = (alias.name, None)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            source = ".".join((*above, *([node.module] if node.module else [])))
            for alias in node.names:
                imports[alias.asname or alias.name] = (source, alias.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for each in ast.walk(target):
                    if isinstance(each, ast.Name):
                        definitions.setdefault(each.id, []).append(node)
    return _Module(definitions, imports)


def _path_of(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)
