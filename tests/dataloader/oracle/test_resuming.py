"""The drop-in beside torchdata's ``StatefulDataLoader``: both give the same, and both go on with the same.

The behaviours are those that torchdata's own tests of states ask for. Where the two differ, the test says so.
"""

import copy
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data import RandomSampler

from spdl.dataloader import get_pytorch_dataloader
from tests.dataloader import stateful_datasets as data

torchdata = pytest.importorskip("torchdata.stateful_dataloader")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning:torchdata",
    "ignore:'set_vital' is deprecated:UserWarning",
    "ignore:.* are loaded again and discarded:UserWarning",  # torchdata logs it
)

SIZE = 22


def shuffled() -> dict[str, Any]:
    sampler = RandomSampler(range(SIZE), generator=torch.Generator().manual_seed(3))
    return {"dataset": data.Squares(SIZE), "batch_size": 4, "sampler": sampler}


#: Arguments of either loader.
CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"dataset": data.Squares(SIZE), "batch_size": 4},
    "drop_last": lambda: {"dataset": data.Squares(SIZE), "batch_size": 4, "drop_last": True},
    "not batched": lambda: {"dataset": data.Squares(SIZE), "batch_size": None},
    "sampler with a generator": shuffled,
    "batch sampler with a state": lambda: {
        "dataset": data.Squares(SIZE),
        "batch_sampler": data.StatefulBatchSampler(SIZE),
    },
    "map-style dataset with a state": lambda: {"dataset": data.Counting(SIZE), "batch_size": 4},
    "stream": lambda: {"dataset": data.Stream(SIZE), "batch_size": 4},
    "stream with a state": lambda: {"dataset": data.StatefulStream(SIZE), "batch_size": 4},
    "stream whose iterator has a state": lambda: {"dataset": data.StreamWithIterator(SIZE), "batch_size": 3},
}
LOADERS: dict[str, Callable[..., Any]] = {
    "torchdata": lambda **options: torchdata.StatefulDataLoader(**options),
    "inline": lambda **options: get_pytorch_dataloader(**options, num_workers=0, workers="process"),
    "thread": lambda **options: get_pytorch_dataloader(**options, num_workers=1, workers="thread"),
}


def plain(batch: Any) -> Any:
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


def goes_on(make: Callable[..., Any], options: Callable[[], dict[str, Any]], taken: int) -> list[list[Any]]:
    """The batches up to a checkpoint, those of the loader that loads it, and its next epoch."""
    first, second = make(**options()), make(**options())
    iterator = iter(first)
    before = [plain(batch) for batch in islice(iterator, taken)]
    state = copy.deepcopy(first.state_dict())
    del iterator
    second.load_state_dict(state)
    return [before, [plain(batch) for batch in second], [plain(batch) for batch in second]]


@pytest.mark.parametrize("taken", [0, 1, 3, 5])
@pytest.mark.parametrize("name", [*CASES])
def test_both_go_on_with_the_same(name: str, taken: int) -> None:
    """After each number of batches; the next epoch is the same too."""
    found = {loader: goes_on(make, CASES[name], taken) for loader, make in LOADERS.items()}
    assert found["inline"] == found["torchdata"]
    if name != "map-style dataset with a state":  # threads share it, and it has counted what they prefetched
        assert found["thread"] == found["torchdata"]
