"""``repr`` of a pipeline: its graph."""

from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder, build_pipeline
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig


def test_repr_has_a_line_per_stage() -> None:
    """With its id, its name, and the number of calls that may run at once."""
    pipeline = (
        PipelineBuilder().add_source(range(3)).pipe(str, concurrency=8).aggregate(2).add_sink().build(num_threads=4)
    )
    number = pipeline.stats().stages[0].info.pipeline_id
    assert repr(pipeline).splitlines() == [
        f"<Pipeline {number}, new, 4 threads>",
        "  0  src",
        "  1  str[8]",
        "  2  aggregate(op=collate(2), drop_last=False)",
        "  3  sink",
    ]


def test_repr_shows_what_a_stage_reads_unless_it_is_the_one_above() -> None:
    """So that merges and paths can be followed."""
    merged = Merge([PipelineConfig(SourceConfig(range(2)), [Pipe(str)], SinkConfig(1)) for _ in range(2)])
    pipeline: Pipeline[Any] = build_pipeline(PipelineConfig(merged, [], SinkConfig(1)), num_threads=1)
    assert repr(pipeline).splitlines()[1:] == [
        "  0  merge  <- 2, 4",
        "  1  src",
        "  2  str",
        "  3  src",
        "  4  str",
        "  5  sink  <- 0",
    ]
