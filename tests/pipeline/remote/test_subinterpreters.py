"""Subinterpreters: their names exist on every Python, and say what they need where it is missing."""

import sys
from functools import partial
from typing import Any

import pytest

import spdl.pipeline
from spdl.pipeline import (
    PipelineBuilder,
    UnsupportedPythonError,
    iterate_in_subinterpreter,
    run_pipeline_in_subinterpreter,
)
from spdl.pipeline.defs import MAIN_PROCESS, InterpreterPoolExecutorConfig
from tests.support import ops, remote
from tests.support.running import build_of

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python has subinterpreters")


@pytest.mark.parametrize(
    "name", ["iterate_in_subinterpreter", "run_pipeline_in_subinterpreter", "PriorityInterpreterPoolExecutor"]
)
def test_names_are_there(name: str) -> None:
    """And public."""
    assert name in spdl.pipeline.__all__
    assert callable(getattr(spdl.pipeline, name))


@pytest.mark.parametrize(
    "call",
    [
        lambda: iterate_in_subinterpreter(partial(remote.give, [1])),
        lambda: iterate_in_subinterpreter(
            partial(remote.give, [1]), buffer_size=3, initializer=partial(remote.note, "x"), timeout=1.0
        ),
        lambda: run_pipeline_in_subinterpreter(build_of(range(3))),
        lambda: run_pipeline_in_subinterpreter(
            build_of(range(3)).get_config(), num_threads=1, max_failures=0, buffer_size=2, timeout=1.0
        ),
    ],
)
def test_calls_say_which_python_they_need(call: Any) -> None:
    """A RuntimeError of its own type; nothing was started."""
    with pytest.raises(RuntimeError, match=r"requires Python 3\.14") as info:
        call()
    assert isinstance(info.value, UnsupportedPythonError)
    assert remote.noted() == []


def test_regions_of_interpreters_say_which_python_they_need() -> None:
    """When the config is made, or the pipeline is built."""
    builder = PipelineBuilder[Any, Any]().add_source(range(3)).to(InterpreterPoolExecutorConfig(2))
    builder.pipe(ops.same).to(MAIN_PROCESS).add_sink()
    for method in (builder.get_config, partial(builder.build, num_threads=1)):
        with pytest.raises(UnsupportedPythonError, match=r"requires Python 3\.14"):
            method()
