"""What batches of tensors and arrays become on their way from a worker process, beside torch's ``DataLoader``.

Tensors of one storage stay together, with strides and offsets of their own, expanded ones included; NumPy arrays become
contiguous and writable.
"""

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader

from spdl.dataloader import get_pytorch_dataloader
from tests.support.soak import SEED, amount

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

DTYPES = [torch.float32, torch.bool, torch.bfloat16, torch.int64, torch.uint8, torch.complex64, torch.float64]


def view_of(tensor: Any, rng: random.Random) -> Any:
    """One of the views that torch has."""
    for _ in range(rng.randrange(4)):
        dims = tensor.dim()
        dim = rng.randrange(dims) if dims else 0
        size = tensor.shape[dim] if dims else 0
        choice = rng.randrange(8)
        if choice == 0 and dims:
            start = rng.randrange(size + 1)
            tensor = tensor.narrow(dim, start, rng.randrange(size - start + 1))
        elif choice == 1 and dims:
            tensor = tensor[(slice(None),) * dim + (slice(None, None, rng.randrange(1, 4)),)]
        elif choice == 2 and dims > 1:
            tensor = tensor.permute(rng.sample(range(dims), dims))
        elif choice == 3:
            tensor = tensor.unsqueeze(0).expand(rng.randrange(1, 5), *tensor.shape)
        elif choice == 4 and dims and size:
            tensor = tensor.select(dim, rng.randrange(size))
        elif choice == 5 and dims and size > 2:
            tensor = tensor.unfold(dim, 2, 1)
        elif choice == 6 and dims > 1:
            tensor = tensor.diagonal(0, 0, 1)
        elif choice == 7 and tensor.is_contiguous() and tensor.numel() < 500:
            tensor = tensor.reshape(-1)
    return tensor


def array_of(rng: random.Random) -> Any:
    """One of the arrays that NumPy has."""
    shape = tuple(rng.randrange(5) if rng.random() < 0.2 else rng.randrange(1, 6) for _ in range(rng.randrange(4)))
    kind: Any = rng.choice(
        ["f4", "i8", "?", "f2", "c8", "M8[s]", "U3", "S2", ">i4", [("a", "i4"), ("b", "f8", (2,))], "O"]
    )
    array = np.zeros(shape, np.dtype(kind))
    if array.dtype.kind in "fiucb":
        array[...] = np.reshape(rng.choices(range(2), k=array.size), shape)
    if rng.random() < 0.3:
        array = np.asfortranarray(array)
    if rng.random() < 0.3:
        array = array.T
    if rng.random() < 0.3 and array.ndim:
        array = array[:: rng.choice([-1, 2])]
    if rng.random() < 0.3:
        array = np.broadcast_to(array, (3, *array.shape))
    elif rng.random() < 0.4:
        array.flags.writeable = False
    return array


def sample_of(seed: int) -> list[Any]:
    """Views of a few storages, and arrays."""
    rng = random.Random(seed)
    found: list[Any] = []
    for _ in range(rng.randrange(1, 3)):
        shape = [rng.randrange(1, 6) for _ in range(rng.randrange(1, 4))]
        base = (torch.arange(int(np.prod(shape))) % 5).to(rng.choice(DTYPES)).reshape(shape)
        found += [view_of(base, rng) for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.2:
            found.append(found[-1])
        if rng.random() < 0.2:
            found.append(base.view(torch.uint8) if base.element_size() == 1 else base)
    found += [array_of(rng) for _ in range(rng.randrange(3))]
    rng.shuffle(found)
    return found


class Samples(torch.utils.data.Dataset[Any]):
    """Makes them in the worker."""

    def __init__(self, first: int, number: int) -> None:
        self.first, self.number = first, number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> Any:
        return sample_of(self.first + index)


def as_is(sample: Any) -> Any:
    return sample


def facts_of(sample: list[Any]) -> list[Any]:
    """Everything but addresses: two that have one storage have one number."""
    numbers: dict[Any, int] = {}
    found: list[Any] = []
    for each in sample:
        if isinstance(each, torch.Tensor):
            # Where nothing is, there is nothing to share.
            storage = each.untyped_storage().data_ptr() if each.numel() else None
            number = numbers.setdefault(storage, len(numbers))
            found.append((number, each.dtype, tuple(each.shape), each.stride(), str(each.tolist())))
        else:
            flags = each.flags
            order = flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
            # NumPy's older pickles, which torch uses, change the order of bytes to that of the machine.
            found.append((str(each.dtype.newbyteorder("=")), each.shape, order, str(each.tolist())))
    return found


@pytest.mark.soak
def test_batches_are_what_torch_makes_of_them() -> None:
    """Generated samples, loaded by both."""
    dataset = Samples(SEED * 100_000, amount(150, 3000))
    options: dict[str, Any] = {"batch_size": None, "num_workers": 1, "collate_fn": as_is}
    judge = TorchDataLoader(dataset, multiprocessing_context="fork", **options)
    loader = get_pytorch_dataloader(dataset, workers="process", **options)
    number = 0
    for index, (sample, expected) in enumerate(zip(loader, judge, strict=True)):
        assert facts_of(sample) == facts_of(expected), dataset.first + index
        for each, its in zip(sample, expected, strict=True):  # what is written is seen by the others, as there
            if isinstance(each, np.ndarray):
                each[...] = its[...] = each.copy()
            elif each.numel():
                each[(0,) * each.dim()] = its[(0,) * each.dim()] = 1
        assert facts_of(sample) == facts_of(expected), dataset.first + index
        number += 1
    assert number == len(dataset)
