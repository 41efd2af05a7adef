"""Datasets of Hugging Face: by position as they are; streaming ones by rank, with equal steps and states."""

import itertools
import json
import pickle
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.resume import ResumeError
from spdl.source import DistributedKeyedSampler, HuggingFaceStream, ShuffleBuffer

datasets = pytest.importorskip("datasets", reason="what these tests are about")

pytestmark = pytest.mark.slow  # importing it takes seconds


def numbers(count: int) -> Any:
    return datasets.Dataset.from_dict({"n": list(range(count))})


def streaming(count: int, num_shards: int = 4) -> Any:
    return numbers(count).to_iterable_dataset(num_shards=num_shards)


def found(source: Any) -> list[int]:
    return [example["n"] for example in source]


def test_a_dataset_is_a_source_as_it_is() -> None:
    """By position, by a sampler, and resumed exactly."""
    dataset = numbers(20)

    def build() -> Any:
        sampler = DistributedKeyedSampler(len(dataset), seed=1)
        builder = PipelineBuilder().add_source(sampler).pipe(dataset.__getitem__, concurrency=2)
        return builder.add_sink(2).build(num_threads=2, resumable=True)

    pipeline = build()
    with pipeline.auto_stop():
        taken = found(itertools.islice(pipeline, 7))
        state = pipeline.state_dict()
    again = build()
    again.load_state_dict(state)
    with again.auto_stop():
        assert sorted(taken + found(again)) == list(range(20))
    direct = PipelineBuilder().add_source(dataset).add_sink(2).build(num_threads=1, resumable=True)
    with direct.auto_stop():
        assert found(direct) == list(range(20))


@pytest.mark.parametrize("num_shards", [3, 4])
@pytest.mark.parametrize("world_size", [1, 2])
def test_ranks_share_nothing_and_have_all(num_shards: int, world_size: int) -> None:
    """Whole shards if they divide among the ranks, every so-many-th example if not."""
    shares = [
        found(HuggingFaceStream(streaming(22, num_shards), rank=rank, world_size=world_size))
        for rank in range(world_size)
    ]
    assert sorted(n for share in shares for n in share) == list(range(22))


@pytest.mark.parametrize("num_samples", [1, 5, 30])
def test_ranks_make_equal_steps(num_samples: int) -> None:
    """Exactly as many each: what is short begins again, what is long is cut."""
    for rank in range(2):
        stream = HuggingFaceStream(streaming(10), rank=rank, world_size=2, num_samples=num_samples)
        first = found(stream)
        assert len(first) == num_samples
        assert found(stream) == first


@pytest.mark.parametrize("num_samples", [None, 33])
@pytest.mark.parametrize("taken", [0, 3, 11, 12, 33])
def test_a_state_goes_on_where_it_was(num_samples: int | None, taken: int) -> None:
    """In another process; JSON keeps it; the iteration after that begins at the start."""
    stream = HuggingFaceStream(streaming(24), world_size=2, num_samples=num_samples)
    whole, iterator = found(stream), iter(stream)
    taken = len(list(itertools.islice(iterator, taken)))
    state = json.loads(json.dumps(stream.state_dict()))
    again = HuggingFaceStream(streaming(24), world_size=2, num_samples=num_samples)
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert found(again) == whole[taken:]
    assert found(again) == whole


def test_a_buffer_over_it_resumes_exactly() -> None:
    """Where the buffer of the dataset itself would lose what is in it."""

    def build() -> Any:
        source = ShuffleBuffer(HuggingFaceStream(streaming(40)), 8, seed=1)
        return PipelineBuilder().add_source(source).add_sink(2).build(num_threads=1, resumable=True)

    pipeline = build()
    with pipeline.auto_stop():
        taken = found(itertools.islice(pipeline, 15))
        state = pipeline.state_dict()
    again = build()
    again.load_state_dict(state)
    with again.auto_stop():
        taken += found(again)
    assert sorted(taken) == list(range(40))
    assert taken != sorted(taken)


def test_epochs_are_those_of_the_data_set() -> None:
    """Its own shuffling gets them; a copy begins at the start."""
    stream = HuggingFaceStream(streaming(40).shuffle(seed=3, buffer_size=40))
    first = found(stream)
    stream.set_epoch(1)
    second = found(stream)
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second
    next(iter(stream))
    assert found(pickle.loads(pickle.dumps(stream))) == second
    assert (stream.epoch, stream.rank, stream.world_size) == (1, 0, 1)


def test_wrong_arguments_and_states_are_refused() -> None:
    """By name, with what is accepted."""
    with pytest.raises(TypeError, match=r"must be a datasets\.IterableDataset.*is a source as it is"):
        HuggingFaceStream(numbers(3))
    with pytest.raises(ValueError, match="rank must be in range"):
        HuggingFaceStream(streaming(4), rank=2, world_size=2)
    with pytest.raises(ValueError, match="num_samples must be >= 1"):
        HuggingFaceStream(streaming(4), num_samples=0)
    state = HuggingFaceStream(streaming(4), rank=1, world_size=2).state_dict()
    with pytest.raises(ResumeError, match="rank was 1 and is 0"):
        HuggingFaceStream(streaming(4), world_size=2).load_state_dict(state)
    with pytest.raises(RuntimeError, match="no examples for rank 0 of 1"):
        found(HuggingFaceStream(streaming(8).filter(lambda _: False), num_samples=3))
