"""Pipelines far longer than the interpreter's stack is deep: ends, marks and items pass through all of their stages."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineFailure, build_pipeline
from spdl.pipeline.defs import (
    Aggregate,
    Disaggregate,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)
from tests.strategies.watch import BOUND

#: Nobody recursed so far: the interpreter's limit is 1000 calls, and each stage was several.
NUM_STAGES = 1200


def same(item: Any) -> Any:
    return item


async def same_async(item: Any) -> Any:
    return item


def generate(item: Any) -> Iterator[Any]:
    yield item


async def generate_async(item: Any) -> AsyncIterator[Any]:
    yield item


def refuse(item: Any) -> Any:
    raise LookupError("refused")


def chain(stages: list[Any], source: Any = (), *, continuous: bool = False) -> Pipeline[Any]:
    config: PipelineConfig[Any] = PipelineConfig(SourceConfig(source, continuous=continuous), stages, SinkConfig(2))
    return build_pipeline(config, num_threads=2)


_STAGES: dict[str, Callable[[int], Any]] = {
    "pipe": lambda number: Pipe(same),
    "ordered": lambda number: Pipe(same, concurrency=2, output_order="input"),
    "async": lambda number: Pipe(same_async),
    "generator": lambda number: Pipe(generate),
    "async-generator": lambda number: Pipe(generate_async),
    "aggregate": lambda number: Aggregate(1),
    "drop-last": lambda number: Aggregate(1, drop_last=True),
    "in-and-out": lambda number: Disaggregate() if number % 2 else Aggregate(1),
    "paths": lambda number: PathVariants(lambda item: 0, [[Pipe(same)]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", _STAGES)
def test_the_end_passes_through_any_number_of_stages(kind: str) -> None:
    """All are idle as the source ends."""
    pipeline = chain([_STAGES[kind](number) for number in range(NUM_STAGES)])
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=BOUND)) == []
    assert pipeline.stats().state == "ended"


@pytest.mark.slow
def test_the_end_passes_through_five_thousand_stages() -> None:
    """The same, and longer than anybody needs."""
    pipeline = chain([Pipe(same)] * 5000)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=BOUND)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pipe", "aggregate", "in-and-out"])
def test_epochs_pass_through_any_number_of_stages(kind: str) -> None:
    """Marks, and what an aggregate holds at one."""
    pipeline = chain([_STAGES[kind](number) for number in range(NUM_STAGES)], [1], continuous=True)
    with pipeline.auto_stop():
        for _ in range(2):
            (found,) = pipeline.get_iterator(timeout=BOUND)
            while isinstance(found, list):
                (found,) = found
            assert found == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["aggregate", "generator"])
def test_origins_may_be_nested_any_number_of_times(kind: str) -> None:
    """The item fails at the end: its position is consumed, and the failure can be asked where it came from."""
    pipeline = chain([*(_STAGES[kind](number) for number in range(NUM_STAGES)), Pipe(refuse, max_failures=-1)], [1])
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=BOUND)) == []
    (failure,) = pipeline.stats().stages[-2].failures
    origin: Any = failure.origin
    depth = 0
    while isinstance(origin, tuple):
        origin = origin[0]
        depth += 1
    assert (origin, depth) == (0, NUM_STAGES)
    assert pipeline._engine.ledger.sources[0].is_consumed(0)


@pytest.mark.slow
def test_a_failure_passes_through_any_number_of_stages() -> None:
    """Upstream is cancelled, downstream drains."""
    middle = Pipe(refuse, max_failures=0)
    pipeline = chain([*[Pipe(same)] * NUM_STAGES, middle, *[Pipe(same)] * NUM_STAGES], range(10**6))
    with pytest.raises(PipelineFailure), pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=BOUND))
