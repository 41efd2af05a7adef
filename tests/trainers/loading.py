"""A tiny dataset and the loaders of ours that the trainers are given. Needs torch."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import torch
from torch.utils.data import IterableDataset, default_collate

from spdl.dataloader import DataLoader, get_pytorch_dataloader, prefetch_to_device

from .sampling import BATCH_SIZE, NUM_SAMPLES, EpochSampler

__all__ = ["ENDLESS", "LOADERS", "of_damaged_samples"]


class Line:
    """Points of ``y = 2 x + 1``; a sample carries its index, so that a model can write down what it was given."""

    def __init__(self, num_samples: int) -> None:
        self.num_samples = num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x = torch.tensor([index / self.num_samples])
        return {"x": x, "labels": 2 * x + 1, "index": torch.tensor(index)}


def of_pipeline(num_samples: int = NUM_SAMPLES) -> Any:
    """``DataLoader``: the sampler is the source, and the order is kept."""
    return DataLoader(
        EpochSampler(num_samples),
        preprocessor=Line(num_samples).__getitem__,
        batch_size=BATCH_SIZE,
        aggregator=default_collate,
        num_threads=2,
        output_order="input",
        resumable=True,
    )


def of_threads(num_samples: int = NUM_SAMPLES) -> Any:
    """``get_pytorch_dataloader`` with torch's arguments, in threads."""
    return get_pytorch_dataloader(
        Line(num_samples), batch_size=BATCH_SIZE, sampler=EpochSampler(num_samples), num_workers=2, workers="thread"
    )


def of_processes(num_samples: int = NUM_SAMPLES, start_method: str | None = None) -> Any:
    """The same in processes that outlive an epoch, and end with the loader."""
    return get_pytorch_dataloader(
        Line(num_samples),
        batch_size=BATCH_SIZE,
        sampler=EpochSampler(num_samples),
        num_workers=2,
        workers="process",
        multiprocessing_context=start_method,
        persistent_workers=True,
    )


def of_forked_processes() -> Any:
    """The same in forks, which do not have to import torch."""
    return of_processes(start_method="fork")


def of_prefetched_threads(num_samples: int = NUM_SAMPLES) -> Any:
    """What a user with a GPU writes; here batches stay where they are."""
    return prefetch_to_device(of_threads(num_samples), device="cpu")


def of_chosen_workers(num_samples: int = NUM_SAMPLES) -> Any:
    """``workers="auto"``: threads or processes, by a measurement on the first batches."""
    return get_pytorch_dataloader(
        Line(num_samples), batch_size=BATCH_SIZE, sampler=EpochSampler(num_samples), num_workers=2, workers="auto"
    )


class Endless(IterableDataset[dict[str, torch.Tensor]]):
    """A stream of samples without a length: the numbers from 0 on."""

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return map(Line(NUM_SAMPLES).__getitem__, count())


def of_endless_pipeline() -> Any:
    return DataLoader(Endless(), batch_size=BATCH_SIZE, aggregator=default_collate, output_order="input")


def of_endless_threads() -> Any:
    return get_pytorch_dataloader(Endless(), batch_size=BATCH_SIZE, num_workers=2, workers="thread")


class Damaged(Line):
    """The sample of index 13 cannot be read."""

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        if index == 13:
            raise OSError("sample 13 is damaged")
        return super().__getitem__(index)


def of_damaged_samples() -> Any:
    return get_pytorch_dataloader(Damaged(NUM_SAMPLES), batch_size=BATCH_SIZE, num_workers=2, workers="thread")


LOADERS: dict[str, Callable[..., Any]] = {
    "DataLoader": of_pipeline,
    "auto": of_chosen_workers,
    "forked": of_forked_processes,
    "prefetched": of_prefetched_threads,
    "process": of_processes,
    "thread": of_threads,
}
ENDLESS: dict[str, Callable[[], Any]] = {"DataLoader": of_endless_pipeline, "thread": of_endless_threads}
