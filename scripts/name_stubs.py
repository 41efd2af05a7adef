"""Write the stubs of modules whose names are imported on first use, from the tables that they give ``lazy_names``.

Type checkers and editors read a stub as if the module imported its names the usual way. With ``--check``, nothing is
changed, and differences are printed.
"""

import ast
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src" / "spdl"


def table_of(text: str) -> dict[str, str] | None:
    """The table of a module; ``None``: it has none."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy_names":
            found: dict[str, str] = ast.literal_eval(node.args[1])
            return found
    return None


def _import_order(name: str) -> tuple[int, str]:
    return 0 if name.isupper() else 1 if name[0].isupper() else 2, name.lower()


def stub_of(table: dict[str, str]) -> str:
    """Sorted as ruff sorts imports: of this project, then of this package, from the outside in."""
    lines, public = ["# Written by scripts/stubs from the module's table."], []
    for is_relative in (False, True):
        modules = sorted(each for each in table if each.startswith(".") is is_relative)
        lines += [""] if modules else []
        for module in modules:
            names = sorted(table[module].split(), key=_import_order)
            lines += [f"from {module} import {name} as {name}" for name in names]
            public += [] if module == "." else names
    return "\n".join([*lines, "", "__all__ = [", *(f'    "{name}",' for name in sorted(public)), "]", ""])


def stubs() -> Iterator[tuple[Path, str]]:
    """Each stub's path and text."""
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "= lazy_names(" in text and (table := table_of(text)) is not None:
            yield path.with_suffix(".pyi"), stub_of(table)


def main(arguments: list[str]) -> int:
    """Return 1 if a stub had to be written, with ``--check``."""
    outdated = 0
    for path, text in stubs():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == text:
            continue
        if "--check" in arguments:
            outdated = 1
            name = str(path.relative_to(SOURCES.parent))
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, "made"))
        else:
            path.write_text(text, encoding="utf-8")
    return outdated


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
