"""The package as a whole: what importing costs and brings, and what each public module offers."""

import importlib.util
import inspect
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import spdl
from tests.support.timeouts import TIMEOUT

SRC = Path(__file__).resolve().parent.parent / "src"

PIPELINE_PUBLIC = ("spdl.pipeline", "spdl.pipeline.defs", "spdl.pipeline.config", "spdl.pipeline.batching")
PUBLIC = (
    "spdl",
    *PIPELINE_PUBLIC,
    "spdl.source",
    "spdl.source.utils",
    "spdl.source.imagenet",
    "spdl.source.local_directory",
    "spdl.resume",
    "spdl.debug",
    "spdl.metrics",
    "spdl.remote",
    "spdl.ray",
    "spdl.dataloader",
    "spdl.io",
    "spdl.io.utils",
)
# Modules of later work are not looked for: a public module counts from the day its file is there.
PRESENT = [
    name
    for name in PUBLIC
    if (SRC / name.replace(".", "/")).with_suffix(".py").exists()
    or (SRC / name.replace(".", "/") / "__init__.py").exists()
]


def _in_child(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_version_is_that_of_the_distribution() -> None:
    """``spdl.__version__`` tells what is installed."""
    try:
        installed = metadata.version("spdl-native")
    except metadata.PackageNotFoundError:
        installed = "unknown"
    assert spdl.__version__ == installed


@pytest.mark.parametrize("theirs", ["_internal", "io/_internal"])
def test_reference_in_the_same_folder_is_refused(theirs: str, tmp_path: Path) -> None:
    """Both distributions have files of the same names, and a mixture of them would fail anywhere."""
    package = tmp_path / "spdl"
    (package / theirs).mkdir(parents=True)
    (package / theirs / "__init__.py").touch()
    (package / "__init__.py").write_bytes((SRC / "spdl" / "__init__.py").read_bytes())
    spec = importlib.util.spec_from_file_location("spdl", package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match="pip uninstall -y spdl spdl-core spdl-io spdl-native"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.slow
@pytest.mark.parametrize("module", ["spdl.pipeline", "spdl.source"])
def test_engine_and_sources_import_nothing_heavy(module: str) -> None:
    """The engine and the sources work without NumPy, torch and the media package, and do not pull them in."""
    if module not in PRESENT:
        pytest.skip(f"{module} is not there")
    heavy = _in_child(
        f"import sys, {module}\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in {'numpy', 'torch'} or m.startswith('spdl.io')))"
    )
    assert heavy == "[]"


_WITHOUT_ASYNCIO = """
import sys
import spdl.pipeline.config
from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess

class Source:
    def __iter__(self):
        yield "asyncio" in sys.modules

def same(item):
    return item

if __name__ == "__main__":
    builder = PipelineBuilder().add_source(Source()).pipe(same, concurrency=2).aggregate(1).add_sink()
    pipeline = builder.build()
    with pipeline.auto_stop():
        print(*pipeline, "asyncio" in sys.modules)
    pipeline.stats()
    print(*run_pipeline_in_subprocess(builder, mp_context="spawn"), "asyncio" in sys.modules)
"""


@pytest.mark.slow
def test_pipelines_without_async_stages_do_not_import_asyncio(tmp_path: Path) -> None:
    """Neither here nor in a child: it is a quarter of what takes time."""
    main = tmp_path / "main.py"
    main.write_text(_WITHOUT_ASYNCIO, encoding="utf-8")
    result = subprocess.run([sys.executable, main], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (result.stdout.split(), result.stderr) == (["[False]", "False", "[False]", "False"], "")


@pytest.mark.slow
def test_import_of_spdl_loads_no_subpackage() -> None:
    """``import spdl`` brings the version and nothing else."""
    assert _in_child("import sys, spdl\nprint([m for m in sys.modules if m.startswith('spdl.')])") == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("module", [name for name in PRESENT if name != "spdl"])
def test_import_starts_nothing(module: str) -> None:
    """Importing a public module starts no thread, writes no output and configures no logging."""
    state = _in_child(
        f"import logging, threading\nimport {module}\n"
        "print(threading.active_count(), logging.getLogger().handlers, logging.getLogger('spdl').handlers)"
    )
    assert state == "1 [] []"


@pytest.mark.parametrize("module", PRESENT)
def test_star_import_gives_what_all_names(module: str) -> None:
    """Every public module has an ``__all__`` without repeats, and ``from module import *`` brings all of it."""
    names = importlib.import_module(module).__all__
    assert len(set(names)) == len(names)
    namespace: dict[str, object] = {}
    exec(f"from {module} import *", namespace)
    assert set(names) - namespace.keys() == set()


@pytest.mark.parametrize("module", PRESENT)
def test_public_names_are_documented(module: str) -> None:
    """Every public class and function has a docstring."""
    loaded = importlib.import_module(module)
    things = {name: getattr(loaded, name) for name in loaded.__all__}
    documented = {name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isroutine(thing)}
    assert [name for name, thing in documented.items() if not thing.__doc__] == []


def test_typed_marker_ships() -> None:
    """``py.typed`` is there, so that type checkers of users read the annotations."""
    assert (SRC / "spdl/py.typed").exists()


def test_code_names_no_place_of_a_machine() -> None:
    """No file of the package holds the path of somebody's home or checkout."""
    found = [
        f"{path.relative_to(SRC)}: {match[0]}"
        for path in sorted(SRC.rglob("*.py"))
        for match in re.finditer(r"['\"\s](/home/|/root/|/Users/)\w*", path.read_text(encoding="utf-8"))
    ]
    assert found == []
