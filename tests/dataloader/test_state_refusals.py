"""``PyTorchDataLoader.load_state_dict`` refuses what it cannot go on with, and ``state_dict`` what cannot be saved."""

from typing import Any

import pytest

pytest.importorskip("torch")

from torch.utils.data import DistributedSampler

from spdl.dataloader import PyTorchDataLoader, get_pytorch_dataloader
from spdl.resume import ResumeError

from . import stateful_datasets as data
from .resuming import KINDS, drain, take

SIZE = 23
#: For samplers that ask for a length alone.
DATASET: Any = range(SIZE)


def test_a_sampler_that_gives_something_else_is_refused() -> None:
    """Silently going on with another order would repeat some samples and lose others."""
    loader = get_pytorch_dataloader(data.Squares(50), 5, sampler=data.GlobalSampler(50), **KINDS["inline"])
    take(iter(loader), 3)
    other = get_pytorch_dataloader(data.Squares(50), 5, sampler=data.GlobalSampler(50), **KINDS["inline"])
    state = loader.state_dict()
    other.load_state_dict(state)
    batches = iter(other)
    with pytest.raises(ResumeError, match=r"GlobalSampler. gave other indices for batch 2 .*state_dict"):
        next(batches)


def mid_epoch(**options: Any) -> dict[str, str]:
    values: dict[str, Any] = {"batch_size": 2, **KINDS["inline"], **options}
    loader = get_pytorch_dataloader(values.pop("dataset", data.Squares(10)), **values)
    take(iter(loader), 2)
    return loader.state_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": data.Squares(11)}, "stage 0 was dataset Squares 11 and is dataset Squares 10"),
        ({"batch_size": 3}, "batches BatchSampler 3 false and is batches BatchSampler 2 false"),
        ({"drop_last": True}, "batches BatchSampler 2 true and is"),
        ({"shuffle": True}, "sampler RandomSampler and is sampler SequentialSampler"),
    ],
)
def test_the_state_of_another_loader_is_refused(options: dict[str, Any], message: str) -> None:
    """And the difference is named."""
    state = mid_epoch(**options)
    loader = get_pytorch_dataloader(data.Squares(10), 2, **KINDS["inline"])
    with pytest.raises(ResumeError, match=message):
        loader.load_state_dict(state)
    assert len(drain(iter(loader))) == 5, "nothing was loaded"


def test_another_number_of_streams_is_refused() -> None:
    """Each worker process has its own iterator, and there is nothing to give to a third."""
    loader = get_pytorch_dataloader(data.StatefulStream(10), 2, **KINDS["process"])
    take(iter(loader), 2)
    other = get_pytorch_dataloader(data.StatefulStream(10), 2, **KINDS["thread"])
    with pytest.raises(
        ResumeError, match=r"2 streams of an iterable dataset.* loader has 1; make it with num_workers=2"
    ):
        other.load_state_dict(loader.state_dict())


def test_the_state_of_another_rank_is_refused_unless_it_is_a_prefix() -> None:
    """Ranks in step may share rank 0's state, as Lightning saves it; another world needs all of them."""

    def make(rank: int, world: int, **options: Any) -> PyTorchDataLoader[Any]:
        sampler: DistributedSampler[Any] = DistributedSampler(DATASET, world, rank, seed=4)
        return get_pytorch_dataloader(data.Squares(SIZE), 2, sampler=sampler, **{**KINDS["thread"], **options})

    first, second = make(0, 2), make(1, 2)
    take(iter(first), 3)
    batches = iter(second)
    take(batches, 3)
    state = first.state_dict()
    other = make(1, 2)
    other.load_state_dict(state)
    with pytest.raises(ResumeError, match=r"rank 0 of 2, and this is rank 1 of 3.*gather"):
        make(1, 3).load_state_dict(state)
    loose = make(0, 2, in_order=False)
    take(iter(loose), 2)
    with pytest.raises(ResumeError, match="rank 0 of 2, and this is rank 1 of 2"):
        make(1, 2, in_order=False).load_state_dict(loose.state_dict())
    assert drain(iter(other)) == drain(batches)


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"version": 1}', '{"version": 2, "kind": "loader"}', "truncated", "typed"]
)
def test_damaged_states_are_refused(damage: str) -> None:
    """With a ``ResumeError``, and the loader is as before."""
    text = mid_epoch()["spdl"]
    if damage == "truncated":
        damage = text[:-20]
    elif damage == "typed":
        damage = text.replace('"taken":2', '"taken":"two"')
    loader = get_pytorch_dataloader(data.Squares(10), 2, **KINDS["inline"])
    with pytest.raises(ResumeError):
        loader.load_state_dict({"spdl": damage})
    assert len(drain(iter(loader))) == 5


def test_a_failing_state_dict_fails_only_the_state() -> None:
    """The batches go on."""

    class Bad(data.StatefulStream):
        def state_dict(self) -> dict[str, Any]:
            raise KeyError("no state today")

    loader = get_pytorch_dataloader(Bad(6), 2, **KINDS["inline"])
    batches = iter(loader)
    take(batches, 1)
    with pytest.raises(ResumeError, match=r"Bad.state_dict\(\) raised KeyError: 'no state today'"):
        loader.state_dict()
    assert drain(batches) == [[2, 3], [4, 5]]


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), (True, TypeError), ("1", TypeError)])
def test_snapshot_every_n_steps_is_checked(value: Any, error: type[Exception]) -> None:
    """When the loader is made."""
    with pytest.raises(error, match="snapshot_every_n_steps must be"):
        get_pytorch_dataloader(data.Squares(3), snapshot_every_n_steps=value, workers="thread")
