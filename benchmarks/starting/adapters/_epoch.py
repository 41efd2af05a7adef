"""What all contestants share: the settings, and an epoch as a call."""

from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from benchmarks.starting._slow_dataset import Squares

#: Settings of every loader.
NUM_WORKERS = 2
BATCH = 4
NUM_BATCHES = 16


def make_dataset() -> Any:
    return Squares(BATCH * NUM_BATCHES)


def make_torch_loader(method: str) -> Iterable[Any]:
    """torch's loader, whose workers end with each epoch."""
    return DataLoader(make_dataset(), BATCH, num_workers=NUM_WORKERS, multiprocessing_context=method)


def epoch_of(loader: Iterable[Any]) -> Callable[[], list[Any]]:
    """A call is an epoch, from before its workers are started until they have ended."""
    return lambda: list(loader)


def outputs(case: str, result: list[Any]) -> dict[str, Any]:
    return {"batches": np.stack([batch.numpy() for batch in result])}


def versions() -> dict[str, str]:
    return {package: metadata.version(package) for package in ("torch", "numpy")}
