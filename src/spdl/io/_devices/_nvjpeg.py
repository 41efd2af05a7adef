"""JPEG decoding on NVIDIA GPUs. This version has no GPU decoder: arguments are checked, then DeviceError is raised."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spdl.io._source import as_native_source, as_native_sources

from ._cuda import check_int
from ._cuda_buffers import CUDABuffer, CUDAConfig, check_device_config
from ._gpu_decoding import check_pix_fmt, check_scale, refuse

if TYPE_CHECKING:
    from spdl.io._types import Source

_DECODER: Final = "nvJPEG decoder (spdl.io.utils.built_with_nvjpeg() is False)"


def decode_image_nvjpeg(
    src: "Source | Sequence[Source]",
    *,
    device_config: CUDAConfig | None = None,
    scale_width: int = -1,
    scale_height: int = -1,
    pix_fmt: str = "rgb",
) -> CUDABuffer:
    """Decode a JPEG on the GPU. Not part of this version: the arguments are checked, and ``DeviceError`` is raised.

    Args:
        src: Path or data, or a list of them for a batch, which requires ``scale_width`` and ``scale_height``.
        device_config: Device, from :func:`cuda_config`. Required.
        scale_width, scale_height: Size of the image; -1: not scaled.
        pix_fmt: ``"rgb"`` or ``"bgr"``.

    Returns:
        ``uint8``, ``(3, height, width)``; for a batch ``(images, 3, height, width)``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or ``device_config`` is not given.
        DeviceError: The device or the decoder does not exist; the message says what is missing.
    """
    check_scale(scale_width=scale_width, scale_height=scale_height)
    if isinstance(src, list | tuple):
        if not src:
            raise ValueError("src must have at least one image, got none")
        as_native_sources(src)
        if scale_width < 1 or scale_height < 1:
            raise ValueError(
                "scale_width and scale_height must be given for a batch, whose images all have the same size; got"
                f" {scale_width} and {scale_height}"
            )
    else:
        as_native_source(src)  # type: ignore[arg-type]  # raises for anything that is not a source
    check_pix_fmt(pix_fmt)
    if device_config is None:
        raise ValueError("device_config must be given: cuda_config(device_index=...) makes one")
    config = check_device_config(device_config)
    refuse("decode JPEG", _DECODER, "load_image(..., device_config=...) decodes on the CPU and transfers", config)


def load_image_batch_nvjpeg(
    srcs: "Sequence[Source]", *, device_config: CUDAConfig, width: int, height: int, pix_fmt: str = "rgb"
) -> CUDABuffer:
    """Decode JPEGs on the GPU into a batch. Not part of this version: the arguments are checked, and ``DeviceError`` is
    raised.

    Args:
        srcs: Paths or data.
        device_config: Device, from :func:`cuda_config`.
        width, height: Size of all images.
        pix_fmt: ``"rgb"`` or ``"bgr"``.

    Returns:
        ``uint8``, ``(images, 3, height, width)``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        DeviceError: The device or the decoder does not exist; the message says what is missing.
    """
    if isinstance(srcs, str | bytes | bytearray | memoryview):
        raise TypeError(f"srcs must be a sequence of sources, got one {type(srcs).__name__}")
    sources = as_native_sources(srcs)
    if not sources:
        raise ValueError("srcs must have at least one image, got none")
    config = check_device_config(device_config)
    check_int("width", width, 1)
    check_int("height", height, 1)
    check_pix_fmt(pix_fmt)
    refuse("load JPEGs", _DECODER, "load_image_batch(..., device_config=...) decodes on the CPU and transfers", config)
