"""The same arguments to torch's loader and to ours: what came, step by step, and whether it is the same."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from spdl.dataloader import get_pytorch_dataloader
from tests.support.timeouts import TIMEOUT

__all__ = [
    "ALL",
    "FORKS",
    "QUICK",
    "TIMEOUT",
    "Raised",
    "check_same",
    "numbers_of",
    "ours",
    "read",
    "reading",
    "theirs",
]

#: Ways to load of ours that start no process, and all of them. "inline" is ``num_workers=0``.
QUICK = ("inline", "thread")
ALL = (*QUICK, "process", "auto")

#: For tests that run torch's processes: Python 3.12 and later warn of forks beside threads.
FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@dataclass(frozen=True)
class Raised:
    """A step that gave an exception of this type instead of a batch."""

    type: type[BaseException]


def ours(way: str, dataset: Any, *args: Any, **options: Any) -> Any:
    """Our loader: two workers, unless told otherwise."""
    if way == "inline":
        options.pop("persistent_workers", None)
        options.pop("prefetch_factor", None)
        return get_pytorch_dataloader(dataset, *args, **{**options, "workers": "thread", "num_workers": 0})
    return get_pytorch_dataloader(dataset, *args, **{"workers": way, "num_workers": 2, "timeout": TIMEOUT, **options})


def theirs(dataset: Any, *args: Any, **options: Any) -> Any:
    """Torch's loader: no workers, unless told otherwise."""
    if options.get("num_workers"):  # quick, and only ever for these few processes of torch's
        options.setdefault("multiprocessing_context", "fork")
    return DataLoader(dataset, *args, **options)


def read(loader: Iterable[Any], *, limit: int = 200) -> list[Any]:
    """Every step of one epoch: a batch, or ``Raised`` where it was an exception, after which reading goes on."""
    steps: list[Any] = []
    try:
        iterator = iter(loader)
    except Exception as exc:
        return [Raised(type(exc))]
    with closing(iterator):
        while len(steps) < limit:
            try:
                steps.append(next(iterator))
            except StopIteration:
                return steps
            except Exception as exc:
                steps.append(Raised(type(exc)))
    raise AssertionError(f"there is no end to it: {steps[-5:]}")


@contextmanager
def reading(loader: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """An iterator that is closed, if it can be, even where the test fails and its traceback keeps it alive."""
    with closing(iter(loader)) as iterator:
        yield iterator


@contextmanager
def closing(iterator: Iterator[Any]) -> Iterator[Iterator[Any]]:
    try:
        yield iterator
    finally:
        if (close := getattr(iterator, "close", None)) is not None:
            close()


def numbers_of(batches: Iterable[Any]) -> list[Any]:
    """Batches of numbers as lists, so that they compare and print well; exceptions stay."""
    return [each if isinstance(each, Raised) else torch.as_tensor(each).tolist() for each in batches]


def check_same(one: Any, other: Any, where: str = "", *, strides: bool = True) -> None:
    """Fail unless both are the same down to types, dtypes, shapes, strides (if asked) and bits."""
    assert type(one) is type(other), (where, type(one), type(other), one, other)
    if isinstance(one, torch.Tensor):
        for what in ("dtype", "shape", "layout", "device", "requires_grad"):
            assert getattr(one, what) == getattr(other, what), (where, what, one, other)
        assert not strides or one.stride() == other.stride(), (where, one.stride(), other.stride())
        assert torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)), (where, one, other)
    elif isinstance(one, np.ndarray | np.generic):
        assert one.dtype == other.dtype, (where, one.dtype, other.dtype)
        assert np.shape(one) == np.shape(other), (where, one, other)
        assert np.array_equal(one, other), (where, one, other)
    elif isinstance(one, Mapping):
        assert list(one) == list(other), (where, one, other)
        for key in one:
            check_same(one[key], other[key], f"{where}[{key!r}]", strides=strides)
    elif isinstance(one, Sequence) and not isinstance(one, str | bytes | range):
        assert len(one) == len(other), (where, one, other)
        for index, (a, b) in enumerate(zip(one, other, strict=True)):
            check_same(a, b, f"{where}[{index}]", strides=strides)
    elif dataclasses.is_dataclass(one) and not isinstance(one, Raised):
        for field in dataclasses.fields(one):
            check_same(getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}", strides=strides)
    else:
        assert one == other or (one != one and other != other), (where, one, other)
