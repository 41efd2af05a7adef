"""``Pipeline.with_origins`` tells what each output was made of."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineStateError, build_pipeline
from spdl.pipeline.defs import MAIN_PROCESS, Merge, PipelineConfig, SinkConfig, SourceConfig
from spdl.source import DistributedKeyedSampler
from tests.support.ops import double
from tests.support.region_kinds import RegionKind
from tests.support.timeouts import TIMEOUT


@contextmanager
def stopped(pipeline: Any) -> Iterator[None]:
    """Stop a pipeline that its first read starts."""
    try:
        yield
    finally:
        pipeline.stop()


def origins(builder: Any, **options: Any) -> list[Any]:
    pipeline = builder.build(**options)
    with stopped(pipeline):
        return list(pipeline.with_origins(timeout=TIMEOUT))


def test_batches_tell_positions_and_keys() -> None:
    """An aggregate has the positions and keys of its members, in their order, also in completion order."""
    names = [f"{number}.jpg" for number in range(10)]
    builder = PipelineBuilder().add_source(names).pipe(str, concurrency=4).aggregate(4).add_sink()
    found = origins(builder)
    assert sorted(len(origin.positions) for _, origin in found) == [2, 4, 4]
    for batch, origin in found:
        assert batch == list(origin.keys) == [names[position] for position in origin.positions]
        assert origin.failures == ()


def test_positions_are_those_of_all_ranks() -> None:
    """The position of an item does not depend on the number of ranks."""
    one = DistributedKeyedSampler(12, seed=1)
    expected = {position: one[position] for position in range(12)}
    found = {}
    for rank in range(3):
        sampler = DistributedKeyedSampler(12, rank=rank, world_size=3, seed=1)
        for item, origin in origins(PipelineBuilder().add_source(sampler).add_sink()):
            found[origin.positions[0]] = item
    assert found == expected


def test_epochs_and_sources_are_told() -> None:
    """Where there are several sources or epochs, each item says which it is of."""
    subs: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig(source, continuous=True), [], SinkConfig(2)) for source in ("ab", "cd")
    ]
    pipeline: Any = build_pipeline(PipelineConfig(Merge(subs), [], SinkConfig(2)))
    with stopped(pipeline):
        found = [origin.items[0] for _ in range(2) for _, origin in pipeline.with_origins()]
    assert {(each.epoch, each.source, each.position, each.item) for each in found} == {
        (epoch, source, position, "abcd"[2 * source + position])
        for epoch in range(2)
        for source in range(2)
        for position in range(2)
    }


def test_failures_of_the_same_positions_are_told() -> None:
    """An output tells that the rest of its item has failed."""

    def halves(item: int) -> Iterator[int]:
        yield item
        if item == 1:
            raise ValueError("no second half")
        yield -item

    found = origins(PipelineBuilder().add_source(range(3)).pipe(halves).aggregate(5).add_sink())
    ((batch, origin),) = found
    assert (batch, origin.positions) == ([0, 0, 1, 2, -2], (0, 1, 2))
    assert [str(failed.error) for failed in origin.failures] == ["no second half"]


def test_regions_keep_positions(kind: RegionKind) -> None:
    """Outputs of a region have the positions of their inputs."""
    builder = PipelineBuilder().add_source(range(6)).to(kind.workers(2), buffer_size=2)
    found = origins(builder.pipe(double).to(MAIN_PROCESS).add_sink())
    assert sorted((item, origin.keys) for item, origin in found) == [(2 * key, (key,)) for key in range(6)]


def test_items_count_as_consumed_when_they_are_read() -> None:
    """A state that is taken between two items leads to the next one."""
    builder = PipelineBuilder().add_source(range(5)).add_sink()
    pipeline = builder.build(resumable=True)
    with stopped(pipeline):
        items = pipeline.with_origins()
        assert [next(items)[0] for _ in range(2)] == [0, 1]
        state = pipeline.state_dict()
    other = builder.build(resumable=True)
    other.load_state_dict(state)
    with stopped(other):
        assert [(item, *origin.positions) for item, origin in other.with_origins()] == [(2, 2), (3, 3), (4, 4)]


def test_keys_do_not_grow_with_the_run() -> None:
    """What is kept of each item is dropped when the item is consumed."""
    pipeline = PipelineBuilder().add_source(range(5000)).aggregate(100).add_sink().build()
    with stopped(pipeline):
        for _ in pipeline.with_origins():
            pass
        passes: Any = pipeline._engine.nodes[0]
        assert len(passes.passes.keys.of) <= 2000


def test_a_started_pipeline_refuses() -> None:
    """What origins are found by was not kept from the start."""
    pipeline = PipelineBuilder().add_source(range(5)).add_sink().build()
    with pipeline.auto_stop(), pytest.raises(PipelineStateError, match="before the first read"):
        pipeline.with_origins()


def test_a_custom_merge_refuses() -> None:
    """Behind a merge op of the user nobody knows the positions."""

    async def op(info: Any, queues: Any, output: Any) -> None:
        raise AssertionError

    sub: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(3)), [], SinkConfig(2))
    pipeline: Any = build_pipeline(PipelineConfig(Merge([sub, sub], op), [], SinkConfig(2)))
    with pytest.raises(ValueError, match="merge op"):
        pipeline.with_origins()
