"""Datasets and samplers with states, as users of torchdata's ``StatefulDataLoader`` write them.

Importable by worker processes. Each dataset gives pairs of numbers that tell which pass they are of, if it knows.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

__all__ = ["MAPS", "SAMPLERS", "SHUFFLES", "SIZE", "STREAMS"]

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


class GlobalCursor(Cursor):
    """Draws from torch's global generator, and keeps it in its state."""

    def __next__(self) -> Any:
        super().__next__()
        return torch.randint(1000, ()).item()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "global": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        torch.set_rng_state(state["global"])


class InGlobal(IterableDataset[Any]):
    """The state is in the iterator and in torch's global generator."""

    def __iter__(self) -> Iterator[Any]:
        return GlobalCursor()


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


class Global(IterableDataset[Any]):
    """A generator that draws from torch's global one, whose state the dataset keeps."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[Any]:
        while self.position < len(share()):
            self.position += 1
            yield torch.randint(1000, ()).item()
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "global": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        torch.set_rng_state(state["global"])


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
        Plain, Once, Always, Outer, InIterator, InGlobal, InBoth, OwnIterator, OwnIteratorAgain, Shuffled, Drawn,
        Global, Numbered,
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


class GlobalItems(Items):
    """Draws from torch's global generator, and keeps it in its state."""

    def __getitem__(self, index: int) -> Any:
        return [index, torch.randint(1000, ()).item()]

    def state_dict(self) -> dict[str, Any]:
        return {"global": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["global"])


#: Map-style datasets.
MAPS: dict[str, Callable[[], Any]] = {each.__name__: each for each in (Items, Counting, GlobalItems)}


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


class Batches(BySampler):
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


class Pairs(BySamplerWithState):
    """A batch sampler of batches of two indices, without the last one."""

    def __iter__(self) -> Iterator[Any]:
        batch: list[int] = []
        for each in self.of:
            batch.append(each)
            if len(batch) == 2:
                yield batch
                batch = []


def _distributed() -> Any:
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    return StatefulDistributedSampler(Items(), num_replicas=2, rank=1, seed=3)  # type: ignore[arg-type]


def _random() -> Any:
    from torchdata.stateful_dataloader.sampler import RandomSampler

    return RandomSampler(Items(), generator=generator())  # type: ignore[no-untyped-call]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(4)


def _distributed_by_epoch() -> Any:
    return DistributedSampler(Items(), num_replicas=2, rank=1, seed=3)  # type: ignore[arg-type]


#: Options of loaders with a sampler of torch, most of which draw from torch's global generator.
SHUFFLES: dict[str, Callable[[], dict[str, Any]]] = {
    "shuffle": lambda: {"batch_size": 3, "shuffle": True},
    "shuffle, one by one": lambda: {"batch_size": None, "shuffle": True},
    "shuffle, drop_last": lambda: {"batch_size": 5, "shuffle": True, "drop_last": True},
    "shuffle with a generator": lambda: {"batch_size": 3, "shuffle": True, "generator": generator()},
    "RandomSampler": lambda: {"batch_size": 3, "sampler": RandomSampler(Items())},
    "RandomSampler, num_samples": lambda: {"batch_size": 3, "sampler": RandomSampler(Items(), num_samples=30)},
    "RandomSampler, replacement": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(Items(), replacement=True, num_samples=40),
    },
    "WeightedRandomSampler": lambda: {"batch_size": 3, "sampler": WeightedRandomSampler([1.0, 2.0, 3.0], SIZE)},
    "WeightedRandomSampler, once each": lambda: {
        "batch_size": 3,
        "sampler": WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False),
    },
    "SubsetRandomSampler": lambda: {"batch_size": 2, "sampler": SubsetRandomSampler(range(2, SIZE))},
    "SubsetRandomSampler with a generator": lambda: {
        "batch_size": 2,
        "sampler": SubsetRandomSampler(range(2, SIZE), generator()),
    },
    "DistributedSampler": lambda: {"batch_size": 2, "sampler": _distributed_by_epoch()},
    "BatchSampler": lambda: {"batch_sampler": BatchSampler(RandomSampler(Items()), 4, drop_last=False)},
    "BatchSampler of one that is weighted": lambda: {
        "batch_sampler": BatchSampler(WeightedRandomSampler([1.0, 5.0], 9), 4, drop_last=True)
    },
    "batches of other sizes": lambda: {"batch_sampler": Batches(RandomSampler(Items()))},
}

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
    "pairs of Shuffled": lambda: {"batch_sampler": Pairs(Shuffled())},
    "Shuffled, drop_last": lambda: {"batch_size": 4, "drop_last": True, "sampler": BySamplerWithState(Shuffled())},
}  # fmt: skip
