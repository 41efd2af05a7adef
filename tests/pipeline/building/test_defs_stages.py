"""Sources, sinks, aggregates, merges and path variants: what their descriptions accept and keep."""

import enum
import pickle
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    AggregateConfig,
    Aggregator,
    Collate,
    Disaggregate,
    DisaggregateConfig,
    Merge,
    MergeConfig,
    PathStage,
    PathVariants,
    PathVariantsConfig,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    SinkConfig,
    SourceConfig,
)


def op(item: Any) -> Any:
    return item


def router(item: Any) -> int:
    return 0


async def merge_op(info: Any, inputs: Any, output: Any) -> None: ...


class SyncSource:
    def __iter__(self) -> Iterator[int]:
        yield 1


class AsyncSource:
    async def __aiter__(self) -> AsyncIterator[int]:
        yield 1


class Colour(enum.Enum):
    RED = 1


class NotIterable:
    __iter__ = None

    def __getitem__(self, index: int) -> int:
        return index


class Sum(Aggregator[int, int]):
    """Adds up to ten."""

    def __init__(self) -> None:
        self.total = 0

    def accumulate(self, item: int) -> int | None:
        self.total += item
        return self.flush() if self.total >= 10 else None

    def flush(self) -> int | None:
        total, self.total = self.total, 0
        return total


def pipeline(*stages: Any) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig([1]), stages, SinkConfig(1))


# -- source and sink


@pytest.mark.parametrize("source", [[1], range(3), "text", {1: 2}, SyncSource(), AsyncSource(), Colour, iter([1])])
def test_source_is_anything_iterable(source: Any) -> None:
    """Both kinds of iterables will do, also a class whose metaclass iterates it."""
    assert SourceConfig(source).source is source
    assert SourceConfig(source).continuous is False


@pytest.mark.parametrize("source", [5, None, object(), list, SyncSource, NotIterable()])
def test_source_that_cannot_be_iterated_is_refused(source: Any) -> None:
    """That is found when it is described, not when the pipeline runs."""
    with pytest.raises(ValueError, match="source must have __iter__ or __aiter__, got "):
        SourceConfig(source)


def test_iterables_are_not_iterated_by_the_check() -> None:
    """Describing a source takes nothing from it."""
    source = iter([1, 2])
    SourceConfig(source)
    assert list(source) == [1, 2]


@pytest.mark.parametrize("size", [0, -1, 1.5, "3", None, True])
def test_sink_size_that_is_no_positive_int_is_refused(size: Any) -> None:
    """Whatever is wrong with it, it is a ValueError."""
    with pytest.raises(ValueError, match="buffer_size must be"):
        SinkConfig(size)


@given(st.integers(min_value=1))
def test_sink_size_can_be_any_positive_int(size: int) -> None:
    """There is no upper limit."""
    assert SinkConfig(size).buffer_size == size
    assert SinkConfig[int](size) == SinkConfig(size)


# -- aggregate


def test_aggregate_of_an_int_is_collate() -> None:
    """The number is the length of the lists."""
    config = Aggregate(3)
    assert isinstance(config.op, Collate)
    assert config.op.num_items == 3
    assert config.drop_last is False
    assert config.name == "aggregate(op=collate(3), drop_last=False)"
    assert Aggregate(2, drop_last=True).name == "aggregate(op=collate(2), drop_last=True)"


def test_aggregate_keeps_the_aggregator() -> None:
    """The object that was given is the one that runs, and its class is in the name."""
    own = Sum()
    config = Aggregate(own, drop_last=True)
    assert config.op is own
    assert config == AggregateConfig("aggregate(op=Sum, drop_last=True)", own, True)


@pytest.mark.parametrize("bad", [True, False, 2.0, "3", None, [1], Sum])
def test_aggregate_takes_nothing_else(bad: Any) -> None:
    """A bool is no number of items."""
    with pytest.raises(TypeError, match=r"an int .* or an Aggregator"):
        Aggregate(bad)


@pytest.mark.parametrize("n", [0, -1])
def test_lists_have_at_least_one_item(n: int) -> None:
    """Lists of none would never be complete."""
    with pytest.raises(ValueError, match="must be >= 1"):
        Aggregate(n)
    with pytest.raises(ValueError, match="must be >= 1"):
        Collate(n)


@pytest.mark.parametrize("n", [True, 1.0, "2", None])
def test_collate_takes_ints_only(n: Any) -> None:
    """The length of a list is a whole number."""
    with pytest.raises(TypeError, match="n must be an int"):
        Collate(n)


def test_config_of_an_aggregate_takes_aggregators_only() -> None:
    """A number is turned into an aggregator by the function, not by the config."""
    with pytest.raises(TypeError, match="op must be an Aggregator"):
        AggregateConfig("x", 3)  # type: ignore[arg-type]  # what is tested


def test_aggregator_is_abstract() -> None:
    """Both methods have to be there."""
    with pytest.raises(TypeError, match="abstract"):
        Aggregator()  # type: ignore[abstract]  # what is tested


