"""Datasets and samplers with states, as users of torchdata's ``StatefulDataLoader`` write them.

Importable by worker processes. Each dataset gives pairs of numbers that tell which pass they are of, if it knows.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset, RandomSampler, WeightedRandomSampler, get_worker_info

__all__ = ["MAPS", "SAMPLERS", "SIZE", "STREAMS"]

SIZE = 13


def share() -> list[int]:
    info = get_worker_info()
    return list(range(SIZE)) if info is None else list(range(info.id, SIZE, info.num_workers))


class Plain(IterableDataset[Any]):
    """No state."""

    def __iter__(self) -> Iterator[Any]:
        return iter(share())


class Once(IterableDataset[Any]):
    """Starts the next pass, and no other, from a loaded position."""

    def __init__(self) -> None:
        self.position = 0
        self.loaded: int | None = None

    def __iter__(self) -> Iterator[Any]:
        self.position, self.loaded = self.loaded or 0, None
        for number in share()[self.position :]:
            self.position += 1
            yield number

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loaded = state["position"]


class Always(Once):
    """Starts every pass from a loaded position, as Hugging Face's."""

    def __iter__(self) -> Iterator[Any]:
        self.position = self.loaded or 0
        for number in share()[self.position :]:
            self.position += 1
            yield number


class Outer(IterableDataset[Any]):
    """The state is in a part."""

    def __init__(self) -> None:
        self.parts = {"inner": Always()}

    def __iter__(self) -> Iterator[Any]:
        for each in self.parts["inner"]:
            yield [each]

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.parts["inner"].state_dict(), "odd": (1, 2)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["odd"] == (1, 2)
        self.parts["inner"].load_state_dict(state["inner"])


class Cursor(Iterator[Any]):
    """An iterator with a state."""

    def __init__(self, owner: Any = None) -> None:
        self.owner, self.numbers, self.position = owner, share(), 0

    def __next__(self) -> Any:
        if self.position == len(self.numbers):
            raise StopIteration
        self.position += 1
        if self.owner is None:
            return self.numbers[self.position - 1]
        self.owner.total += 1
        return [self.numbers[self.position - 1], self.owner.total]

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class InIterator(IterableDataset[Any]):
    """The state is in the iterator that ``__iter__`` makes."""

    def __iter__(self) -> Iterator[Any]:
        return Cursor()


class InBoth(IterableDataset[Any]):
    """The dataset counts over all passes, and the iterator has the position."""

    def __init__(self) -> None:
        self.total = 0

    def __iter__(self) -> Iterator[Any]:
        return Cursor(self)

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


class OwnIterator(IterableDataset[Any], Iterator[Any]):
    """Is its own iterator, and has one pass only."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        numbers = share()
        if self.position >= len(numbers):
            raise StopIteration
        self.position += 1
        return numbers[self.position - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class OwnIteratorAgain(OwnIterator):
    """Begins again with each ``iter()``, after which a state is loaded."""

    def __iter__(self) -> Iterator[Any]:
        self.position = 0
        return self


class Shuffled(IterableDataset[Any]):
    """Has a generator that goes on from pass to pass, and sets its position back at the end."""

    def __init__(self) -> None:
        self.rng = random.Random(3)
        self.order: list[int] = []
        self.position = 0

    def __iter__(self) -> Iterator[Any]:
        if self.position == 0:
            self.order = share()
            self.rng.shuffle(self.order)
        while self.position < len(self.order):
            self.position += 1
            yield self.order[self.position - 1]
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "order": list(self.order), "rng": self.rng.getstate()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position, self.order = state["position"], list(state["order"])
        self.rng.setstate(state["rng"])


class Drawn(Shuffled):
    """Draws each sample from a generator of torch that goes on from pass to pass."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(8)

    def __iter__(self) -> Iterator[Any]:
        while self.position < len(share()):
            self.position += 1
            yield torch.randint(1000, (), generator=self.generator).item()
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        self.generator.set_state(state["generator"])


