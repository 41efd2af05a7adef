"""Batches in ordinary memory, a step that reads them on the device, and an epoch of both."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

__all__ = ["outputs", "prepare_with", "versions"]

Batch = dict[str, torch.Tensor]


def versions() -> dict[str, str]:
    return {"torch": torch.__version__, "cuda": torch.version.cuda or "", "device": torch.cuda.get_device_name()}


def prepare_with(bring: Callable[[list[Batch]], Iterable[Batch]], data: dict[str, Any]) -> Callable[[], Any]:
    """Run an epoch. The time includes all steps, until the device has finished.

    Args:
        bring: A function that gives the batches on the device.
        data: The data of the case.
    """
    generator = torch.Generator().manual_seed(0)
    batches = [
        {
            f"x{k}": torch.randint(0, 255, data["shape"], dtype=torch.uint8, generator=generator)
            for k in range(data["num_tensors"])
        }
        for _ in range(data["num"])
    ]
    matrix = torch.ones(4096, 4096, device="cuda")
    moved = bring(batches)

    def epoch() -> Any:
        sums = []
        for batch in moved:
            sums.append(torch.stack([tensor.sum() for tensor in batch.values()]).sum())
            for _ in range(data["num_products"]):
                torch.mm(matrix, matrix)
        return torch.stack(sums).cpu()

    return epoch


def outputs(case: str, result: Any) -> dict[str, Any]:
    return {"sums": np.asarray(result)}
