"""Collating tensors where the loader will read them.

torch's ``default_collate`` stacks the tensors of a batch in a file in ``/dev/shm`` when it runs in a worker, for its
own way to the loader. On ours that would be one copy too many, and one limit: in containers ``/dev/shm`` often has 64
MiB. So it is told, in workers only, to stack them in the memory that the loader has mapped.
"""

from __future__ import annotations

from typing import Any

from spdl._processes._transport._arena import arena_slot
from spdl._processes._transport._pickling import LARGE

__all__ = ["collate_in_place"]


def collate_in_place() -> None:
    """From now on ``default_collate`` stacks tensors in this worker's arena, as long as that has room.

    If somebody has told it how to collate tensors, that stays.
    """
    import torch
    from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

    if default_collate_fn_map.get(torch.Tensor) is collate_tensor_fn:
        default_collate_fn_map[torch.Tensor] = _stack


def _stack(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """One tensor of all, along a new first dimension. Results and errors are those of torch."""
    import torch
    from torch.utils.data._utils.collate import collate_tensor_fn

    first = batch[0]
    if not all(_is_plain(each, first, torch) for each in batch):
        return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
    num_bytes = len(batch) * first.nbytes
    if num_bytes < LARGE:
        return torch.stack(batch, 0)
    out = torch.frombuffer(arena_slot(num_bytes), dtype=first.dtype).view(len(batch), *first.shape)
    return torch.stack(batch, 0, out=out)


def _is_plain(tensor: Any, first: Any, torch: Any) -> bool:
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.requires_grad or tensor.is_nested or tensor.is_quantized)
        and tensor.dtype is first.dtype
        and tensor.shape == first.shape  # after the rest: a nested tensor has none, and raises
    )
