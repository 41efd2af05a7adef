"""A tiny data set and the loaders of ours that the trainers are given. Needs torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import default_collate

from spdl.dataloader import DataLoader, get_pytorch_dataloader

from .sampling import BATCH_SIZE, NUM_SAMPLES, EpochSampler

__all__ = ["LOADERS", "Line"]


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
    )


def of_threads(num_samples: int = NUM_SAMPLES) -> Any:
    """``get_pytorch_dataloader`` with torch's arguments, in threads."""
    return get_pytorch_dataloader(
        Line(num_samples), batch_size=BATCH_SIZE, sampler=EpochSampler(num_samples), num_workers=2, workers="thread"
    )


def of_processes(num_samples: int = NUM_SAMPLES) -> Any:
    """The same in processes that outlive an epoch, and end with the loader."""
    return get_pytorch_dataloader(
        Line(num_samples),
        batch_size=BATCH_SIZE,
        sampler=EpochSampler(num_samples),
        num_workers=2,
        workers="process",
        persistent_workers=True,
    )


LOADERS: dict[str, Callable[..., Any]] = {"DataLoader": of_pipeline, "process": of_processes, "thread": of_threads}
