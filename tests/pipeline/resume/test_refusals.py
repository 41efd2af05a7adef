"""What cannot be resumed exactly is refused when it is built: the message names the stage and what to do."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, build_pipeline
from spdl.pipeline.batching import MaxWait, PackSequences
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    Outputs,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    SinkConfig,
    SourceConfig,
)
from tests.support.running import TIMEOUT, build_of


class Vague(Aggregator[Any, Any]):
    """Says nothing about what it holds back."""

    def accumulate(self, item: Any) -> Any:
        return [item]

    def flush(self) -> Any:
        return None


def twice(item: Any) -> Iterator[Any]:
    yield from (item, item)


async def drain(info: Any, inputs: Any, output: Any) -> None:
    """A merge op."""


def config(*stages: Any, source: Any = None, op: Any = None) -> PipelineConfig[Any]:
    given = PipelineConfig[Any](SourceConfig([1] if source is None else source), [], SinkConfig(1))
    return PipelineConfig(given.src if op is None else Merge([given, given], op), list(stages), SinkConfig(1))


WORKERS = PlacementConfig(ProcessPoolExecutorConfig(1))


@pytest.mark.parametrize(
    ("config", "messages"),
    [
        (config(op=drain), ["merge op", "Use Merge without op"]),
        (config(source={1, 2}), ["a set has no order", r"Use sorted\(...\)"]),
        (config(Aggregate(Vague())), ["stage aggregate.op=Vague", "declare is_exact = True"]),
        (config(Aggregate(2), Pipe(twice)), ["stage twice", "Put it before the aggregate"]),
        (config(Aggregate(2), Disaggregate()), ["stage disaggregate", "Put it before the aggregate"]),
        (
            config(PathVariants(int, [[Aggregate(2)], [Pipe(int)]]), Pipe(twice, name="later")),
            ["stage later", "Put it before the aggregate"],
        ),
        (
            config(PathVariants(len, [[Aggregate(2)]], batched=True)),
            ["moves items from one batch to another", "before the path variants"],
        ),
        (config(WORKERS, Pipe(twice), PlacementConfig(MAIN_PROCESS)), ["stage twice", "before or behind the region"]),
        (
            config(WORKERS, Aggregate(PackSequences(4)), PlacementConfig(MAIN_PROCESS)),
            ["PackSequences", "Put the aggregate behind the region"],
        ),
    ],
)
def test_what_is_not_exact_is_refused(config: PipelineConfig[Any], messages: list[str]) -> None:
    """Or accepted, and the state says what is approximate."""
    with pytest.raises(ValueError, match="cannot be resumed exactly") as caught:
        build_pipeline(config, resumable=True)
    for message in messages:
        caught.match(message)
    pipeline = build_pipeline(config, resumable="best-effort")
    (reason,) = json.loads(pipeline.state_dict()["spdl"])["approximate"]
    assert reason in str(caught.value)


async def later(item: Any) -> AsyncIterator[Any]:
    yield item


def test_what_is_exact_is_accepted() -> None:
    """Generators before aggregates; paths; aggregates that say what they hold; batches that are taken apart."""
    accepted = config(
        Pipe(twice),
        Pipe(later),
        PathVariants(int, [[Pipe(twice)], [Pipe(int)]]),
        Aggregate(MaxWait(PackSequences(3), 1)),
        Aggregate(2),
        PathVariants(len, [[Pipe(twice)]], batched=True),
    )
    assert json.loads(build_pipeline(accepted, resumable=True).state_dict()["spdl"])["approximate"] == []
    assert build_pipeline(config(WORKERS, Pipe(int), Aggregate(2), PlacementConfig(MAIN_PROCESS)), resumable=True)


def test_an_aggregator_must_keep_what_it_declares() -> None:
    """Several outputs without ``inputs`` fail the stage."""

    class Wrong(Vague):
        is_exact = True

        def accumulate(self, item: Any) -> Any:
            return Outputs([item, item])

    builder: PipelineBuilder[Any, Any] = build_of([1], lambda b: b.aggregate(Wrong()))
    pipeline = builder.build(resumable=True)
    with pytest.raises(ExceptionGroup) as caught, pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=TIMEOUT))
    assert "declares is_exact, but returned" in str(caught.value.exceptions[0])


def test_best_effort_loses_nothing_that_an_aggregator_has_just_taken() -> None:
    """The newest item may be read twice, if the aggregator did not hold it back."""

    class Pairs(Vague):
        """Emits an item when the next one has come."""

        def __init__(self) -> None:
            self.held: list[Any] = []

        def accumulate(self, item: Any) -> Any:
            given, self.held = self.held, [item]
            return given or None

        def flush(self) -> Any:
            given, self.held = self.held, []
            return given or None

    def made() -> Any:
        return build_of(list(range(6)), lambda b: b.aggregate(Pairs())).build(resumable="best-effort")

    pipeline = made()
    with pipeline.auto_stop():
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(3)] == [[0], [1], [2]]
        state = pipeline.state_dict()
    pipeline = made()
    pipeline.load_state_dict(state)
    with pipeline.auto_stop():
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [[3], [4], [5]]
