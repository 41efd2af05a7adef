"""Find CUDA devices through torch, and say in messages what is missing. Nothing here initialises CUDA."""

import importlib
import os
from typing import Any

from spdl.io._errors import DeviceError


def get_torch() -> Any | None:
    """The torch module, or ``None`` if it is not installed."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as exc:
        if exc.name != "torch":
            raise
        return None


def check_device_index(index: int, action: str, *, origin: str = "") -> Any:
    """Return the torch module if a CUDA device with this index exists.

    Args:
        index: Index of the device.
        action: The attempted action, for the message: ``"transfer tensors"``.
        origin: Origin of the index, for the message.

    Raises:
        DeviceError: The device does not exist, torch is not installed, or torch is not built for CUDA; the message says
            which.
    """
    found = what_is_missing(index)
    if found is not None:
        raise DeviceError(f"cannot {action} to or from cuda:{index}{origin}: {found}", action=action)
    return get_torch()


def what_is_missing(index: int) -> str | None:
    """The reason why there is no CUDA device with this index, as part of a message; ``None`` if there is one."""
    torch = get_torch()
    if torch is None:
        return (
            "it needs CUDA through torch, which is not installed. Install torch for CUDA: see"
            " https://pytorch.org/get-started"
        )
    num_devices = torch.cuda.device_count()
    if 0 <= index < num_devices:
        return None
    if num_devices:
        return f"there {'is 1 device' if num_devices == 1 else f'are {num_devices} devices'}, counted from 0"
    if torch.version.cuda is None and torch.version.hip is None:
        return f"this torch ({torch.__version__}) is built without CUDA"
    return "torch finds no GPU: is there a driver, and does CUDA_VISIBLE_DEVICES name one?"


def local_device(action: str) -> Any:
    """The ``torch.device`` of this process: ``cuda:$LOCAL_RANK``, as set by launchers; ``cuda:0`` if it is not set.

    Raises:
        ValueError: ``LOCAL_RANK`` is not an integer.
        DeviceError: The device does not exist.
    """
    text = os.environ.get("LOCAL_RANK")
    try:
        rank = 0 if text is None else int(text)
    except ValueError:
        raise ValueError(
            f"the environment variable LOCAL_RANK must be an integer, the number of a GPU; got {text!r}"
        ) from None
    torch = check_device_index(rank, action, origin="" if text is None else f" (LOCAL_RANK={text})")
    return torch.device("cuda", rank)