class Numbered(IterableDataset[Any]):
    """Numbers its passes, and its order depends on the number."""

    def __init__(self) -> None:
        self.epoch = -1
        self.position = self.start = 0

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        self.position, self.start = self.start, 0
        numbers = share()
        random.Random(self.epoch).shuffle(numbers)
        for number in numbers[self.position :]:
            self.position += 1
            yield [number, self.epoch]

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.start = state["epoch"] - 1, state["position"]


#: Iterable datasets.
STREAMS: dict[str, Callable[[], Any]] = {
    each.__name__: each
    for each in (
        Plain, Once, Always, Outer, InIterator, InBoth, OwnIterator, OwnIteratorAgain, Shuffled, Drawn, Numbered,
    )
}  # fmt: skip


class Items:
    """Map-style."""

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> Any:
        return index


class Counting(Items):
    """Counts over all epochs how often it was asked."""

    def __init__(self) -> None:
        self.num_asked = 0

    def __getitem__(self, index: int) -> Any:
        self.num_asked += 1
        return [index, self.num_asked]

    def state_dict(self) -> dict[str, Any]:
        return {"num_asked": self.num_asked}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_asked = state["num_asked"]


#: Map-style datasets.
MAPS: dict[str, Callable[[], Any]] = {each.__name__: each for each in (Items, Counting)}


class BySampler:
    """Makes a sampler of an iterable dataset."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[Any]:
        return iter(self.of)


class BySamplerWithState(BySampler):
    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self.of.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.of.load_state_dict(state)


class Batches(BySamplerWithState):
    """A batch sampler of batches of 1, 2, 3, 1 ... indices."""

    def __iter__(self) -> Iterator[Any]:
        batch: list[int] = []
        size = 1
        for each in self.of:
            batch.append(each)
            if len(batch) == size:
                yield batch
                batch, size = [], size % 3 + 1
        if batch:
            yield batch


def _distributed() -> Any:
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    return StatefulDistributedSampler(Items(), num_replicas=2, rank=1, seed=3)  # type: ignore[arg-type]


def _random() -> Any:
    from torchdata.stateful_dataloader.sampler import RandomSampler

    return RandomSampler(Items(), generator=generator())  # type: ignore[no-untyped-call]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(4)


#: Options of loaders with a sampler.
SAMPLERS: dict[str, Callable[[], dict[str, Any]]] = {
    "sequential": lambda: {"batch_size": 3},
    "RandomSampler": lambda: {"batch_size": 3, "sampler": RandomSampler(Items(), generator=generator())},
    "WeightedRandomSampler": lambda: {
        "batch_size": 3,
        "sampler": WeightedRandomSampler([1.0, 2.0, 3.0], SIZE, generator=generator()),
    },
    "torchdata's RandomSampler": lambda: {"batch_size": 3, "sampler": _random()},
    "torchdata's StatefulDistributedSampler": lambda: {"batch_size": 2, "sampler": _distributed()},
    "Plain": lambda: {"batch_size": 3, "sampler": BySampler(Plain())},
    "Once": lambda: {"batch_size": 3, "sampler": BySamplerWithState(Once())},
    "Always": lambda: {"batch_size": 4, "sampler": BySamplerWithState(Always())},
    "InIterator": lambda: {"batch_size": 3, "sampler": BySampler(InIterator())},
    "Shuffled": lambda: {"batch_size": 3, "sampler": BySamplerWithState(Shuffled())},
    "Shuffled, whole batches": lambda: {"batch_size": 13, "sampler": BySamplerWithState(Shuffled())},
    "Shuffled, not batched": lambda: {"batch_size": None, "sampler": BySamplerWithState(Shuffled())},
    "Shuffled, drop_last": lambda: {"batch_size": 4, "drop_last": True, "sampler": BySamplerWithState(Shuffled())},
}  # fmt: skip
