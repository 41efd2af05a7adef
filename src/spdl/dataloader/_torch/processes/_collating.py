"""Collate tensors directly into the memory that the loader reads.

In a worker, torch's ``default_collate`` stacks the tensors of a batch in a file in ``/dev/shm``, for torch's own
transport. SPDL's transport would then need one more copy, and ``/dev/shm`` often has only 64 MiB in containers. So, in
workers only, ``default_collate`` is changed to stack them in memory shared with the loader.
"""

from __future__ import annotations

from typing import Any

from spdl._processes._transport._arena import arena_slot
from spdl._processes._transport._pickling import LARGE


def collate_in_place() -> None:
    """Make ``default_collate`` stack tensors in this worker's arena, as long as it has room.

    A collate function that the user has registered for tensors is kept.
    """
    import torch
    from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

    if default_collate_fn_map.get(torch.Tensor) is collate_tensor_fn:
        default_collate_fn_map[torch.Tensor] = _stack


def _stack(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stack tensors along a new first dimension. Results and errors are those of torch."""
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
        and tensor.shape == first.shape  # last, because it raises for nested tensors
    )
