"""Datasets and samplers for tests of resuming, importable by worker processes."""

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info


class Squares:
    """``dataset[i]`` is a tensor with ``i * i``."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index) ** 2


class Identity(Squares):
    """``dataset[i]`` is ``i``."""

    def __getitem__(self, index: int) -> Any:
        return index


class Failing(Squares):
    """Every seventh sample fails."""

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % 7 == 3:
            raise ValueError(f"sample {index}")
        return super().__getitem__(index)


class Counting(Squares):
    """A map-style dataset with a state: how often it was asked, which is in the sample."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.num_asked = 0

    def __getitem__(self, index: int) -> torch.Tensor:
        self.num_asked += 1
        return torch.tensor([index, self.num_asked])

    def state_dict(self) -> dict[str, Any]:
        return {"num_asked": self.num_asked}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_asked = state["num_asked"]


class Stream(IterableDataset[int]):
    """Numbers below ``size``, those of each worker by themselves. No state."""

    def __init__(self, size: int) -> None:
        self.size = size

    def numbers(self) -> range:
        info = get_worker_info()
        return range(self.size) if info is None else range(info.id, self.size, info.num_workers)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers())


class StatefulStream(Stream):
    """The same, with the state in the dataset, as Hugging Face's. ``num_drawn`` counts what was drawn in all."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.position = 0
        self.start = 0
        self.num_drawn = 0

    def __iter__(self) -> Iterator[int]:
        start, self.start = self.start, 0
        for position, number in enumerate(self.numbers()[start:], start + 1):
            self.position = position
            self.num_drawn += 1
            yield number

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "odd": (1, 2)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["odd"] == (1, 2), "a tuple stays a tuple"
        self.start = state["position"]


class StatefulIterator(Iterator[int]):
    """Iterator with a state, as torchdata's tests have it."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers
        self.position = 0

    def __next__(self) -> int:
        if self.position >= len(self.numbers):
            raise StopIteration
        self.position += 1
        return int(self.numbers[self.position - 1])

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class StreamWithIterator(Stream):
    """The same, with the state in the iterator."""

    def __iter__(self) -> Iterator[int]:
        return StatefulIterator(self.numbers())


class GlobalSampler:
    """Draws from Python's global generator, of which a state knows nothing."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.size))
        random.shuffle(order)
        return iter(order)


class SamplerWithIterator(GlobalSampler):
    """A sampler whose iterator has a state with all that it needs."""

    def __iter__(self) -> Iterator[int]:
        return _ShuffledIterator(list(super().__iter__()))


class _ShuffledIterator(StatefulIterator):
    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "numbers": list(self.numbers)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position, self.numbers = state["position"], state["numbers"]


class StatefulBatchSampler:
    """A batch sampler with a state of its own: batches of 1, 2, 3, 1, 2, 3, ... in an order of its own generator."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.generator = random.Random(0)
        self.position = 0
        self.length = 1
        self.order: list[int] = []

    def __iter__(self) -> Iterator[list[int]]:
        if self.position == 0:
            self.order = list(range(self.size))
            self.generator.shuffle(self.order)
        while self.position < self.size:
            batch = self.order[self.position : self.position + self.length]
            self.position += len(batch)
            self.length = self.length % 3 + 1
            yield batch
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "length": self.length,
            "order": self.order,
            "generator": self.generator.getstate(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position, self.length, self.order = state["position"], state["length"], state["order"]
        self.generator.setstate(state["generator"])
