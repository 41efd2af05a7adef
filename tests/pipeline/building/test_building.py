"""Builders and configs: what they build, and what they refuse."""

import asyncio
import functools
import pickle
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStructureError, build_pipeline
from spdl.pipeline.defs import (
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)
from tests.support.doubling import Doubler
from tests.support.running import TIMEOUT, build_of, drain, run, running


def double(item: int) -> int:
    return 2 * item


async def double_async(item: int) -> int:
    await asyncio.sleep(0)
    return 2 * item


def scale(factor: int, item: int) -> int:
    return factor * item


class Doubled:
    """As a torch ``Dataset``: ``__getitem__`` alone."""

    def __getitem__(self, index: int) -> int:
        return 2 * index


def test_builds_of_one_builder_are_independent() -> None:
    """A ``range`` starts again with each build, at the same time too."""
    builder = build_of(range(3), lambda b: b.pipe(double))
    with running(builder) as one, running(builder) as other:
        assert one.get_item(timeout=TIMEOUT) == 0
        assert list(other.get_iterator(timeout=TIMEOUT)) == [0, 2, 4]
        assert list(one.get_iterator(timeout=TIMEOUT)) == [2, 4]


def test_builds_of_one_builder_share_a_generator() -> None:
    """A generator that one build has used up is empty for the next."""
    builder = build_of((item for item in range(3)), lambda b: b.pipe(double))
    assert run(builder) == [0, 2, 4]
    assert run(builder) == []


def test_a_builder_can_be_extended_after_a_build() -> None:
    """What was built keeps the stages it had."""
    builder = PipelineBuilder[Any, Any]().add_source(range(3)).pipe(double).add_sink(3)
    before = builder.build(num_threads=1)
    builder.pipe(double)
    assert drain(before) == ([0, 2, 4], None)
    assert run(builder) == [0, 4, 8]


def test_a_builder_and_its_config_pickle_and_run() -> None:
    """If source and ops do; also with limits, orders and aggregates."""
    builder = build_of(
        range(4), lambda b: b.pipe(double, concurrency=2, output_order="input", max_failures=3).aggregate(3)
    )
    copy = pickle.loads(pickle.dumps(builder))
    assert run(copy) == [[0, 2, 4], [6]]
    config = pickle.loads(pickle.dumps(builder.get_config()))
    assert drain(build_pipeline(config, num_threads=1)) == ([[0, 2, 4], [6]], None)


def test_a_pipeline_without_stages_passes_items() -> None:
    """Source and sink are enough; without one of them it is a structure error."""
    assert run(build_of([1, None, 2])) == [1, None, 2]
    with pytest.raises(PipelineStructureError, match="source") as raised:
        PipelineBuilder[Any, Any]().add_sink().build()
    assert isinstance(raised.value, RuntimeError)
    with pytest.raises(PipelineStructureError, match="sink"):
        PipelineBuilder[Any, Any]().add_source([]).build()
    with pytest.raises(PipelineStructureError, match="sink"):
        PipelineBuilder[Any, Any]().add_source([]).get_config()


def test_the_declarative_form_runs_like_the_fluent_one() -> None:
    """A hand-built config is a pipeline, with any sequence of stages."""
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(range(3)), (Pipe(double), Pipe(double_async)), SinkConfig(2)
    )
    assert drain(build_pipeline(config, num_threads=2)) == ([0, 4, 8], None)


@pytest.mark.parametrize("num_threads", [0, -1])
def test_no_threads_are_refused(num_threads: int) -> None:
    """The message names the argument and what was given."""
    with pytest.raises(ValueError, match=f"num_threads.*{num_threads}"):
        build_of([1]).build(num_threads=num_threads)


def test_the_number_of_threads_is_chosen_from_the_usable_cpus() -> None:
    """``None`` means a number that ``stats`` shows; a given one is taken as it is."""
    chosen: Pipeline[Any] = build_of([1]).build()
    assert chosen.stats().num_threads >= 1
    assert build_of([1]).build(num_threads=5).stats().num_threads == 5


def test_a_build_error_carries_the_config() -> None:
    """The note shows which pipeline could not be built."""
    with pytest.raises(TypeError) as raised:
        build_of([1], lambda b: b.pipe(double, name="the_stage")).build(max_failures=0.5)
    assert any("the_stage" in note for note in raised.value.__notes__)


def test_names_come_from_the_op() -> None:
    """Its ``__name__``, through ``partial``; else its class; ``__getitem__`` for containers."""
    builder = build_of(
        [0],
        lambda b: b.pipe(double).pipe(functools.partial(scale, 1)).pipe(Doubler()).pipe(Doubled()),
        lambda b: b.pipe(Doubler().method).pipe(double, name="mine"),
    )
    stages = builder.build(num_threads=1).stats().stages
    names = [stage.info.stage_name for stage in stages]
    assert names == ["src", "double", "scale", "Doubler", "__getitem__", "method", "mine", "sink"]
