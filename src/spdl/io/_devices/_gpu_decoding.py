"""Argument checks and the error for a missing decoder, shared by the functions that decode on NVIDIA GPUs."""

from typing import NoReturn

from spdl.io._errors import DeviceError

from ._cuda import check_int, what_is_missing
from ._cuda_buffers import CUDAConfig


def check_scale(**sizes: object) -> None:
    """Raise unless each is -1, which means the size of the source, or a number of pixels."""
    for name, value in sizes.items():
        if check_int(name, value, -1) == 0:
            raise ValueError(f"{name} must be >= 1, or -1 for the size of the source; got 0")


def check_crop(
    width: int | None, height: int | None, *, left: object, top: object, right: object, bottom: object
) -> None:
    """Raise unless the crop leaves at least one pixel per side, if the size is known."""
    sides = {"crop_left": left, "crop_top": top, "crop_right": right, "crop_bottom": bottom}
    pixels = {name: check_int(name, value, 0) for name, value in sides.items()}
    for size, first, second in ((width, "crop_left", "crop_right"), (height, "crop_top", "crop_bottom")):
        if size and pixels[first] + pixels[second] >= size:
            raise ValueError(
                f"{first} and {second} must leave at least 1 of {size} pixels, got {pixels[first]} and {pixels[second]}"
            )


def check_pix_fmt(pix_fmt: object) -> None:
    """Raise unless it is ``"rgb"`` or ``"bgr"``."""
    if pix_fmt not in ("rgb", "bgr"):
        raise ValueError(f"pix_fmt must be 'rgb' or 'bgr', got {pix_fmt!r}")


def refuse(action: str, needs: str, instead: str, config: CUDAConfig) -> NoReturn:
    """Raise ``DeviceError`` for the missing decoder, and for the missing device if there is none.

    Args:
        action: The attempted action.
        needs: The component that is not part of this version.
        instead: The alternative to suggest.
        config: The device.
    """
    missing = f"this version of spdl has no {needs}"
    no_device = what_is_missing(config.device_index)
    if no_device is not None:
        missing = f"{no_device}; also, {missing}"
    raise DeviceError(f"cannot {action} on cuda:{config.device_index}: {missing}. Instead, {instead}", action=action)
