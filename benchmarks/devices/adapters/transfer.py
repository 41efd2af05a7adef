"""``transfer_tensor_h2d`` as the ``transfer_fn`` of a ``DataLoader``."""

from collections.abc import Callable
from typing import Any

from spdl.dataloader import DataLoader
from spdl.io import transfer_tensor_h2d

from ._epoch import outputs, prepare_with, versions

__all__ = ["outputs", "prepare", "versions"]


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    def bring(batches: list[Any]) -> Any:
        return DataLoader(batches, transfer_fn=transfer_tensor_h2d, num_threads=1, buffer_size=2)

    return prepare_with(bring, data)
