"""The layers of the architecture, as tables: which package may import which, and which header may include which.

``test_layering.py`` reads the code and compares.
"""

from dataclasses import dataclass

__all__ = [
    "DIVIDED",
    "ENGINE",
    "ENGINE_ROWS",
    "FORBIDDEN",
    "INCLUDES",
    "LOADS_EXTENSIONS",
    "LONGEST_CIRCLE",
    "ON_USE",
    "OPEN",
    "RULES",
    "Rule",
]


@dataclass(frozen=True, slots=True)
class Rule:
    """What the modules at and below ``of`` may import of ours, besides each other.

    A package stands for what is public in it: a private module of another package has to be named.
    """

    of: str
    allows: tuple[str, ...] = ()
    lazily: tuple[str, ...] = ()


P = "spdl.pipeline"
C = "spdl._processes"
IO = "spdl.io"
R = "spdl.resume"
# What those who have a state share with those who keep it.
RESUME = (f"{R}._values", f"{R}._document", f"{R}._ranges", f"{R}._files")
TORCH = "spdl.dataloader._torch"
LOADER_PARTS = "_arguments", "_iteration", "_losses", "_signatures"
TORCH_NEEDS = (
    P,
    "spdl._processes",
    f"{TORCH}._arguments",
    f"{TORCH}._fetching",
    f"{TORCH}.resuming",
    f"{R}._values",
)
IO_WORDS = tuple(f"{IO}.{name}" for name in ("_errors", "_types", "_trace", "_source", "_native"))
# Open to all: `spdl` itself (the version), how anybody reports and logs failures, what a whole number and a duration
# are, the error for names that do not exist.
OPEN = (
    *("spdl", "spdl._addresses", "spdl._reports", "spdl._failure_log", "spdl._numbers", "spdl._names", "spdl._cpus"),
    "spdl._extensions",
)
# The longest `of` that fits a module counts for it.
RULES = [
    # packages
    # The root names its packages for type checkers: its contents, and nothing that it needs.
    Rule(
        "spdl",
        lazily=tuple(
            f"spdl.{name}"
            for name in ("dataloader", "debug", "io", "metrics", "pipeline", "ray", "remote", "resume", "source")
        ),
    ),
    Rule("spdl._reports", allows=()),
    Rule("spdl._failure_log", allows=()),
    Rule("spdl._numbers", allows=()),
    Rule("spdl._cpus", allows=()),  # how many there are to use
    Rule("spdl._addresses", allows=()),  # what paths and URLs mean
    Rule("spdl._names", allows=()),
    # Of pipelines, and of child processes, whose errors are those of the pipeline that has them.
    Rule("spdl._errors", allows=()),
    Rule("spdl._extensions", allows=()),  # how native code is loaded
    Rule("spdl._processes", allows=("spdl._errors",)),
    Rule("spdl._random", allows=()),
    Rule("spdl.pipeline", allows=("spdl._processes", "spdl._errors", "spdl._random", *RESUME)),
    Rule("spdl.source", allows=("spdl._random", *RESUME)),
    Rule("spdl.source._find", allows=("spdl.source",), lazily=("spdl.remote",)),  # when the first URL comes
    Rule("spdl.remote"),
    # States: text and arithmetic. It knows neither pipelines nor sources.
    Rule("spdl.resume"),
    Rule(f"{R}._batches", allows=(f"{P}._provenance", *RESUME, f"{R}._elastic"), lazily=(P,)),
    Rule(f"{R}._values"),
    Rule(f"{R}._ranges"),
    Rule(f"{R}._document", allows=(f"{R}._values", f"{R}._ranges")),
    Rule(f"{R}._elastic", allows=RESUME),
    Rule(f"{R}._files", allows=(f"{R}._values",)),
    Rule("spdl.io", allows=()),
    Rule("spdl.dataloader", allows=("spdl._processes", "spdl.pipeline", "spdl.source", "spdl.io")),
    Rule(
        "spdl.metrics",
        allows=(
            f"{P}._observe",
            f"{P}._observer",
            P,
        ),
    ),
    Rule(
        "spdl.ray", allows=(f"{P}._engine", f"{P}._monitoring", f"{P}._remote", P, C, "spdl._errors", "spdl._monitor")
    ),
    Rule("spdl.__main__", allows=("spdl._cli",)),
    Rule(
        "spdl._cli",
        allows=(
            f"{P}._observe",
            "spdl.source._find",
            *("spdl._monitor", "spdl.pipeline", "spdl.source", "spdl.io", "spdl.remote"),
            *("spdl.dataloader", "spdl.metrics"),
        ),
    ),
    Rule("spdl._monitor"),  # how one process shows another what it does; knows no pipelines
    Rule(
        "spdl.debug",
        lazily=(
            f"{P}._monitoring",
            "spdl.pipeline",
        ),
    ),
    # inside the pipeline
    Rule(f"{P}._info"),
    Rule(f"{P}._asyncio"),  # asyncio on use
    # What the engine gives to those who observe it, who stand above it: plain records and callables.
    Rule(f"{P}._records", allows=(f"{P}._info",)),
    Rule(f"{P}._limits", allows=("spdl._errors", f"{P}.defs", f"{P}._info")),
    Rule(f"{P}.defs", allows=("spdl._errors",)),
    Rule(
        f"{P}._builder",
        allows=(f"{P}._options", f"{P}.defs", "spdl._errors"),
        lazily=(f"{P}._build", f"{P}._pipeline"),
    ),
    # The engine asks for process-wide switches (how failures are logged) at the moment it needs them.
    Rule(
        f"{P}._engine",
        allows=(
            *(f"{P}.{of}" for of in ("defs", "_info", "_limits", "_records", "_asyncio")),
            "spdl._errors",
            f"{R}._values",
            "spdl._random",
            "spdl._processes._remote_failure",
            "spdl._processes._memory",
        ),
        lazily=(f"{P}.config",),
    ),
    Rule(f"{P}._cache_iterator"),
    Rule(
        f"{P}._observe",
        allows=("spdl._errors", *(f"{P}.{of}" for of in ("_info", "_records", "_asyncio")), C),
    ),
    Rule(f"{P}._priority_pools", allows=("spdl._errors",)),
    Rule(f"{P}.batching", allows=(f"{P}.defs",)),
    Rule(f"{P}.config", allows=(f"{P}.defs", f"{P}._observe", f"{P}._options")),
    Rule(f"{P}._exactness", allows=(f"{P}.defs",)),
    # A profile builds pipelines.
    Rule(f"{P}._profile_results", allows=(f"{P}._observe",)),
    Rule(f"{P}._profiling", allows=(P, "spdl._errors")),
    # What provenance and quarantine append to.
    Rule(f"{P}._line_file"),
    # What outputs were made of. A replay builds pipelines.
    Rule(
        f"{P}._provenance",
        allows=(
            *(f"{P}.{of}" for of in ("_engine", "_exactness", "_line_file", "_observe", "_state", "defs")),
            "spdl._random",
            *RESUME,
        ),
    ),
    Rule(f"{P}._provenance._replay", allows=(P, *RESUME, "spdl._random")),
    # What is kept of failed items, and which of them a source leaves out.
    Rule(f"{P}._excluding", allows=(f"{P}._engine", f"{P}._failed_items", "spdl._random")),
    Rule(
        f"{P}._failed_items",
        allows=(
            *(f"{P}.{of}" for of in ("_engine", "_info", "_line_file", "_observe", "_provenance", "_records")),
            "spdl._errors",
            "spdl._random",
        ),
    ),
    # The state of a pipeline. States of all ranks are distributed by those who need it.
    Rule(f"{P}._state", allows=(f"{P}._engine", f"{P}.defs", *RESUME), lazily=(f"{R}._elastic",)),
    Rule(
        f"{P}._monitoring", allows=(*(f"{P}.{of}" for of in ("_observe", "_observer", "_stalls")), "spdl._monitor", C)
    ),
    Rule(f"{P}._trace", allows=(f"{P}._engine", f"{C}._memory")),
    # What a build is told; those who are told of it know the types.
    Rule(
        f"{P}._options",
        allows=(f"{P}.defs",),
        lazily=tuple(f"{P}.{of}" for of in ("_info", "_observe", "_failed_items")),
    ),
    Rule(f"{P}._stalls", allows=(f"{P}._engine", f"{P}._observe", C)),
    Rule(f"{P}._observer", allows=(f"{P}._engine", f"{P}._observe", "spdl._errors")),
    Rule(f"{P}._reading", allows=(f"{P}._engine", "spdl._errors"), lazily=(f"{P}._provenance",)),
    Rule(f"{P}._resizing", allows=(f"{P}._engine", f"{P}._info", "spdl._errors")),
    Rule(
        f"{P}._pipeline",
        allows=(
            f"{P}._resizing",
            f"{P}._observer",
            f"{P}._engine",
            f"{P}._reading",
            f"{P}._observe",
            "spdl._errors",
        ),
        lazily=(f"{P}._info", f"{P}._state", f"{P}._monitoring", f"{P}._provenance", f"{P}._trace"),
    ),
    # These put all of it together; children run whole pipelines.
    *(Rule(f"{P}.{of}", allows=(P, C, "spdl._errors")) for of in ("_build", "_assemble")),
    Rule(f"{P}._remote", allows=(P, C, "spdl._errors"), lazily=(f"{R}._values",)),
    # inside child processes: what crosses is below how they are started, and that is below who holds them
    Rule(f"{C}.lib"),
    Rule(f"{C}._memory", allows=(f"{C}.lib",)),
    Rule(f"{C}._main_module"),
    Rule(f"{C}._stacks"),
    Rule(f"{C}._signals"),
    Rule(f"{C}._environment"),
    Rule(f"{C}._preloaded", allows=(f"{C}._child_main", f"{C}._signals")),
    Rule(f"{C}._elsewhere"),
    Rule(f"{C}._transport", allows=(f"{C}._memory", "spdl._errors")),
    Rule(f"{C}._remote_failure", allows=("spdl._errors",)),
    Rule(
        f"{C}._start",
        allows=(
            *(f"{C}.{of}" for of in ("_environment", "_main_module", "_signals")),
            "spdl._errors",
        ),
    ),
    Rule(
        f"{C}._child_main",
        allows=(
            *(f"{C}.{of}" for of in ("_calls", "_environment", "_main_module", "_memory", "_remote_failure")),
            *(f"{C}.{of}" for of in ("_signals", "_stacks", "_transport")),
        ),
    ),
    Rule(f"{C}._calls", allows=(f"{C}._environment", f"{C}._remote_failure", f"{C}._transport")),
    Rule(f"{C}._template_main", allows=(f"{C}._signals", f"{C}._transport")),
    Rule(
        f"{C}._template",
        # A template is a child itself.
        allows=(
            *(f"{C}.{of}" for of in ("_child", "_main_module", "_start", "_template_main", "_transport")),
            "spdl._errors",
        ),
    ),
    Rule(
        f"{C}._child",
        allows=(
            *(f"{C}.{of}" for of in ("_calls", "_child_main", "_start", "_transport")),
            "spdl._errors",
        ),
    ),
    # inside the loaders: `choosing` knows both kinds of workers, which do not know each other
    Rule("spdl.dataloader._cache", allows=(P, f"{R}._document", f"{R}._values")),
    Rule(
        "spdl.dataloader._dataloader",
        allows=(
            f"{P}._monitoring",
            f"{P}._observer",
            f"{P}._options",
            f"{P}._reading",
            P,
            *(f"spdl.dataloader.{name}" for name in LOADER_PARTS),
        ),
    ),
    Rule("spdl.dataloader._arguments", allows=(P,)),
    Rule("spdl.dataloader._losses"),
    Rule(
        "spdl.dataloader._signatures",
        allows=(
            f"{P}._options",
            P,
        ),
    ),
    Rule("spdl.dataloader._holding"),
    Rule("spdl.dataloader._iteration", allows=(f"{P}._reading", P, f"{R}._document", "spdl.dataloader._holding")),
    Rule("spdl.dataloader._device", allows=(f"{IO}._devices", IO, "spdl.dataloader._holding")),
    Rule("spdl.dataloader._pytorch", allows=(f"{P}._monitoring", f"{P}._observer", TORCH, P, *RESUME)),
    Rule(TORCH),
    Rule(f"{TORCH}.resuming", allows=(f"{TORCH}._fetching", *RESUME, f"{R}._elastic")),
    Rule(f"{TORCH}._pinning"),
    Rule(f"{TORCH}._warnings", allows=(f"{TORCH}._thread_bound",)),
    Rule(f"{TORCH}._epoch", allows=(P, f"{TORCH}._tolerance", f"{TORCH}.resuming")),
    Rule(f"{TORCH}._fetching", allows=("spdl._random",)),
    Rule(
        f"{TORCH}._arguments",
        allows=(f"{P}._options", P, f"{TORCH}._fetching", f"{TORCH}.resuming"),
        lazily=(f"{TORCH}._pinning", f"{TORCH}._warnings"),
    ),
    Rule(f"{TORCH}._tolerance", allows=(f"{P}._limits", P, "spdl.dataloader._losses")),
    Rule(f"{TORCH}._inline", allows=TORCH_NEEDS, lazily=(f"{TORCH}.threads", f"{TORCH}.processes")),
    Rule(f"{TORCH}.threads", allows=(*TORCH_NEEDS, f"{P}._observer")),
    Rule(f"{TORCH}.processes", allows=(*TORCH_NEEDS, "spdl.dataloader._losses")),
    Rule(f"{TORCH}._thread_bound"),
    Rule(
        f"{TORCH}.choosing", allows=(*TORCH_NEEDS, f"{TORCH}._thread_bound", f"{TORCH}.threads", f"{TORCH}.processes")
    ),
    # inside the media package: folders over one vocabulary, each below those that may import it
    Rule(f"{IO}._errors", lazily=(f"{IO}._types",)),
    Rule(f"{IO}._types"),
    Rule(f"{IO}._trace"),
    # A URL of an object store is opened by the package for these, imported when the first one comes.
    Rule(f"{IO}._source", allows=(f"{IO}._errors", f"{IO}._types"), lazily=("spdl.remote",)),
    Rule(f"{IO}._native", allows=(f"{IO}._errors", f"{IO}.lib")),
    Rule(f"{IO}._restore", allows=IO_WORDS),
    Rule(f"{IO}._buffers", allows=IO_WORDS),
    Rule(f"{IO}._formats", allows=IO_WORDS),
    Rule(f"{IO}._devices", allows=(*IO_WORDS, f"{IO}._buffers")),
    Rule(f"{IO}._media", allows=(*IO_WORDS, f"{IO}._buffers", f"{IO}._devices")),
    Rule(
        f"{IO}._images",
        allows=(*IO_WORDS, f"{IO}._buffers", f"{IO}._devices", f"{IO}._media", "spdl._random"),
    ),
    Rule(f"{IO}._batch", allows=(*IO_WORDS, f"{IO}._media", f"{IO}._images")),
    Rule(f"{IO}._clips", allows=(*IO_WORDS, f"{IO}._batch", f"{IO}._media", f"{IO}._images")),
    Rule(f"{IO}._sounds", allows=(*IO_WORDS, f"{IO}._batch", f"{IO}._media", f"{IO}._images")),
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
        (f"{P}._remote.{light}" for light in ("_iterate", "_iterate_main")),
        tuple(f"{P}.{heavy}" for heavy in ("defs", "_engine", "_observe", "_build", "_pipeline")),
    ),
    "spdl.source": ("numpy", "torch", "spdl.io", "spdl.pipeline"),
    "spdl._random": ("numpy", "torch"),
    "spdl.resume": ("numpy", "torch", "spdl.io", "spdl.source", "spdl.pipeline"),
    "spdl.io": ("torch", "spdl.pipeline", "spdl.dataloader"),
    "spdl.remote": ("numpy", "torch", "spdl.io", "spdl.pipeline", "spdl.source"),
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
# Folder of built extensions: the modules, and those below them, that may reach them.
LOADS_EXTENSIONS = {
    "spdl.io.lib": ("spdl.io._native",),
    "spdl._processes.lib": ("spdl._processes._memory",),
}

