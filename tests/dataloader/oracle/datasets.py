"""Datasets with positions, samplers and functions of the cases, where worker processes can import them."""

import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, Sampler, get_worker_info

from tests.support.timeouts import TIMEOUT as TIMEOUT


class Numbers(Dataset[int]):
    """``range(size)``."""

    def __init__(self, size: int = 10) -> None:
        self.size = size

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(index)
        return index

    def __len__(self) -> int:
        return self.size


class Failing(Numbers):
    """Raises ``errors[index]``, if there is one."""

    def __init__(self, size: int, errors: dict[int, BaseException]) -> None:
        super().__init__(size)
        self.errors = errors

    def __getitem__(self, index: int) -> int:
        if index in self.errors:
            raise self.errors[index]
        return index


class FailingAwkwardly(Numbers):
    """Raises what cannot be unpickled, in the middle."""

    def __getitem__(self, index: int) -> int:
        if index == self.size // 2:
            raise Awkward("this", "that")
        return index


class AtOnce(Numbers):
    """Loads many with one call; single ones would be told by their sign."""

    def __getitem__(self, index: int) -> int:
        return -index

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        assert isinstance(indices, list)
        return [1000 * len(indices) + index for index in indices]


class ByName(Dataset[Any]):
    """Looked up by text."""

    def __init__(self) -> None:
        self.samples = {f"key {k}": {"name": f"key {k}", "value": torch.tensor([k])} for k in range(7)}

    def __getitem__(self, key: str) -> Any:
        return self.samples[key]

    def __len__(self) -> int:
        return len(self.samples)


class Chance(Dataset[Any]):
    """Random numbers of every kind, and what is known about the worker."""

    def __init__(self, size: int = 12) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        return chance(index)


def chance(index: int) -> dict[str, Any]:
    """Numbers from each global generator, the worker's seed, id and number."""
    info = get_worker_info()
    return {
        "index": index,
        "random": random.random(),
        "numpy": np.random.rand(3),
        "numpy integer": np.random.randint(1 << 30),
        "torch": torch.rand(2),
        "torch permutation": torch.randperm(5),
        "torch seed": torch.initial_seed() % 2**62,
        "worker": -1 if info is None else info.id,
        "workers": -1 if info is None else info.num_workers,
        "seed": -1 if info is None else info.seed % 2**62,
        "threads": torch.get_num_threads() if info is not None else 1,
    }


class Stateful(Dataset[Any]):
    """Counts, in its own copy, how many samples it gave; tells which process it is in."""

    def __init__(self, size: int = 8) -> None:
        self.size = size
        self.num_given = 0

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        self.num_given += 1
        return index, self.num_given, os.getpid()


class Deadly(Numbers):
    """Ends its process at one index: by an exit code, or by a signal if negative."""

    def __init__(self, size: int, index: int, how: int) -> None:
        super().__init__(size)
        self.index, self.how = index, how

    def __getitem__(self, index: int) -> int:
        if index == self.index:
            if self.how >= 0:
                os._exit(self.how)
            os.kill(os.getpid(), -self.how)
            signal.pause()
        return index


class Stuck(Numbers):
    """Never returns from one index, until the gate, if it can be reached, is opened."""

    def __init__(self, size: int, index: int) -> None:
        super().__init__(size)
        self.index = index

    def __getitem__(self, index: int) -> int:
        if index == self.index:
            gate.wait(TIMEOUT)
        return index


gate = threading.Event()


# -- what else goes to the workers


def enlarge(worker_id: int) -> None:
    """A ``worker_init_fn`` that changes the worker's copy of a dataset and draws a random number."""
    info: Any = get_worker_info()
    info.dataset.num_given = 1000 * (worker_id + 1)
    random.random()


def reseed(worker_id: int) -> None:
    """A ``worker_init_fn`` as often found: seeds NumPy from torch's seed."""
    np.random.seed(torch.initial_seed() % 2**32)
    random.seed(worker_id)


def refuse(worker_id: int) -> None:
    """A ``worker_init_fn`` that fails in one worker."""
    if worker_id == 1:
        raise LookupError(f"worker {worker_id} does not want to")


def as_list(samples: list[Any]) -> list[Any]:
    """A ``collate_fn`` that does nothing."""
    return samples


def padded(samples: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """A ``collate_fn`` as for texts: rows of the longest length, and the lengths."""
    lengths = torch.tensor([k % 4 + 1 for k in samples])
    rows = torch.zeros(len(samples), int(lengths.max()), dtype=torch.int64)
    for row, k in zip(rows, samples, strict=True):
        row[: k % 4 + 1] = k
    return rows, lengths


def with_type(sample: Any) -> Any:
    """A ``collate_fn`` that tells what it was given."""
    return type(sample).__name__, sample


class FailingCollate:
    """A ``collate_fn`` that refuses batches with that sample."""

    def __init__(self, sample: int) -> None:
        self.sample = sample

    def __call__(self, samples: list[int]) -> list[int]:
        if self.sample in samples:
            raise ArithmeticError(f"no batch with {self.sample}")
        return samples


class Awkward(Exception):
    """Made of two arguments, so it cannot be unpickled from its ``args``."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class Keys(Sampler[str]):
    """The keys of ``ByName``, backwards."""

    def __iter__(self) -> Iterator[str]:
        return (f"key {k}" for k in reversed(range(7)))

    def __len__(self) -> int:
        return 7


class FailingSampler(Sampler[int]):
    """Raises after so many."""

    def __init__(self, num_indices: int) -> None:
        self.num_indices = num_indices

    def __iter__(self) -> Iterator[int]:
        yield from range(self.num_indices)
        raise LookupError("the sampler is tired")

    def __len__(self) -> int:
        return 100


class Drawn(Sampler[int]):
    """Endless; counts how many indices were taken from it."""

    def __init__(self) -> None:
        self.num_taken = 0

    def __iter__(self) -> Iterator[int]:
        while True:
            self.num_taken += 1
            yield self.num_taken % 10


class Begun(Sampler[Any]):
    """Counts how often it is begun."""

    def __init__(self, indices: list[Any]) -> None:
        self.indices = indices
        self.num_begun = 0

    def __iter__(self) -> Iterator[Any]:
        self.num_begun += 1  # when it is asked for an iterator: as a generator it would count at the first index
        return iter(self.indices)


class EndlessBatches(Sampler[list[int]]):
    """Batches without an end; of growing size, some empty if told."""

    def __iter__(self) -> Iterator[list[int]]:
        size = 0
        while True:
            size = size % 4 + 1
            yield list(range(size))


class Exiting(Numbers):
    """Leaves, or interrupts, in the middle."""

    def __init__(self, size: int, error: type[BaseException]) -> None:
        super().__init__(size)
        self.error = error

    def __getitem__(self, index: int) -> int:
        if index == self.size // 2:
            raise self.error()
        return index


class WithoutMany(Numbers):
    """Says that it cannot load many at once."""

    __getitems__ = None


def none_if_even(samples: list[int]) -> list[int] | None:
    """A ``collate_fn`` that gives nothing for some batches."""
    return None if samples[0] % 2 == 0 else samples
