"""Batches directly behind a source: items of lists, tuples and ranges are taken many at a time, and nobody can tell."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline, PipelineBuilder, build_pipeline
from spdl.pipeline.defs import Aggregate, Merge, PipelineConfig, SinkConfig, SourceConfig
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left
from tests.support.running import TIMEOUT, build_of, run, running


class Plain:
    """Iterates with a generator: one item at a time."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)

    def __iter__(self) -> Iterator[Any]:
        yield from self.items


KINDS: list[Callable[[int], Any]] = [
    lambda n: list(range(n)),
    lambda n: tuple(range(n)),
    range,
    lambda n: range(2**70, 2**70 + n),
]
kinds = pytest.mark.parametrize("make", KINDS, ids=["list", "tuple", "range", "large range"])


def collated(source: Any, num_items: int, **options: Any) -> Any:
    return build_of(source, lambda b: b.aggregate(num_items, **options), sink=1)


@kinds
@cases(20)
@given(num=st.integers(0, 700), num_items=st.sampled_from([1, 2, 3, 32, 256, 257, 300]), drop_last=st.booleans())
def test_batches_are_those_of_a_generator(make: Any, num: int, num_items: int, drop_last: bool) -> None:
    """However many items are taken at a time."""
    source = make(num)
    with nothing_left():
        batches = run(collated(source, num_items, drop_last=drop_last))
    assert batches == run(collated(Plain(source), num_items, drop_last=drop_last))


@kinds
def test_epochs_do_not_mix(make: Any) -> None:
    """The items of an epoch end with it."""
    builder = PipelineBuilder().add_source(make(10), continuous=True).aggregate(4).add_sink(1)
    with running(builder) as pipeline:
        for _ in range(3):
            assert [len(batch) for batch in pipeline.get_iterator(timeout=TIMEOUT)] == [4, 4, 2]


@kinds
def test_origins_and_counts_are_those_of_a_generator(make: Any) -> None:
    """Every item has its position, and counts as taken."""
    found = []
    for source in (make(11), Plain(make(11))):
        pipeline: Pipeline[Any] = collated(source, 4).build(num_threads=1)
        read = pipeline.with_origins()
        with pipeline.auto_stop():
            origins = [[item.position for item in origin.items] for _, origin in read]
        stats = pipeline.stats()
        found.append((origins, [(stage.num_calls, stage.num_dropped) for stage in stats.stages]))
    assert found[0] == found[1]
    assert found[0][0] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


@kinds
@pytest.mark.parametrize("num_read", range(4))
def test_a_resumed_pipeline_has_the_rest(make: Any, num_read: int) -> None:
    """Items that were taken and not read are issued again."""
    source = make(11)
    with running(collated(source, 4), resumable=True) as pipeline:
        for _ in range(num_read):
            pipeline.get_item(timeout=TIMEOUT)
        state = pipeline.state_dict()
    other = collated(source, 4).build(num_threads=1, resumable=True)
    other.load_state_dict(state)
    with other.auto_stop():
        rest = [item for batch in other.get_iterator(timeout=TIMEOUT) for item in batch]
    assert rest == list(source)[4 * num_read :]


@kinds
def test_sources_that_are_merged_keep_their_positions(make: Any) -> None:
    """Each has its own."""
    subs: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig(make(num)), [Aggregate(4)], SinkConfig(1)) for num in (7, 5)
    ]
    pipeline: Pipeline[Any] = build_pipeline(PipelineConfig(Merge(subs), [], SinkConfig(1)), num_threads=1)
    with nothing_left(), pipeline.auto_stop():
        sizes = sorted(len(batch) for batch in pipeline)
        assert sizes == [1, 3, 4, 4]
    ledger = pipeline._engine.ledger
    assert [each.num_issued for each in ledger.sources] == [7, 5]
    assert not any(each.pending for each in ledger.sources)