# Inside the engine: each name may import what stands in its own row or in a row below. A folder counts as one name.
ENGINE = f"{P}._engine"
ENGINE_ROWS = [
    ("__init__",),
    ("_traced",),
    ("_graph",),
    ("_pipes",),
    ("_graph_builder",),
    ("_counts", "_published", "_region"),
    ("_lanes",),
    ("_stages",),
    ("_stalls",),
    ("_engine",),
    ("_deadlines", "_passes"),
    ("_exclusion", "_source_state"),
    ("_refill",),
    ("_core",),
    ("_channel", "_lane"),
    ("_ending",),
    ("_thread",),
    ("_ticket",),
    ("_places",),
    ("_failures", "_remote_calls"),
    ("_counters", "_origin"),
]

#: An import circle of so many files is allowed: one, so none.
LONGEST_CIRCLE = 1

# Folder of native code: folders that it may include. tests and fuzz may include all.
INCLUDES: dict[str, set[str]] = {
    "base": set(),
    "av": {"base"},
    "image": {"archive", "base"},
    "media": {"av", "image", "archive", "wav", "base"},
    "jpeg": {"image", "base"},
    "wav": {"base"},
    "archive": {"base"},
    "shared": {"base"},
    "observe": {"shared", "base"},
    "cuda": {"media", "av", "base"},
    "bind": {"base", "av", "image", "media", "jpeg", "wav", "archive", "shared", "observe", "cuda"},
}
