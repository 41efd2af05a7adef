"""torch's own loader, with its defaults: the user's old code."""

import warnings
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from torch.utils.data import DataLoader

from benchmarks.migration._datasets import PhotoDataset
from benchmarks.migration._photos import Photos

# It warns of more workers than cores, which this benchmark measures on purpose.
warnings.filterwarnings("ignore", "This DataLoader will create")


def versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in ("torch", "pillow")}


def make(photos: Photos, num_workers: int, batch_size: int | None) -> Iterable[Any]:
    return DataLoader(PhotoDataset(photos), batch_size=batch_size, num_workers=num_workers)
