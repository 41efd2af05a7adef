"""Names that do not exist lead to those that do."""

import importlib
import inspect
from functools import reduce
from typing import TYPE_CHECKING

import pytest

import spdl.io
from spdl import _names
from tests.support.child import run_child
from tests.test_site import load


@pytest.mark.parametrize("place", sorted(set(_names._ELSEWHERE.values())))
def test_each_place_exists(place: str) -> None:
    """Nobody is sent where there is nothing."""
    package, *names = place.split(".")[1:]
    assert reduce(getattr, names, importlib.import_module(f"spdl.{package}")) is not None


@pytest.mark.parametrize(
    ("package", "name", "says"),
    [
        ("spdl", "piepline", "did you mean pipeline?"),
        ("spdl", "DataLoader", "see spdl.dataloader.DataLoader"),
        ("spdl", "Pipeline", "see spdl.pipeline.Pipeline"),
        ("spdl", "Shardstream", "see spdl.source.ShardStream"),
        ("spdl", "dataset", "see spdl.source"),
        ("spdl.dataloader", "CPUBuffer", "see spdl.io.CPUBuffer"),
        ("spdl.pipeline", "PipelineBulder", "did you mean PipelineBuilder?"),
        ("spdl.pipeline", "load_image", "see spdl.io.load_image"),
        ("spdl.pipeline.batching", "lengthbucket", "did you mean LengthBuckets?"),
        ("spdl.io", "decode_image", "see spdl.io.load_image"),
        ("spdl.io", "ImageDecoder", "see spdl.io.load_image"),
        ("spdl.io", "load_image_bach", "did you mean load_image_batch"),
        ("spdl.io", "PackagesOfVideo", "has no attribute 'PackagesOfVideo'"),
        ("spdl.source", "DistributedKeyedSamplr", "did you mean DistributedKeyedSampler"),
        ("spdl.dataloader", "PytorchDataloader", "did you mean PyTorchDataLoader"),
        ("spdl.resume", "lode", "did you mean load"),
        ("spdl.ray", "RayActor", "did you mean RayActors?"),
        ("spdl.metrics", "promethues", "did you mean prometheus?"),
    ],
)
def test_errors_name_what_was_meant(package: str, name: str, says: str) -> None:
    """What is written alike, or what other libraries call it."""
    module = importlib.import_module(package)
    with pytest.raises(AttributeError) as found:
        getattr(module, name)
    assert str(found.value).startswith(f"module {package!r} has no attribute {name!r}")
    assert says in str(found.value)


def test_tools_that_look_for_hooks_pay_nothing() -> None:
    """Nobody types names with underscores."""
    for name in ("__wrapped__", "_load_imagee"):
        assert (
            str(_names.unknown_name("spdl.io", name, ["_load_image"])) == f"module 'spdl.io' has no attribute {name!r}"
        )


def test_packages_are_imported_when_they_are_named() -> None:
    """And not before; not by an asterisk either."""
    code = """
import sys
import spdl
from spdl import *
assert not [name for name in sys.modules if name.startswith("spdl.")], sys.modules
assert spdl.source.DistributedKeyedSampler and spdl.pipeline.PipelineBuilder and "io" in dir(spdl)
assert "spdl.io" not in sys.modules and "difflib" not in sys.modules
print(spdl.io.load_image.__name__)
"""
    ended = run_child(code, fresh=True)
    assert ended.stdout.split() == ["load_image"], ended


def test_help_shows_the_arguments_of_both_forms() -> None:
    """Of ``load_image_batch``; each keyword of its two overloads."""
    parameters = inspect.signature(spdl.io.load_image_batch).parameters
    assert {"width", "height", "transform", "seeds", "names", "orient"} < set(parameters)
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    assert parameters["width"].default is parameters["transform"].default is ...
    assert parameters["num_threads"].default == 0


def test_unknown_names_are_errors_of_type_checkers() -> None:
    """mypy reads this file, and complains of each ``ignore`` that it does not need."""
    if TYPE_CHECKING:
        from spdl.dataloader import Nope1  # type: ignore[attr-defined] # noqa: F401
        from spdl.io import Nope2  # type: ignore[attr-defined] # noqa: F401
        from spdl.metrics import Nope3  # type: ignore[attr-defined] # noqa: F401
        from spdl.pipeline import Nope4  # type: ignore[attr-defined] # noqa: F401
        from spdl.pipeline.batching import Nope5  # type: ignore[attr-defined] # noqa: F401
        from spdl.resume import Nope6  # type: ignore[attr-defined] # noqa: F401
        from spdl.source import Nope7  # type: ignore[attr-defined] # noqa: F401

        spdl.io.load_imag  # type: ignore[attr-defined] # noqa: B018
        spdl.pipelin  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.tree
def test_type_checkers_see_the_names_that_there_are() -> None:
    """The stub beside each module is made from the table that its names come from."""
    stubs = dict(load("scripts/name_stubs.py").stubs())
    assert "pipeline/__init__.pyi" in {f"{path.parent.name}/{path.name}" for path in stubs}
    assert [path for path, text in stubs.items() if path.read_text(encoding="utf-8") != text] == [], "run scripts/stubs"


@pytest.mark.tree
def test_a_stub_has_what_the_table_has() -> None:
    """Modules come by name and are no part of an ``import *``."""
    text = load("scripts/name_stubs.py").stub_of({".": "defs", "._b": "Y", "._a": "X", "other._c": "Z"})
    lines = [line for line in text.splitlines() if line.strip()][1:]
    assert lines[:4] == [
        "from other._c import Z as Z", "from . import defs as defs", "from ._a import X as X", "from ._b import Y as Y",
    ]  # fmt: skip
    assert lines[4:] == ["__all__ = [", '    "X",', '    "Y",', '    "Z",', "]"]
