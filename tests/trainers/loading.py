"""A tiny data set and the loaders of ours that the trainers are given. Needs torch."""

from collections.abc import Callable
from typing import Any

import torch

from spdl.dataloader import get_pytorch_dataloader

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


def of_threads(num_samples: int = NUM_SAMPLES) -> Any:
    """``get_pytorch_dataloader`` with torch's arguments, in threads."""
    return get_pytorch_dataloader(
        Line(num_samples), batch_size=BATCH_SIZE, sampler=EpochSampler(num_samples), num_workers=2, workers="thread"
    )


LOADERS: dict[str, Callable[..., Any]] = {"thread": of_threads}
