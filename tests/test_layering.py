"""The arrows of the architecture: which package may import which, and which header may include which.

The tables of ``layers.py`` state the rules; the tests only read the code. An import inside a function, or for the type
checker alone, is as much an arrow as one at the top, except where ``lazily`` allows it: it closes no cycle at import
time.
"""

import ast
import re
import runpy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from tests.layers import (
    DIVIDED,
    ENGINE,
    ENGINE_ROWS,
    FORBIDDEN,
    INCLUDES,
    LOADS_EXTENSIONS,
    LONGEST_CIRCLE,
    ON_USE,
    OPEN,
    RULES,
    Rule,
)

pytestmark = pytest.mark.tree

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
NATIVE = ROOT / "native"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One import statement of a module, resolved to the module that is imported."""

    importer: str
    imported: str
    line: int
    is_late: bool  #: inside a function, or for the type checker alone

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted((SRC / "spdl").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def _arrows(importer: str, path: Path) -> Iterator[Arrow]:
    package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]

    def visit(node: ast.AST, is_late: bool) -> Iterator[Arrow]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Arrow(importer, alias.name, node.lineno, is_late)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                # `from package import name`: the arrow goes to the module of that name, if it is one.
                whole = f"{base}.{alias.name}"
                yield Arrow(importer, whole if whole in MODULES else base, node.lineno, is_late)
        is_late = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for child in ast.iter_child_nodes(node):
            yield from visit(child, is_late or for_types)

    yield from visit(ast.parse(path.read_text(encoding="utf-8"), str(path)), False)


@cache
def _all_arrows() -> list[Arrow]:
    return [arrow for name, path in MODULES.items() for arrow in _arrows(name, path)]


def _below(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def _is_built(module: str) -> bool:
    return any(_below(module, folder) for folder in LOADS_EXTENSIONS)


def _rule_of(module: str) -> Rule:
    return max((rule for rule in RULES if _below(module, rule.of)), key=lambda rule: len(rule.of))


def _breaks(arrow: Arrow) -> bool:
    if not _below(arrow.imported, "spdl") or arrow.imported in OPEN:
        return False
    rule = _rule_of(arrow.importer)
    allowed = (rule.of, *rule.allows, *(rule.lazily if arrow.is_late else ()))
    # The rule of `spdl` is for its own __init__ only; each package below has one of its own.
    if rule.of == "spdl":
        allowed = (*rule.allows, *(rule.lazily if arrow.is_late else ()))
    return not any(_below(arrow.imported, package) for package in allowed)


def _row(arrow: Arrow) -> str:
    """What ``layers.py`` would have to say, if the import is right."""
    rule = _rule_of(arrow.importer)
    if arrow.is_late:
        rule = replace(rule, lazily=(*rule.lazily, arrow.imported))
    else:
        rule = replace(rule, allows=(*rule.allows, arrow.imported))
    return f"{arrow}; if it should, its row in tests/layers.py becomes {rule!r}"


def test_imports_follow_the_arrows() -> None:
    """No module imports one of ours that its rule does not allow."""
    assert [_row(arrow) for arrow in _all_arrows() if _breaks(arrow)] == []


def _engine_row(module: str) -> int | None:
    """Number of the row of a module of the engine."""
    if not _below(module, ENGINE):
        return None
    name = module.removeprefix(f"{ENGINE}.").partition(".")[0] if module != ENGINE else "__init__"
    return next(number for number, row in enumerate(ENGINE_ROWS) if name in row)


def test_imports_inside_the_engine_point_down() -> None:
    """Stages do not know the lanes, and neither knows how a graph is built."""
    found = []
    for arrow in _all_arrows():
        importer, imported = _engine_row(arrow.importer), _engine_row(arrow.imported)
        if importer is not None and imported is not None and imported < importer:
            found.append(str(arrow))
    assert found == []


def test_there_is_no_import_circle() -> None:
    """Imports inside a function and imports for the type checker count."""
    circles = runpy.run_path(str(ROOT / "scripts/measure_tree.py"))["circles"](ROOT)
    assert [circle for circle in circles if len(circle) > LONGEST_CIRCLE] == []


def test_every_module_has_a_rule() -> None:
    """A file added anywhere has to be put in the table, or in a folder that is there."""
    rules = {module: _rule_of(module).of for module in MODULES}
    missing = [module for module, of in rules.items() if of in DIVIDED and of != module]
    assert [f"{Rule(module)!r} is missing in tests/layers.py" for module in missing] == []


def test_every_rule_is_for_a_module() -> None:
    """A row of a file that is gone goes with it."""
    assert [rule.of for rule in RULES if rule.of not in MODULES] == []


@pytest.mark.parametrize("package", FORBIDDEN)
def test_forbidden_imports_are_absent(package: str) -> None:
    """What a package must do without is imported nowhere in it, except late where the table says so."""
    on_use = {imported for user, imported in ON_USE if user == package}
    found = [
        str(arrow)
        for arrow in _all_arrows()
        if _below(arrow.importer, package)
        for forbidden in FORBIDDEN[package]
        if _below(arrow.imported, forbidden) and not (arrow.is_late and forbidden in on_use)
    ]
    assert found == []


def _private_of_another(arrow: Arrow) -> str | None:
    """The private module that the arrow leads to, if neither its owner has the importer nor it is for all.

    What is private directly below ``spdl`` is the kernel, and for all whose rule allows it.
    """
    parts = arrow.imported.split(".")
    depth = next((i for i, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")), None)
    if parts[0] != "spdl" or depth in (None, 1) or _is_built(arrow.imported):  # see the test of extensions
        return None
    owner, private = ".".join(parts[:depth]), ".".join(parts[: (depth or 0) + 1])
    return None if _below(arrow.importer, owner) else private


def test_private_modules_of_another_package_are_named() -> None:
    """A rule that allows a package allows what is public in it: a module whose name starts with ``_`` has a word."""
    found = []
    for arrow in _all_arrows():
        private = _private_of_another(arrow)
        if private is not None:
            rule = _rule_of(arrow.importer)
            if not any(_below(each, private) for each in (*rule.allows, *rule.lazily)):
                found.append(_row(replace(arrow, imported=private)))
    assert found == []


@pytest.mark.parametrize("folder", LOADS_EXTENSIONS)
def test_few_modules_load_the_extensions(folder: str) -> None:
    """Only those in the table know where the built extensions are."""
    found = [
        str(arrow)
        for arrow in _all_arrows()
        if _below(arrow.imported, folder)
        and not any(_below(arrow.importer, allowed) for allowed in (folder, *LOADS_EXTENSIONS[folder]))
    ]
    assert found == []


# Calls that can wait, and which positional argument is how long. `get` is also of mappings: only by keyword.
WAITS = {"wait": 0, "poll": 0, "wait_for": 1, "acquire": 1, "select": 3, "get": None, "put": None}


def _polls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Calls that sleep, or that wait for a time written into the code: ``x.wait(0.1)``, ``x.get(timeout=1)``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        limits = [word.value for word in node.keywords if word.arg == "timeout"]
        position = WAITS.get(name)
        if position is not None:
            limits += node.args[position : position + 1]
        if name == "sleep" and ast.unparse(node) == "asyncio.sleep(0)":  # lets other tasks run, and waits for nothing
            continue
        has_literal = any(isinstance(limit, ast.Constant) and isinstance(limit.value, int | float) for limit in limits)
        if name == "sleep" or (name in WAITS and has_literal):
            yield node.lineno, ast.unparse(node)


#: To let time pass before another attempt is what this file is for.
WAITS_FOR_TIME = {"_policies.py"}
ENGINE_FILES = sorted(path for path in (SRC / "spdl/pipeline/_engine").rglob("*.py") if path.name not in WAITS_FOR_TIME)


@pytest.mark.parametrize("path", ENGINE_FILES, ids=lambda path: path.stem)
def test_engine_never_polls(path: Path) -> None:
    """The engine waits on conditions and futures: it has no ``sleep`` and no wait with a literal timeout."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    assert [f"{path.name}:{line} {call}" for line, call in _polls(tree)] == []


