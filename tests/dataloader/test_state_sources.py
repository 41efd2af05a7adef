"""Samplers and datasets of others, in pipelines and loaders that are resumed."""

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

from torch.utils.data import DistributedSampler

from spdl import resume
from spdl.dataloader import get_pytorch_dataloader
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.resume import ResumeError

SIZE = 20
DATASET: Any = range(SIZE)


def pipeline_of(source: Any) -> Pipeline[Any]:
    return PipelineBuilder[Any, Any]().add_source(source).aggregate(3).add_sink().build(num_threads=1, resumable=True)


def sampler(rank: int, world: int = 2) -> DistributedSampler[Any]:
    made: DistributedSampler[Any] = DistributedSampler(DATASET, world, rank, seed=1)
    made.set_epoch(3)
    return made


def test_a_sampler_of_torch_is_passed_over() -> None:
    """In its epoch; a warning says what that costs, since it has no positions."""
    pipeline = pipeline_of(sampler(1))
    batches = iter(pipeline)
    taken = [next(batches)]
    other = pipeline_of(DistributedSampler(DATASET, 2, 1, seed=1))
    with pytest.warns(UserWarning, match="DistributedSampler has neither .* past"):
        other.load_state_dict(pipeline.state_dict())
    assert [index for batch in taken + list(other) for index in batch] == list(sampler(1))


@pytest.mark.filterwarnings("ignore:source DistributedSampler has neither:UserWarning")
def test_a_sampler_of_torch_knows_its_rank() -> None:
    """So the state of another rank is refused, and those of all ranks can be gathered for as many."""
    pipelines = [pipeline_of(sampler(rank)) for rank in range(2)]
    for pipeline in pipelines:
        next(iter(pipeline))
    states = [pipeline.state_dict() for pipeline in pipelines]
    with pytest.raises(ResumeError, match=r"rank 0 of 2 in rank 1 of 2.*gather"):
        pipeline_of(sampler(1)).load_state_dict(states[0])
    gathered = resume.gather(states)
    for rank, pipeline in enumerate(pipelines):
        other = pipeline_of(sampler(rank))
        other.load_state_dict(gathered)
        assert list(other) == list(pipeline)
    with pytest.raises(ResumeError, match="only positions of indexed sources can be distributed anew"):
        pipeline_of(sampler(0, 3)).load_state_dict(gathered)


def of_hugging_face() -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict({"index": list(range(SIZE))})


def streamed() -> Any:
    return of_hugging_face().to_iterable_dataset(num_shards=2)


def in_pipeline(dataset: Any) -> Any:
    return pipeline_of(dataset)


def in_threads(dataset: Any) -> Any:
    return get_pytorch_dataloader(dataset, 3, workers="thread", num_workers=2, collate_fn=list)


@pytest.mark.slow  # the import of datasets takes a second, once
@pytest.mark.parametrize("make", [in_pipeline, in_threads])
@pytest.mark.parametrize(("dataset", "kind"), [(of_hugging_face, "indexed"), (streamed, "stateful")])
def test_data_sets_of_hugging_face(make: Callable[[Any], Any], dataset: Callable[[], Any], kind: str) -> None:
    """A ``Dataset`` has positions, an ``IterableDataset`` a state: neither is passed over with a warning."""
    first = make(dataset())
    batches = iter(first)
    taken = [next(batches), next(batches)]
    state = first.state_dict()
    if make is in_pipeline:
        assert json.loads(state["spdl"])["sources"][0]["kind"] == kind
    other = make(dataset())
    other.load_state_dict(state)
    assert [row["index"] for batch in taken + list(other) for row in batch] == list(range(SIZE))
