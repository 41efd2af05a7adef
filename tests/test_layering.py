"""The arrows of the architecture: which package may import which, and which header may include which.

The tables state the rules; the tests only read the code. An import inside a function, or for the type checker alone,
is as much an arrow as one at the top, except where ``lazily`` allows it: it closes no cycle at import time.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
NATIVE = ROOT / "native"


@dataclass(frozen=True, slots=True)
class Rule:
    """What the modules at and below ``of`` may import of ours, besides each other."""

    of: str
    allows: tuple[str, ...] = ()
    lazily: tuple[str, ...] = ()


P = "spdl.pipeline"
C = "spdl._processes"
IO = "spdl.io"
R = "spdl.resume"
# What those who have a state share with those who keep it.
RESUME = (f"{R}._errors", f"{R}._document", f"{R}._ranges")
TORCH = "spdl.dataloader._torch"
LOADER_PARTS = "_holding", "_losses", "_states"
TORCH_NEEDS = (P, "spdl._processes", f"{TORCH}._plan", f"{TORCH}._fetching", f"{TORCH}.resuming")
IO_WORDS = tuple(f"{IO}.{name}" for name in ("_errors", "_types", "_trace", "_source", "_native"))
# Open to all: `spdl` itself (the version), how anybody reports, and what a whole number and a duration are.
OPEN = ("spdl", "spdl._reports", "spdl._numbers", "spdl._extensions")
# The longest `of` that fits a module counts for it.
RULES = [
    # packages
    Rule("spdl", allows=()),
    Rule("spdl._reports", allows=()),
    Rule("spdl._numbers", allows=()),
    # Of pipelines, and of child processes, whose errors are those of the pipeline that has them.
    Rule("spdl._errors", allows=()),
    Rule("spdl._extensions", allows=()),  # how native code is loaded
    Rule("spdl._processes", allows=("spdl._errors",)),
    Rule("spdl._random", allows=()),
    Rule("spdl.pipeline", allows=("spdl._processes", "spdl._errors", "spdl._random", *RESUME)),
    Rule("spdl.source", allows=RESUME),
    # States: text and arithmetic. It knows neither pipelines nor sources.
    Rule("spdl.resume"),
    Rule(f"{R}._replay", lazily=(P,)),
    Rule(f"{R}._errors"),
    Rule(f"{R}._ranges"),
    Rule(f"{R}._document", allows=(f"{R}._errors", f"{R}._ranges")),
    Rule(f"{R}._elastic", allows=RESUME),
    Rule(f"{R}._files", allows=(f"{R}._errors",)),
    Rule(f"{R}._values", allows=(f"{R}._errors",)),
    Rule("spdl.io", allows=()),
    Rule("spdl.dataloader", allows=("spdl._processes", "spdl.pipeline", "spdl.source", "spdl.io")),
    Rule("spdl.__main__", allows=("spdl._cli",)),
    Rule("spdl._cli", allows=("spdl.pipeline", "spdl.source", "spdl.io", "spdl.dataloader")),
    # inside the pipeline
    Rule(f"{P}._info"),
    Rule(f"{P}._marks"),
    Rule(f"{P}._cpus"),
    Rule(f"{P}.defs", allows=("spdl._errors",)),
    Rule(f"{P}._builder", allows=(f"{P}.defs", "spdl._errors"), lazily=(f"{P}._build", f"{P}._pipeline")),
    # The engine asks for process-wide switches (how failures are logged) at the moment it needs them.
    Rule(
        f"{P}._engine",
        allows=(
            *(f"{P}.{of}" for of in ("defs", "_info", "_observe._probe", "_marks")),
            "spdl._errors",
            f"{R}._values",
            "spdl._random",
            "spdl._processes._remote_failure",
        ),
        lazily=(f"{P}.config",),
    ),
    Rule(f"{P}._batching", allows=(f"{P}.defs",)),
    Rule(f"{P}._cache_iterator"),
    Rule(f"{P}._pipeline_ids"),
    Rule(f"{P}._observe", allows=("spdl._errors", f"{P}._info", f"{P}._marks", C)),
    # What the engine gives to observers: plain records and callables.
    Rule(f"{P}._observe._probe", allows=(f"{P}._info",)),
    Rule(f"{P}._priority", allows=("spdl._errors", f"{P}._cpus")),
    Rule(f"{P}.batching", allows=(f"{P}._batching",)),
    Rule(f"{P}.config", allows=(f"{P}.defs", f"{P}._observe")),
    Rule(f"{P}._seeding", allows=(f"{P}.defs",)),
    # What outputs were made of. A replay builds pipelines.
    Rule(
        f"{P}._provenance",
        allows=(*(f"{P}.{of}" for of in ("_engine", "_observe", "_resume", "defs")), "spdl._random", *RESUME),
    ),
    Rule(f"{P}._provenance._replay", allows=(P, *RESUME, "spdl._random")),
    # The state of a pipeline. States of all ranks are distributed by those who need it.
    Rule(f"{P}._resume", allows=(f"{P}._engine", f"{P}.defs", *RESUME), lazily=(f"{R}._elastic",)),
    Rule(
        f"{P}._pipeline",
        allows=(f"{P}._engine", f"{P}._observe", "spdl._errors"),
        lazily=(f"{P}._resume", f"{P}._provenance"),
    ),
    # These put all of it together; children run whole pipelines.
    *(Rule(f"{P}.{of}", allows=(P, C, "spdl._errors")) for of in ("_build", "_assemble")),
    Rule(f"{P}._remote", allows=(P, C, "spdl._errors"), lazily=(f"{R}._errors",)),
    # inside child processes: what crosses is below how they are started, and that is below who holds them
    Rule(f"{C}.lib"),
    Rule(f"{C}._memory", allows=(f"{C}.lib",)),
    Rule(f"{C}._main_module"),
    Rule(f"{C}._preload"),
    Rule(f"{C}._protocol"),
    Rule(f"{C}._unpicklable"),
    Rule(f"{C}._transport", allows=(f"{C}._memory", "spdl._errors")),
    Rule(f"{C}._remote_failure", allows=("spdl._errors",)),
    Rule(f"{C}._start", allows=(f"{C}._main_module", f"{C}._preload", "spdl._errors")),
    Rule(
        f"{C}._child_main",
        allows=tuple(f"{C}.{of}" for of in ("_main_module", "_protocol", "_transport", "_unpicklable", "_memory")),
        lazily=(f"{C}._remote_failure",),
    ),
    Rule(f"{C}._serve", allows=(f"{C}._remote_failure", f"{C}._transport")),
    Rule(f"{C}._template_main", allows=(f"{C}._transport",)),
    Rule(
        f"{C}._template",
        allows=(*(f"{C}.{of}" for of in ("_main_module", "_start", "_template_main", "_transport")), "spdl._errors"),
        lazily=(f"{C}._child",),  # a template is a child itself
    ),
    Rule(
        f"{C}._child",
        allows=(
            *(f"{C}.{of}" for of in ("_child_main", "_protocol", "_start", "_template", "_transport")),
            "spdl._errors",
        ),
    ),
    # inside the loaders: `choosing` knows both kinds of workers, which do not know each other
    Rule("spdl.dataloader._cache", allows=(P, f"{R}._document", f"{R}._errors")),
    Rule("spdl.dataloader._dataloader", allows=(P, *(f"spdl.dataloader.{name}" for name in LOADER_PARTS))),
    Rule("spdl.dataloader._states", allows=(P, f"{R}._document")),
    Rule("spdl.dataloader._losses"),
    Rule("spdl.dataloader._holding"),
    Rule("spdl.dataloader._prefetching", allows=(IO, "spdl.dataloader._holding")),
    Rule("spdl.dataloader._device", allows=(IO, "spdl.dataloader._prefetching")),
    Rule("spdl.dataloader._pytorch", allows=(TORCH, f"{R}._document")),
    Rule(TORCH),
    Rule(f"{TORCH}._plan", allows=(f"{TORCH}._arguments", f"{TORCH}.resuming")),
    Rule(f"{TORCH}.resuming", allows=(f"{TORCH}._fetching", *RESUME, f"{R}._values", f"{R}._elastic")),
    Rule(f"{TORCH}._pinning"),
    Rule(f"{TORCH}._warnings"),
    Rule(f"{TORCH}._fetching"),
    Rule(f"{TORCH}._arguments", allows=(P,)),
    Rule(f"{TORCH}._inline", allows=TORCH_NEEDS),
    Rule(f"{TORCH}.threads", allows=TORCH_NEEDS),
    Rule(f"{TORCH}.processes", allows=(*TORCH_NEEDS, "spdl.dataloader._losses")),
    Rule(f"{TORCH}.choosing", allows=(*TORCH_NEEDS, f"{TORCH}.threads", f"{TORCH}.processes")),
    # inside the media package: folders over one vocabulary, each below those that may import it
    Rule(f"{IO}._errors", lazily=(f"{IO}._types",)),
    Rule(f"{IO}._types"),
    Rule(f"{IO}._trace"),
    Rule(f"{IO}._source", allows=(f"{IO}._types",)),
    Rule(f"{IO}._native", allows=(f"{IO}._errors", f"{IO}.lib")),
    Rule(f"{IO}._restore", allows=IO_WORDS),
    Rule(f"{IO}._buffers", allows=IO_WORDS),
    Rule(f"{IO}._formats", allows=IO_WORDS),
    Rule(f"{IO}._devices", allows=(*IO_WORDS, f"{IO}._buffers")),
    Rule(f"{IO}._media", allows=(*IO_WORDS, f"{IO}._buffers", f"{IO}._devices")),
    Rule(
        f"{IO}._images",
        allows=(*IO_WORDS, f"{IO}._buffers", f"{IO}._devices", f"{IO}._media", "spdl._random._splitmix"),
    ),
    Rule(f"{IO}.utils", allows=IO_WORDS),
    Rule(f"{IO}.lib"),
]

# Packages whose own rule is for their `__init__` alone: every other module has a rule, or is in a folder that has one.
DIVIDED = ("spdl", "spdl.pipeline", "spdl._processes", "spdl.io", "spdl.dataloader", TORCH)

# What a package must never import, at the top or anywhere.
FORBIDDEN = {
    "spdl._processes": ("numpy", "torch", "spdl.io", "spdl.source", "spdl.pipeline"),
    "spdl.pipeline": ("numpy", "torch", "spdl.io", "spdl.source"),
    "spdl.pipeline._observe": ("spdl.pipeline._engine",),
    # Children that only iterate are kept light.
    **dict.fromkeys(
        (f"{P}._remote.{light}" for light in ("_protocol", "_iterate", "_iterate_main", "_preloaded")),
        tuple(f"{P}.{heavy}" for heavy in ("defs", "_engine", "_observe", "_build", "_pipeline")),
    ),
    "spdl.source": ("numpy", "torch", "spdl.io", "spdl.pipeline"),
    "spdl._random": ("numpy", "torch"),
    "spdl.resume": ("numpy", "torch", "spdl.io", "spdl.source", "spdl.pipeline"),
    "spdl.io": ("torch", "spdl.pipeline", "spdl.dataloader"),
}
# (module or package, imported): allowed inside a function all the same.
ON_USE = {
    ("spdl._processes", "numpy"): "arrays that cross between processes are made by those who have NumPy",
    (
        "spdl._processes",
        "torch",
    ): "tensors that cross between processes are made by those who have torch",
    ("spdl.resume", "spdl.pipeline"): "a replay runs a pipeline",
    ("spdl._random", "numpy"): "generators for those who have NumPy",
    ("spdl._random", "torch"): "generators for those who have torch",
    ("spdl.source", "numpy"): "the random sampler draws with it, and keyed orders come in blocks if it is there",
    ("spdl.io", "torch"): "to_torch and transfers hand tensors to those who have torch",
}
# (package, private package of another): imported all the same.
SHARED = {
    ("spdl.pipeline", "spdl._processes"): "stages, regions and whole pipelines run in child processes",
    ("spdl.dataloader._torch", "spdl._processes"): "worker processes of loaders, and the batches that leave them",
    ("spdl.pipeline", "spdl._errors"): "its errors",
    ("spdl.pipeline", "spdl._random"): "what an op gets that asks for random numbers",
    ("spdl.io", "spdl._random"): "seeds of samples are outputs of the same generator",
    **{
        (user, module): "what a state looks like, and the error of one that cannot be loaded"
        for user in ("spdl.pipeline", "spdl.source", "spdl.dataloader")
        for module in RESUME
    },
    ("spdl.dataloader", f"{R}._values"): "states of samplers and data sets inside that of a loader",
    ("spdl.pipeline", f"{R}._values"): "states of sources inside that of a pipeline",
    **{
        (user, f"{R}._elastic"): "a pipeline, or a loader, takes its share of the states of all ranks"
        for user in ("spdl.pipeline", "spdl.dataloader")
    },
    ("spdl.resume", f"{P}._provenance"): "a replay is part of the pipeline, and called with the states",
    ("spdl._processes", "spdl._errors"): "the errors of child processes are public names of spdl.pipeline",
    ("spdl.dataloader._torch", f"{P}._cpus"): "as many workers as there are CPUs to use",
    ("spdl.dataloader", f"{IO}._devices"): "batches are moved ahead of the consumer as transfer_tensor_h2d moves them",
}
# Folder of built extensions: the modules, and those below them, that may reach them.
LOADS_EXTENSIONS = {
    "spdl.io.lib": ("spdl.io._native",),
    "spdl._processes.lib": ("spdl._processes._memory",),
}

# Inside the engine: each name may import what stands in its own row or in a row below. A folder counts as one name.
ENGINE = f"{P}._engine"
ENGINE_ROWS = [
    ("__init__",),
    ("_region_reader",),
    ("_graph",),
    ("_kinds",),
    ("_graph_builder",),
    ("_counts",),
    ("_lanes",),
    ("_stages",),
    ("_recorded",),
    ("_engine", "_shutdown"),
    ("_sink", "_deadlines", "_passes"),
    ("_core", "_node"),
    ("_channel", "_lane"),
    ("_joining",),
    ("_thread",),
    ("_ticket",),
    ("_places",),
    ("_failures", "_remote_calls"),
    ("_counters", "_frames", "_isolated_workers", "_origin", "_positions", "_region_workers"),
]

#: An import circle of so many files is allowed: two halves of one concept.
LONGEST_CIRCLE = 2

# Folder of native code: folders that it may include. tests and fuzz may include all.
INCLUDES: dict[str, set[str]] = {
    "base": set(),
    "av": {"base"},
    "image": {"base"},
    "media": {"av", "image", "base"},
    "jpeg": {"image", "base"},
    "wav": {"base"},
    "archive": {"base"},
    "shared": {"base"},
    "cuda": {"media", "av", "base"},
    "bind": {"base", "av", "image", "media", "jpeg", "wav", "archive", "shared", "cuda"},
}


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


ARROWS = [arrow for name, path in MODULES.items() for arrow in _arrows(name, path)]


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
        allowed = rule.allows
    return not any(_below(arrow.imported, package) for package in allowed)


def test_imports_follow_the_arrows() -> None:
    """No module imports one of ours that its rule does not allow."""
    assert [str(arrow) for arrow in ARROWS if _breaks(arrow)] == []


def _engine_row(module: str) -> int | None:
    """Number of the row of a module of the engine."""
    if not _below(module, ENGINE):
        return None
    name = module.removeprefix(f"{ENGINE}.").partition(".")[0] if module != ENGINE else "__init__"
    return next(number for number, row in enumerate(ENGINE_ROWS) if name in row)


def test_imports_inside_the_engine_point_down() -> None:
    """Stages do not know the lanes, and neither knows how a graph is built."""
    found = []
    for arrow in ARROWS:
        importer, imported = _engine_row(arrow.importer), _engine_row(arrow.imported)
        if importer is not None and imported is not None and imported < importer:
            found.append(str(arrow))
    assert found == []


def _circles() -> list[list[str]]:
    """Sets of modules that all reach each other by imports: the strongly connected components of the import graph."""
    imports: dict[str, set[str]] = {name: set() for name in MODULES}
    for arrow in ARROWS:
        if arrow.imported in MODULES:
            imports[arrow.importer].add(arrow.imported)
    reached: dict[str, set[str]] = {}
    for name in MODULES:
        found: set[str] = set()
        todo = [name]
        while todo:
            for each in imports[todo.pop()] - found:
                found.add(each)
                todo.append(each)
        reached[name] = found
    circles = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in MODULES}
    return sorted(list(circle) for circle in circles if circle)


def test_no_import_circle_is_longer_than_two_files() -> None:
    """Imports inside a function and imports for the type checker count."""
    assert [circle for circle in _circles() if len(circle) > LONGEST_CIRCLE] == []


def test_every_module_has_a_rule() -> None:
    """A file added anywhere has to be put in the table, or in a folder that is there."""
    rules = {module: _rule_of(module).of for module in MODULES}
    assert [module for module, of in rules.items() if of in DIVIDED and of != module] == []


def test_every_rule_is_for_a_module() -> None:
    """A row of a file that is gone goes with it."""
    assert [rule.of for rule in RULES if rule.of not in MODULES] == []


@pytest.mark.parametrize("package", FORBIDDEN)
def test_forbidden_imports_are_absent(package: str) -> None:
    """What a package must do without is imported nowhere in it, except late where the table says so."""
    on_use = {imported for user, imported in ON_USE if user == package}
    found = [
        str(arrow)
        for arrow in ARROWS
        if _below(arrow.importer, package)
        for forbidden in FORBIDDEN[package]
        if _below(arrow.imported, forbidden) and not (arrow.is_late and forbidden in on_use)
    ]
    assert found == []


def test_private_modules_stay_in_their_package() -> None:
    """A module whose name starts with ``_`` is imported by the package that holds it, and where the table says so."""
    found = []
    for arrow in ARROWS:
        parts = arrow.imported.split(".")
        depth = next((i for i, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")), None)
        if parts[0] != "spdl" or depth is None or arrow.imported in OPEN:
            continue
        if _is_built(arrow.imported):  # see the next test
            continue
        owner, private = ".".join(parts[:depth]), ".".join(parts[: depth + 1])
        # `spdl` owns its front door only; the packages below it are worlds of their own.
        in_owner = arrow.importer.count(".") <= 1 if owner == "spdl" else _below(arrow.importer, owner)
        is_shared = any(_below(arrow.importer, user) and private == shared for user, shared in SHARED)
        if not in_owner and not is_shared and not _below(arrow.importer, private):
            found.append(str(arrow))
    assert found == []


@pytest.mark.parametrize("folder", LOADS_EXTENSIONS)
def test_few_modules_load_the_extensions(folder: str) -> None:
    """Only those in the table know where the built extensions are."""
    found = [
        str(arrow)
        for arrow in ARROWS
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
WAITS_FOR_TIME = {"_retried.py"}
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
