"""Count what the rules of the house bound: lines, files, functions, import circles; and what tests reach into.

``python scripts/measure_tree.py [TREE...]`` prints a column for each checkout.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the function's body, its docstring and the functions and classes inside of it left out."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    if not body:
        return 0
    inner = [
        each
        for statement in body
        for each in ast.walk(statement)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    covered = {line for each in inner for line in range(each.lineno, (each.end_lineno or each.lineno) + 1)}
    return sum(line not in covered for line in range(body[0].lineno, (body[-1].end_lineno or 0) + 1))


def long_functions(tree: Path, limit: int = 60) -> Iterator[tuple[str, int]]:
    """Functions of ``src`` whose body has more than ``limit`` lines, and how many it has."""
    for path in sorted((tree / "src" / "spdl").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _body_lines(node) > limit:
                yield f"{path.relative_to(tree)}:{node.lineno} {node.name}", _body_lines(node)


def _is_private(module: str) -> bool:
    return module.startswith("spdl.") and any(part.startswith("_") for part in module.split("."))


def private_imports(tree: Path) -> list[str]:
    """Files of tests that import a private module of ours."""
    found = []
    for path in sorted((tree / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            if any(_is_private(name) for name in names):
                found.append(str(path.relative_to(tree)))
                break
    return found


def patches(tree: Path) -> list[str]:
    """Places where tests replace an attribute: ``monkeypatch.setattr``, ``mock.patch`` and their kin."""
    found = []
    for path in sorted((tree / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                ("monkeypatch.setattr", "patch.setattr", "context.setattr", "mock.patch", "patch.object")
            ):
                found.append(f"{path.relative_to(tree)}:{node.lineno}")
    return found


def imports(tree: Path) -> dict[str, set[str]]:
    """The modules of ``src`` that each of them imports, at any place."""
    src = tree / "src"
    paths = {}
    for path in sorted((src / "spdl").rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found[module] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                names = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in paths else base for alias in node.names]
            found[module] |= {name for name in names if name in paths and name != module}
    found["spdl"] = set()  # it names its packages for type checkers
    return found


def circles(tree: Path) -> list[list[str]]:
    """Sets of modules that all reach each other by imports, also by those inside functions or for type checkers."""
    known = imports(tree)
    reached: dict[str, set[str]] = {}
    for name in known:
        seen: set[str] = set()
        todo = [name]
        while todo:
            for each in known[todo.pop()] - seen:
                seen.add(each)
                todo.append(each)
        reached[name] = seen
    found = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in known}
    return sorted(list(circle) for circle in found if circle)


def measure(tree: Path) -> dict[str, int]:
    """The figures of a checkout by their names."""
    files = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (tree / "src" / "spdl").rglob("*.py")}
    return {
        "lines of Python in src": sum(files.values()),
        "files": len(files),
        "files under 40 lines": sum(lines < 40 for lines in files.values()),
        "files over 500 lines": sum(lines > 500 for lines in files.values()),
        "functions over 60 lines": len(list(long_functions(tree))),
        "import circles": len(circles(tree)),
        "test files that import private modules": len(private_imports(tree)),
        "attributes that tests replace": len(patches(tree)),
    }


def main(arguments: list[str]) -> None:
    trees = [Path(argument).resolve() for argument in arguments] or [ROOT]
    columns = [measure(tree) for tree in trees]
    for name in columns[0]:
        print(f"{name:42}" + "".join(f"{column[name]:>10,}" for column in columns))
    for name, lines in long_functions(trees[-1]):
        print(f"{lines:5} lines: {name}")
    for circle in circles(trees[-1]):
        print("circle: " + ", ".join(circle))


if __name__ == "__main__":
    main(sys.argv[1:])
