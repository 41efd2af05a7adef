"""Exceptions that refuse to be noted or shown, in other processes: they arrive as well as they can be told."""

import pytest

from spdl.pipeline import PipelineBuilder, WorkerError, run_pipeline_in_subprocess
from spdl.pipeline.defs import Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.strategies.hostile import FailingOp, FailingSource
from tests.strategies.watch import BOUND

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("frozen", "FrozenError"),
        ("refuses-attributes", "ClosedError"),
        ("str-exits", "its str failed with SystemExit"),
        ("notes-no-list", "NotedError: noted"),
    ],
)
def test_a_pipeline_in_a_subprocess_tells_what_ended_it(name: str, said: str) -> None:
    """The item that failed costs itself, and the source's error is the reader's."""
    config: PipelineConfig[int] = PipelineConfig(
        SourceConfig(FailingSource(name)), [Pipe(FailingOp(name))], SinkConfig(2)
    )
    outputs = iter(run_pipeline_in_subprocess(config, num_threads=1, timeout=BOUND))
    assert next(outputs) == 0
    with pytest.raises(WorkerError, match=said):
        next(outputs)


@pytest.mark.parametrize("name", ["frozen", "str-exits"])
def test_an_isolated_op_costs_the_item(name: str) -> None:
    """Its process describes the exception and goes on."""
    builder = PipelineBuilder().add_source(range(3)).pipe(FailingOp(name), isolate=True)
    pipeline = builder.add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=BOUND)) == [0, 2]
    assert pipeline.stats().stages[1].num_failures == 1
