"""Torch tensors of every kind, made in another process as in this one. Needs torch."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from spdl import pipeline

__all__ = ["TENSORS", "batch", "batches", "born", "made", "same"]

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    *(getattr(torch, name) for name in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "complex32")
      if hasattr(torch, name)),
]  # fmt: skip


def _of(dtype: torch.dtype, num_bytes: int = 100_000) -> torch.Tensor:
    values = torch.arange(num_bytes, dtype=torch.int64) % 120
    if dtype == torch.bool:
        return values % 2 == 0
    return values.to(torch.uint8)[: num_bytes // 16 * 16].view(dtype)


def _numbers(*shape: int) -> torch.Tensor:
    count = 1
    for side in shape:
        count *= side
    return torch.arange(count, dtype=torch.float32).reshape(shape)


#: By name, how each is made; made anew for every process.
TENSORS: dict[str, Callable[[], Any]] = {
    **{f"dtype {dtype}": partial(_of, dtype) for dtype in DTYPES},
    **{f"dtype {dtype}, small": partial(_of, dtype, 64) for dtype in DTYPES},
    "size 0-d": lambda: torch.tensor(3.5),
    "size 0-d bfloat16": lambda: torch.tensor(3.5, dtype=torch.bfloat16),
    "size empty": lambda: torch.empty(0, 3, 224),
    "size 4096": lambda: torch.arange(1024, dtype=torch.int32),
    "size 2 MB": lambda: _numbers(2, 250, 1000),
    "order transposed": lambda: _numbers(100, 300).t(),
    "order channels last": lambda: _numbers(4, 3, 32, 32).to(memory_format=torch.channels_last),
    "order permuted": lambda: _numbers(10, 20, 30).permute(2, 0, 1),
    "strides window": lambda: _numbers(300, 100)[5:250, 3:90],
    "strides every third": lambda: _numbers(60_000)[::3],
    "strides expanded": lambda: _numbers(500).expand(200, 500),
    "view of few of many": lambda: _numbers(500_000)[10:20],
    "view of bfloat16": lambda: _of(torch.bfloat16)[7:20_000],
    "conjugate": lambda: _of(torch.complex64).conj(),
    "negative": lambda: _of(torch.complex64).conj().imag,
    "needs gradient": lambda: _numbers(100, 100).requires_grad_(),
    "detached": lambda: (_numbers(100, 100).requires_grad_() * 2).detach(),
    "parameter": lambda: torch.nn.Parameter(_numbers(100, 100)),
    "parameter without gradient": lambda: torch.nn.Parameter(_numbers(100, 100), requires_grad=False),
    "buffer of numpy": lambda: torch.from_numpy(_numbers(100, 100).numpy().copy()),
    "sparse": lambda: torch.eye(50).to_sparse(),
}


def made(names: list[str]) -> Iterator[Any]:
    return (TENSORS[name]() for name in names)


def same(item: Any) -> Any:
    return item


class batches:
    """Tensors that hold their number; iterable anew."""

    def __init__(self, num_items: int) -> None:
        self.num_items = num_items

    def __iter__(self) -> Iterator[Any]:
        return (torch.full((10, 20_000), k, dtype=torch.int32) for k in range(self.num_items))


def batch() -> Iterable[Any]:
    images = _numbers(8, 3, 64, 64)
    yield {"images": images, "labels": torch.arange(8), "more": (images, [None])}


def born(num_items: int) -> Iterator[Any]:
    for k in range(num_items):
        tensor = torch.frombuffer(pipeline.arena_slot(400_000), dtype=torch.int32)
        tensor.fill_(k)
        yield tensor


def sharing() -> Iterator[Any]:
    """Two views of one storage, small and large, and an expanded one."""
    for size in (100, 10_000):
        base = torch.zeros(size)
        yield base[: size // 2 + 10], base[size // 2 - 10 :], base[:1].expand(1000, 1)
