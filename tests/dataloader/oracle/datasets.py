"""Datasets, samplers and functions of the cases, where worker processes can import them."""

import os
import random
import signal
import threading
from collections import OrderedDict, UserDict, UserList, defaultdict, namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info

__all__ = ["COLLATED", "CONVERTED"]


class Point(NamedTuple):
    x: Any
    y: Any


Old = namedtuple("Old", ["left", "right"])


class Own:
    """A class that torch knows nothing of."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass
class Record:
    image: Any
    label: int


class Text(str):
    """A kind of str."""


class Cells(list[Any]):
    """A kind of list."""


class MyTensor(torch.Tensor):
    """A kind of tensor."""


def _floats(k: int) -> Any:
    return torch.arange(6, dtype=torch.float32).reshape(2, 3) + k


#: By name, what sample ``k`` of a batch is.
COLLATED: dict[str, Callable[[int], Any]] = {
    "tensor": _floats,
    "tensor 0-d": lambda k: torch.tensor(k),
    "tensor empty": lambda k: torch.zeros(0, 3),
    "tensor large": lambda k: torch.full((300, 400), k, dtype=torch.float64),
    "tensor uint8": lambda k: torch.full((3, 64, 64), k, dtype=torch.uint8),
    "tensor bool": lambda k: torch.tensor([k % 2 == 0, True]),
    "tensor half": lambda k: torch.tensor([k, 1.5], dtype=torch.float16),
    "tensor bfloat16": lambda k: torch.tensor([k, 1.5], dtype=torch.bfloat16),
    "tensor complex": lambda k: torch.tensor([1j * k]),
    "tensor transposed": lambda k: _floats(k).t(),
    "tensor strided": lambda k: torch.arange(20)[k::4][:4],
    "tensor expanded": lambda k: torch.tensor([k]).expand(5),
    "tensor with nan": lambda k: torch.tensor([float("nan"), k]),
    "tensor that needs gradients": lambda k: _floats(k).requires_grad_(),
    "tensor of own kind": lambda k: _floats(k).as_subclass(MyTensor),
    "tensors of other shapes": lambda k: torch.zeros(k + 1),
    "tensors of other dtypes": lambda k: torch.zeros(2, dtype=[torch.float32, torch.float64][k % 2]),
    "sparse tensor": lambda k: torch.eye(3).to_sparse(),
    "array": lambda k: np.arange(6, dtype=np.float32).reshape(2, 3) + k,
    "array uint8": lambda k: np.full((4, 4, 3), k, dtype=np.uint8),
    "array int64": lambda k: np.array([k, -k]),
    "array bool": lambda k: np.array([k % 2 == 0]),
    "array uint16": lambda k: np.array([k, 65535], dtype=np.uint16),
    "array in Fortran order": lambda k: np.asfortranarray(np.arange(6).reshape(2, 3) + k),
    "array 0-d": lambda k: np.array(k),
    "array of text": lambda k: np.array(["a", "b"]),
    "array of objects": lambda k: np.array([Own(1), None], dtype=object),
    "array of big-endian": lambda k: np.array([k], dtype=">f4"),
    "float32": lambda k: np.float32(k / 3),
    "float64": lambda k: np.float64(k / 3),
    "int8": lambda k: np.int8(k),
    "uint8": lambda k: np.uint8(200 + k),
    "bool_": lambda k: np.bool_(k % 2),
    "str_": lambda k: np.str_(f"text {k}"),
    "int": lambda k: k,
    "large int": lambda k: 2**62 + k,
    "too large int": lambda k: 2**70 + k,
    "negative int": lambda k: -k,
    "bool": lambda k: k % 2 == 0,
    "int, then float": lambda k: [k, k / 2][k % 2],
    "float": lambda k: k / 3,
    "nan": lambda k: float("nan"),
    "complex": lambda k: 1j * k,
    "str": lambda k: f"text {k}",
    "str of own kind": lambda k: Text(k),
    "bytes": lambda k: bytes([k]) * k,
    "large bytes": lambda k: bytes([k]) * 100_000,
    "bytearray": lambda k: bytearray([k, 1]),
    "None": lambda k: None,
    "dict": lambda k: {"image": _floats(k), "label": k, "name": f"n{k}"},
    "dict of other keys": lambda k: {f"key {k}": k},
    "dict of more keys": lambda k: {"a": k, **({"b": 1} if k else {})},
    "dict, integer keys": lambda k: {1: k, 0: k / 2},
    "dict, empty": lambda k: {},
    "ordered dict": lambda k: OrderedDict(b=k, a=_floats(k)),
    "default dict": lambda k: defaultdict(list, {"a": k}),
    "user dict": lambda k: UserDict({"a": k}),
    "tuple": lambda k: (_floats(k), k),
    "tuple, empty": lambda k: (),
    "tuple, one": lambda k: (k,),
    "tuples of other lengths": lambda k: (k,) * (k + 1),
    "list": lambda k: [_floats(k), k, f"n{k}"],
    "list of own kind": lambda k: Cells([k, k / 2]),
    "user list": lambda k: UserList([k, k / 2]),
    "range": lambda k: range(k, k + 3),
    "namedtuple": lambda k: Point(_floats(k), k),
    "old namedtuple": lambda k: Old({"a": k}, [k]),
    "nested": lambda k: {"a": [Point(k, (k, {"b": _floats(k)})), f"{k}"], "c": ({"d": np.float32(k)},)},
    "nested none": lambda k: {"a": k, "b": None},
    "own class": Own,
    "record": lambda k: Record(_floats(k), k),
    "set": lambda k: {k},
    "deque": lambda k: memoryview(bytes([k, 2])),
}

#: The same without batches.
CONVERTED: dict[str, Callable[[int], Any]] = {
    name: make
    for name, make in COLLATED.items()
    if name not in ("deque", "own class", "sparse tensor", "array of big-endian")
}


class Made(Dataset[Any]):
    """``size`` samples for each name: ``made[name, k]``."""

    def __getitem__(self, key: tuple[str, int]) -> Any:
        name, k = key
        return COLLATED[name](k)

    def __len__(self) -> int:
        return 4 * len(COLLATED)


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


class ChanceIterable(IterableDataset[Any]):
    """The same from an iterable dataset."""

    def __iter__(self) -> Iterator[Any]:
        return (chance(index) for index in range(5))


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


TIMEOUT = 20.0
gate = threading.Event()


# -- iterable datasets


class Stream(IterableDataset[int]):
    """``range(start, stop)``, whoever asks."""

    def __init__(self, start: int = 0, stop: int = 7) -> None:
        self.start, self.stop = start, stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))


class SizedStream(Stream):
    def __init__(self, start: int = 0, stop: int = 7, length: int | None = None) -> None:
        super().__init__(start, stop)
        self.length = stop - start if length is None else length

    def __len__(self) -> int:
        return self.length


class Sharded(Stream):
    """Each worker gives a consecutive part, as torch's documentation shows."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if info is None:
            return iter(range(self.start, self.stop))
        part = -(-(self.stop - self.start) // info.num_workers)
        first = self.start + info.id * part
        return iter(range(first, min(first + part, self.stop)))


class Uneven(Stream):
    """The first worker gives one sample, the second two more, and so on."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        k = 2 if info is None else info.id
        return iter(range(100 * k, 100 * k + 1 + 4 * k))


class FailingStream(Stream):
    """Raises after so many."""

    def __init__(self, num_items: int, error: Exception) -> None:
        super().__init__(0, num_items)
        self.error = error

    def __iter__(self) -> Iterator[int]:
        yield from range(self.stop)
        raise self.error


class CountingStream(IterableDataset[Any]):
    """Tells the epoch, which its own copy counts, and the process."""

    def __init__(self) -> None:
        self.epoch = 0

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        return ((self.epoch, k) for k in range(4))


def shard(worker_id: int) -> None:
    """A ``worker_init_fn`` that cuts a ``Stream`` into parts, as torch's documentation shows."""
    info: Any = get_worker_info()
    assert info.id == worker_id
    dataset = info.dataset
    start, stop = dataset.start, dataset.stop
    part = -(-(stop - start) // info.num_workers)
    dataset.start = start + worker_id * part
    dataset.stop = min(dataset.start + part, stop)


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


class EndlessBatches(Sampler[list[int]]):
    """Batches without an end; of growing size, some empty if told."""

    def __iter__(self) -> Iterator[list[int]]:
        size = 0
        while True:
            size = size % 4 + 1
            yield list(range(size))
