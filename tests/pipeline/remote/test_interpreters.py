"""Names of subinterpreters: they are there, and say what they need."""

import sys
from functools import partial

import pytest

import spdl.pipeline
from spdl.pipeline import (
    PipelineBuilder,
    PriorityInterpreterPoolExecutor,
    UnsupportedPythonError,
    iterate_in_subinterpreter,
    run_pipeline_in_subinterpreter,
)
from spdl.pipeline.defs import MAIN_PROCESS, InterpreterPoolExecutorConfig
from tests.support import remote

OLD = sys.version_info < (3, 14)
#: Why there is no pipeline in a subinterpreter.
REASON = r"requires Python 3\.14" if OLD else "cannot run on Python .*: subinterpreters have no daemon threads"


def test_names_are_public() -> None:
    """They are found and listed, whatever the Python."""
    names = {"iterate_in_subinterpreter", "run_pipeline_in_subinterpreter", "PriorityInterpreterPoolExecutor"}
    assert names <= set(spdl.pipeline.__all__)


def test_iterating_says_what_it_requires() -> None:
    """A RuntimeError of its own type, with the way out."""
    with pytest.raises(UnsupportedPythonError, match=f"{REASON}.*iterate_in_subprocess"):
        iterate_in_subinterpreter(partial(remote.give, [1]))
    with pytest.raises(RuntimeError, match=REASON):
        iterate_in_subinterpreter(
            partial(remote.give, [1]), buffer_size=3, initializer=partial(remote.note, "x"), timeout=1.0
        )
    assert remote.noted() == []  # nothing was started


def test_running_says_what_it_requires() -> None:
    """The same for a pipeline, with every argument that will be."""
    builder = PipelineBuilder[int, int]().add_source(range(3)).add_sink(1)
    with pytest.raises(UnsupportedPythonError, match=f"{REASON}.*run_pipeline_in_subprocess"):
        run_pipeline_in_subinterpreter(
            builder,
            num_threads=1,
            max_failures=0,
            report_stats_interval=-1,
            queue_class=None,
            task_hook_factory=None,
            background_tasks=None,
            use_thread_output_queue=False,
            timeout=1.0,
        )
    with pytest.raises(UnsupportedPythonError, match=REASON):
        run_pipeline_in_subinterpreter(builder.get_config(), num_threads=1, buffer_size=2)


@pytest.mark.skipif(not OLD, reason="there are such pools")
def test_pools_say_what_they_require() -> None:
    """At the constructor."""
    with pytest.raises(UnsupportedPythonError, match=REASON):
        PriorityInterpreterPoolExecutor(1)


def test_regions_say_what_they_require() -> None:
    """When the builder is asked for its description, or for the pipeline."""
    builder = PipelineBuilder[int, int]().add_source(range(3)).to(InterpreterPoolExecutorConfig(1)).pipe(str)
    builder.to(MAIN_PROCESS).add_sink(1)
    for method in (builder.get_config, partial(builder.build, num_threads=1)):
        with pytest.raises(UnsupportedPythonError, match=REASON):
            method()