@given(st.lists(st.integers()), st.integers(1, 7))
def test_collate_divides_a_stream_into_lists(items: list[int], n: int) -> None:
    """Every item is in one list, in order, and only the last list may be shorter."""
    collate: Collate[int] = Collate(n)
    lists = [full for item in items if (full := collate.accumulate(item)) is not None]
    assert all(len(full) == n for full in lists)
    rest = collate.flush()
    assert [item for full in lists for item in full] + (rest or []) == items
    assert rest is None or 0 < len(rest) < n
    assert collate.flush() is None


def test_disaggregate_has_a_name() -> None:
    """There is nothing else to say about it."""
    assert Disaggregate() == DisaggregateConfig("disaggregate")


# -- merge


def test_merge_of_nothing_is_refused() -> None:
    """It would have no items."""
    with pytest.raises(ValueError, match="at least one upstream pipeline"):
        Merge([])
    with pytest.raises(ValueError, match="at least one upstream pipeline"):
        MergeConfig(())


def test_merge_keeps_pipelines_and_op() -> None:
    """The sequence becomes a tuple, so it cannot change later."""
    first, second = pipeline(), pipeline(Pipe(op))
    config = Merge([first, second], op=merge_op)
    assert config.pipeline_configs == (first, second)
    assert config.op is merge_op
    assert Merge([first]).op is None


def test_merge_takes_pipelines_only() -> None:
    """Sources and stages cannot be merged as they are."""
    with pytest.raises(TypeError, match="takes PipelineConfigs, got SourceConfig at position 1"):
        Merge([pipeline(), SourceConfig([1])])  # type: ignore[list-item]  # what is tested
    with pytest.raises(TypeError, match="op must be an async function"):
        Merge([pipeline()], op=5)  # type: ignore[arg-type]  # what is tested


# -- path variants


def test_path_variants_keep_router_and_paths() -> None:
    """Sequences become tuples; the name has a default."""
    paths: list[Sequence[PathStage]] = [[Pipe(op), Aggregate(2)], (Disaggregate(),)]
    config = PathVariants(router, paths)
    assert config == PathVariantsConfig("path_variants", router, tuple(map(tuple, paths)), False)
    assert PathVariants(router, paths, "by_kind", True) == PathVariantsConfig(
        "by_kind", router, tuple(map(tuple, paths)), True
    )


def test_path_variants_nest() -> None:
    """A path may divide again."""
    inner = PathVariants(router, [[Pipe(op)]])
    assert PathVariants(router, [[inner]]).paths == ((inner,),)


@pytest.mark.parametrize(
    ("call", "paths", "text"),
    [
        (5, [[Pipe(op)]], "router must be callable"),
        (None, [[Pipe(op)]], "router must be callable"),
        (router, [], "at least one path"),
        (router, [[Pipe(op)], []], "path 1 is empty"),
        (router, [[SourceConfig([1])]], "path 0, position 0: .* got SourceConfig"),
        (router, [[Pipe(op)], [Pipe(op), SinkConfig(1)]], "path 1, position 1: .* got SinkConfig"),
        (router, [[PlacementConfig(MAIN_PROCESS)]], "path 0, position 0: .* got PlacementConfig"),
        (router, [[Merge([pipeline()])]], "got MergeConfig"),
        (router, [[op]], "got function"),
        (router, [Pipe(op)], "path 0 must be a sequence of stages, got PipeConfig"),
        (router, Pipe(op), "paths must be a sequence of paths, got PipeConfig"),
    ],
)
def test_path_variants_refuse_what_cannot_run(call: Any, paths: Any, text: str) -> None:
    """The error says in which path and where."""
    with pytest.raises(ValueError, match=text):
        PathVariants(call, paths)


def test_config_of_path_variants_checks_the_same() -> None:
    """Made directly, it is no less valid."""
    with pytest.raises(ValueError, match="path 0 is empty"):
        PathVariantsConfig("x", router, ((),))


# -- all


@pytest.mark.parametrize(
    "config",
    [
        SourceConfig([1, 2], continuous=True),
        SinkConfig(3),
        Disaggregate(),
        Merge([pipeline(Pipe(op))], op=merge_op),
        PathVariants(router, [[Pipe(op)], [Disaggregate()]], "x", True),
        pipeline(Pipe(op), Disaggregate()),
    ],
    ids=lambda config: type(config).__name__,
)
def test_configs_are_equal_after_pickling(config: Any) -> None:
    """A description means the same in another process."""
    assert pickle.loads(pickle.dumps(config)) == config


def test_aggregate_pickles_with_its_aggregator() -> None:
    """Aggregators travel with what they hold."""
    own = Sum()
    own.accumulate(3)
    restored = pickle.loads(pickle.dumps(Aggregate(own)))
    assert restored.op.total == 3
    assert pickle.loads(pickle.dumps(Aggregate(4))).op.num_items == 4
