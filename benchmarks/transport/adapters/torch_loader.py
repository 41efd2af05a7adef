"""torch's ``DataLoader`` with one persistent worker that makes batches as tensors.

The dataset gives whole batches (``batch_size=None``): nothing is collated. ``prefetch_factor`` is the buffer size.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from benchmarks.transport._work import Producer, Work


def versions() -> dict[str, str]:
    return {"torch": torch.__version__, "numpy": np.__version__}


class _Batches(IterableDataset[Any]):
    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __iter__(self) -> Iterator[Any]:
        for item in self._producer:
            yield item if isinstance(item, bytes) else torch.from_numpy(item)


class _AsArrays:
    """Views, so that they are read in the same way as other peers' items."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        for item in self._loader:
            yield item if isinstance(item, bytes) else item.numpy()


def open_way(stack: ExitStack, way: str, work: Work, num_items: int) -> Iterable[Any] | None:
    dataset = _Batches(Producer(work, num_items))
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=1,
        prefetch_factor=work.buffer_size,
        persistent_workers=True,
    )
    return _AsArrays(loader)
