"""Page-locked memory for batches: whether it is available, and for which device. Imports nothing from spdl."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pin:
    """Copies the tensors of a batch to page-locked memory. May be called in any thread.

    Attributes:
        device: Index of the accelerator that is current in the thread that iterates the loader. In a new thread, the
            first accelerator would be current, and would be initialised needlessly.
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
    """Make the function that pins batches for the current accelerator; ``None``, with a warning, if there is none.

    Args:
        device_name: The user's ``pin_memory_device``. torch has deprecated it: a warning is issued unless it is empty.
        complain: Function that issues a warning; the texts are torch's.
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
