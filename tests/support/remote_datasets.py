"""Datasets that are loaded by other processes in these tests. Needs torch."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset, IterableDataset

__all__ = [
    "AtOnce",
    "CountsPickling",
    "Numbers",
    "Picky",
    "Stream",
    "Waiting",
    "Weighty",
    "failing_collate",
    "len_and_all",
    "told",
]


class Numbers(Dataset[Any]):
    """``range(size)``."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __getitem__(self, index: int) -> Any:
        return index

    def __len__(self) -> int:
        return self.size


class Picky(Numbers):
    """Refuses some."""

    def __init__(self, size: int, refused: set[int]) -> None:
        super().__init__(size)
        self.refused = refused

    def __getitem__(self, index: int) -> Any:
        if index in self.refused:
            raise ValueError(f"do not want {index}")
        return index


class AtOnce(Numbers):
    """Loads many with one call."""

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        return [100 * len(indices) + index for index in indices]


class Weighty(Numbers):
    """Each sample has an array."""

    def __getitem__(self, index: int) -> Any:
        return {"index": index, "array": np.full((40, 50), index)}


class Waiting(Numbers):
    """The first sample is there once somebody has written to a pipe of the file system."""

    def __init__(self, size: int, path: Path) -> None:
        super().__init__(size)
        self.path = path
        os.mkfifo(path)

    def __getitem__(self, index: int) -> Any:
        if index == 0:
            self.path.read_bytes()
        return index


class CountsPickling(Numbers):
    """How often this process pickled one."""

    num_pickled = 0

    def __getstate__(self) -> dict[str, Any]:
        CountsPickling.num_pickled += 1
        return self.__dict__


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


def told(samples: list[Any]) -> list[int]:
    """The process that collates."""
    return [os.getpid()] * len(samples)


def failing_collate(samples: list[Any]) -> list[Any]:
    if 0 in samples:
        raise ValueError("not the first")
    return samples


def len_and_all(samples: list[Any]) -> tuple[int, str]:
    """How many, and all of them as one large text."""
    return len(samples), " ".join(map(str, samples))
