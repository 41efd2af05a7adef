"""Page-locked memory for batches: whether it can be had, and how. Imports nothing of ours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Pin", "find_pin"]


@dataclass(frozen=True, slots=True)
class Pin:
    """Copies the tensors of a batch to page-locked memory, in whatever thread it is called.

    Attributes:
        device: Number of the accelerator that is current where the loader is iterated: a thread of ours would start
            with the first one, and initialise that for nothing.
    """

    device: int

    def __call__(self, batch: Any) -> Any:
        import torch
        from torch.utils.data._utils.pin_memory import pin_memory

        if hasattr(torch, "accelerator"):
            torch.accelerator.set_device_index(self.device)
        else:  # before torch 2.6
            torch.cuda.set_device(self.device)
        return pin_memory(batch)  # type: ignore[no-untyped-call, unused-ignore]


def find_pin(device_name: str, *, complain: Callable[[str], None]) -> Pin | None:
    """What pins batches for the current accelerator; ``None``, with a complaint, if there is none.

    Args:
        device_name: What the user asks for. torch has dropped the choice, so that something is said if there is one.
        complain: Gets the sentence to tell the user, which is torch's.
    """
    import torch

    if device_name:
        complain(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{device_name}'."
        )
    if not hasattr(torch, "accelerator"):  # before torch 2.6
        if torch.cuda.is_available():
            return Pin(torch.cuda.current_device())
    elif torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is not None and accelerator.type != "mps":
            return Pin(torch.accelerator.current_device_index())
        complain(
            "'pin_memory' argument is set as true but not supported on MPS now, device pinned memory won't be used."
        )
        return None
    complain(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used."
    )
    return None
