"""What tests of states of torch's loader share: the kinds of workers, and how batches are taken."""

from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["KINDS", "drain", "plain", "take"]

KINDS: dict[str, dict[str, Any]] = {
    "inline": {"workers": "process", "num_workers": 0},
    "thread": {"workers": "thread", "num_workers": 2},
    "process": {"workers": "process", "num_workers": 2},
    "auto": {"workers": "auto", "num_workers": 2},
}


def plain(batch: Any) -> Any:
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


def drain(batches: Iterator[Any]) -> list[Any]:
    """All batches that are left, and exceptions as text."""
    taken: list[Any] = []
    while True:
        try:
            taken.append(plain(next(batches)))
        except StopIteration:
            return taken
        except ValueError as exc:
            taken.append(str(exc).splitlines()[0])


def take(batches: Iterator[Any], count: int) -> list[Any]:
    taken: list[Any] = []
    for _ in range(count):
        try:
            taken.append(plain(next(batches)))
        except ValueError as exc:
            taken.append(str(exc).splitlines()[0])
    return taken