def _native_includes() -> Iterator[tuple[str, int, str]]:
    """File, line and target, relative to ``native``, of every include in quotes."""
    if not NATIVE.exists():
        return
    for path in sorted(NATIVE.rglob("*")):
        if path.suffix not in {".h", ".hpp", ".cpp", ".cc", ".inc"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
            if match is None:
                continue
            for folder in (path.parent, NATIVE):  # as the compiler looks for it
                target = (folder / match[1]).resolve()
                if target.is_file() and target.is_relative_to(NATIVE):
                    yield str(path.relative_to(NATIVE)), number, str(target.relative_to(NATIVE))
                    break


def test_native_includes_follow_the_arrows() -> None:
    """Headers are included downwards only: bindings, media, owners of libav objects, base."""
    found = []
    for file, line, target in _native_includes():
        user, used = file.split("/")[0], target.split("/")[0]
        if user in {"tests", "fuzz"} or user == used:
            continue
        if used not in INCLUDES.get(user, set()):
            found.append(f"native/{file}:{line} includes {target}")
    assert found == []


def test_only_bindings_know_python() -> None:
    """Outside ``native/bind`` no native file includes Python's or nanobind's headers."""
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in (sorted(NATIVE.rglob("*")) if NATIVE.exists() else [])
        if path.suffix in {".h", ".hpp", ".cpp"} and path.relative_to(NATIVE).parts[0] != "bind"
        for match in re.finditer(r"#\s*include\s+[<\"](Python\.h|nanobind/[^>\"]+)", path.read_text(encoding="utf-8"))
    ]
    assert found == []
