"""``PipelineConfig``, and the failure limits that are judged when a whole pipeline is built."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import defs
from spdl.pipeline.defs import (
    Disaggregate,
    Merge,
    MergeConfig,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
    StageConfig,
    validate_max_failures,
)

SOURCE: SourceConfig[int] = SourceConfig([1])
SINK: SinkConfig[Any] = SinkConfig(1)


def op(item: Any) -> Any:
    return item


def test_public_names_are_those_of_the_contract() -> None:
    """``from spdl.pipeline.defs import *`` gives these, and they all exist."""
    assert set(defs.__all__) == {
        "SourceConfig",
        "SinkConfig",
        "Pipe",
        "PipeConfig",
        "Aggregate",
        "AggregateConfig",
        "Aggregator",
        "Collate",
        "Disaggregate",
        "DisaggregateConfig",
        "Merge",
        "MergeConfig",
        "Outputs",
        "PathVariants",
        "PathVariantsConfig",
        "PlacementConfig",
        "ExecutorConfig",
        "ProcessPoolExecutorConfig",
        "InterpreterPoolExecutorConfig",
        "MAIN_PROCESS",
        "PipelineConfig",
        "Rate",
        "Retry",
    }
    assert all(hasattr(defs, name) for name in defs.__all__)


def test_pipeline_keeps_its_parts() -> None:
    """A source or a merge, stages, a sink."""
    stages: list[StageConfig] = [Pipe(op), Disaggregate()]
    config = PipelineConfig(SOURCE, stages, SINK)
    assert (config.src, config.pipes, config.sink) == (SOURCE, stages, SINK)
    merge = Merge([config])
    assert PipelineConfig(merge, [], SINK).src is merge


@pytest.mark.parametrize(
    ("src", "pipes", "sink", "text"),
    [
        ([1], [], SINK, "src must be a SourceConfig or a MergeConfig, got list"),
        (PipelineConfig(SOURCE, [], SINK), [], SINK, "src must be a SourceConfig or a MergeConfig, got PipelineConfig"),
        (SOURCE, [], 3, "sink must be a SinkConfig, got int"),
        (SOURCE, Pipe(op), SINK, "pipes must be a sequence of stages, got PipeConfig"),
        (SOURCE, iter([]), SINK, "pipes must be a sequence of stages, got list_iterator"),
        (SOURCE, [Pipe(op), op], SINK, "got function at position 1 of pipes"),
        (SOURCE, [SINK], SINK, "got SinkConfig at position 0 of pipes"),
        (SOURCE, [Merge([PipelineConfig(SOURCE, [], SINK)])], SINK, "a merge cannot be a stage .* give it as src"),
    ],
)
def test_pipeline_refuses_parts_of_the_wrong_type(src: Any, pipes: Any, sink: Any, text: str) -> None:
    """The error says which part, and where."""
    with pytest.raises(TypeError, match=text):
        PipelineConfig(src, pipes, sink)


@given(st.integers() | st.fractions(min_value=0, max_value=1).filter(bool))
def test_counts_and_shares_are_limits(limit: int | Fraction) -> None:
    """Any number of failures, and any share of calls up to all of them."""
    assert validate_max_failures(limit) == limit


@pytest.mark.parametrize("limit", [Fraction(0), Fraction(-1, 2), Fraction(3, 2), Fraction(2)])
def test_fraction_that_is_no_share_is_refused(limit: Fraction) -> None:
    """The message says whose limit it is."""
    with pytest.raises(ValueError, match=rf"max_failures of stage 'x', .* must be in range \(0, 1\], got {limit}"):
        validate_max_failures(limit, "stage 'x'")


@pytest.mark.parametrize("limit", [True, 0.5, "1", None])
def test_limit_of_another_type_is_refused(limit: Any) -> None:
    """The message says what to use in place of a float."""
    with pytest.raises(TypeError, match=r"fractions\.Fraction"):
        validate_max_failures(limit)


def merged_by(sizes: Sequence[int]) -> PipelineConfig[Any]:
    """A merge of merges: ``sizes`` says how many pipelines are merged at each level, from the outside in."""
    if not sizes:
        return PipelineConfig(SourceConfig([0]), [Pipe(str)], SinkConfig(1))
    return PipelineConfig(Merge([merged_by(sizes[1:]) for _ in range(sizes[0])]), [Pipe(str)], SinkConfig(1))


@pytest.mark.parametrize("sizes", [(), (1,), (3,), (2, 3), (1, 2, 2)])
def test_a_walk_finds_every_pipeline_once(sizes: tuple[int, ...]) -> None:
    """Those that are merged before what they are merged into, as items go; and changes reach all of them."""
    config = merged_by(sizes)
    found = config._walk()
    assert len(found) == sum(math.prod(sizes[:depth]) for depth in range(len(sizes) + 1))
    assert found[-1] is config
    place = {id(each): number for number, each in enumerate(found)}
    assert len(place) == len(found)
    for each in found:
        for sub in each.src.pipeline_configs if isinstance(each.src, MergeConfig) else ():
            assert place[id(sub)] < place[id(each)]
    depth = config._fold(lambda _, merged: 1 + max(merged, default=0))
    assert depth == len(sizes) + 1
    changed = config._with_pipes(lambda each: [*each.pipes, Pipe(len)])
    assert [len(each.pipes) for each in changed._walk()] == [2] * len(found)
    assert [len(each.pipes) for each in found] == [1] * len(found)
