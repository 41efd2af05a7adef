"""States at the end of an epoch: ranks that have read it and ranks that have not, and streams that are over."""

import json
from typing import Any

import pytest

from spdl import resume
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.source import DistributedKeyedSampler
from spdl.source.utils import MergeIterator


def make(rank: int, world: int, *, is_continuous: bool) -> Pipeline[Any]:
    sampler = DistributedKeyedSampler(12, rank=rank, world_size=world, seed=0)
    builder = PipelineBuilder[Any, Any]().add_source(sampler, continuous=is_continuous)
    return builder.aggregate(2).add_sink(2).build(num_threads=1, resumable=True)


@pytest.mark.parametrize("reader", [0, 1])
@pytest.mark.parametrize("is_continuous", [False, True])
def test_ranks_get_the_end_together(is_continuous: bool, reader: int) -> None:
    """One has read it, the other has only consumed all before it."""
    states = []
    for rank in range(2):
        pipeline = make(rank, 2, is_continuous=is_continuous)
        with pipeline.auto_stop():
            batches = iter(pipeline)
            for _ in range(3):
                next(batches)
            if rank == reader:
                assert next(batches, None) is None
            states.append(pipeline.state_dict())
    state = json.loads(json.dumps(resume.gather(states)))
    for rank in range(2):
        pipeline = make(rank, 2, is_continuous=is_continuous)
        pipeline.load_state_dict(state)
        with pipeline.auto_stop():
            assert list(pipeline) == []
            if is_continuous:
                sampler = DistributedKeyedSampler(12, rank=rank, world_size=2, seed=0)
                sampler.set_epoch(1)
                assert [index for batch in pipeline for index in batch] == list(sampler)


@pytest.mark.parametrize("num_taken", [2, 3])
def test_ranks_at_the_same_step_keep_their_place(num_taken: int) -> None:
    """All before the end, or all after it."""
    states = []
    for rank in range(2):
        pipeline = make(rank, 2, is_continuous=True)
        with pipeline.auto_stop():
            batches = iter(pipeline)
            for _ in range(num_taken):
                next(batches)
            if num_taken == 3:
                assert next(batches, None) is None
            states.append(pipeline.state_dict())
    state = resume.gather(states)
    for rank in range(2):
        pipeline = make(rank, 2, is_continuous=True)
        pipeline.load_state_dict(state)
        with pipeline.auto_stop():
            assert len(list(pipeline)) == 3 - num_taken % 3


def test_loaders_get_the_end_together() -> None:
    pytest.importorskip("torch")
    from spdl.dataloader import get_pytorch_dataloader

    def loader_of(rank: int) -> Any:
        sampler = DistributedKeyedSampler(8, rank=rank, world_size=2, seed=0)
        return get_pytorch_dataloader(range(8), 2, sampler=sampler, workers="thread", num_workers=2)

    states = []
    for rank in range(2):
        loader = loader_of(rank)
        batches = iter(loader)
        for _ in range(2):
            next(batches)
        if rank == 0:
            assert next(batches, None) is None
        states.append(loader.state_dict())
        batches.close()
    state = resume.gather(states)
    for rank in range(2):
        loader = loader_of(rank)
        loader.load_state_dict(state)
        assert [len(list(loader)) for _ in range(2)] == [0, 2]


class Always:
    """Starts every pass from a loaded position."""

    def __init__(self) -> None:
        self.position = self.start = 0

    def __iter__(self) -> Any:
        self.position = self.start
        for number in range(self.start, 6):
            self.position += 1
            yield number

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start = state["position"]


def test_parts_of_a_merge_are_whole_in_later_passes() -> None:
    """What was loaded into them is for one pass."""
    merge = MergeIterator([Always(), Always()])
    items = iter(merge)
    for _ in range(5):
        next(items)
    other = MergeIterator([Always(), Always()])
    other.load_state_dict(merge.state_dict())
    assert [len(list(other)) for _ in range(3)] == [7, 12, 12]


def test_a_pipeline_over_such_a_stream_is_whole_in_later_epochs() -> None:
    def of() -> Pipeline[Any]:
        builder = PipelineBuilder[Any, Any]().add_source(Always(), continuous=True)
        return builder.add_sink(2).build(num_threads=1, resumable=True)

    pipeline = of()
    with pipeline.auto_stop():
        begun = [pipeline.get_item() for _ in range(2)]
        state = pipeline.state_dict()
    pipeline = of()
    pipeline.load_state_dict(state)
    with pipeline.auto_stop():
        assert begun + list(pipeline) == list(range(6))
        assert list(pipeline) == list(range(6))


def test_a_stream_that_is_over_stays_over() -> None:
    """Its state loads again and again, until the next pass begins."""
    datasets = pytest.importorskip("datasets")
    from spdl.source import HuggingFaceStream

    def of() -> HuggingFaceStream:
        return HuggingFaceStream(datasets.Dataset.from_dict({"a": list(range(6))}).to_iterable_dataset(num_shards=2))

    stream = of()
    assert len(list(stream)) == 6
    state = stream.state_dict()
    for _ in range(3):
        stream = of()
        stream.load_state_dict(state)
        assert list(stream) == []
        state = stream.state_dict()
    assert len(list(stream)) == 6
