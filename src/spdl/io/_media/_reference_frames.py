"""``create_reference_video_frame`` and ``create_reference_audio_frame``: frames that use the memory of an array."""

import operator
from typing import TYPE_CHECKING, Any

from spdl._numbers import as_int
from spdl.io import _native
from spdl.io._errors import ConvertError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spdl.io._native import AudioFrames, VideoFrames

_ACTION = "make frames of an array"


def create_reference_video_frame(array: Any, pix_fmt: str, frame_rate: tuple[int, int], pts: int) -> "VideoFrames":
    """Make video frames that use the memory of an array, without a copy.

    The frames, and everything that shares their memory, keep the array alive and prevent resizing. They never write to
    it. Do not change the array while they are in use: whether they show the change is undefined.

    Args:
        array: C-contiguous NumPy array, CPU tensor, or another object with the buffer protocol or an array interface.
            May be read-only. ``rgb24``, ``bgr24``: ``(frames, height, width, 3)``. ``gray`` (or ``gray8``),
            ``gray16``, ``gray16le``, ``gray16be``: ``(frames, height, width)``. ``yuv444p``:
            ``(frames, 3, height, width)``. 16-bit integers for the formats with 16 in their name, 8-bit integers for
            the others. The pixel format determines how the bytes are interpreted.
        pix_fmt: One of these formats.
        frame_rate: Frames per second, as numerator and denominator.
        pts: Timestamp of the first frame, counted in frames.

    Raises:
        UnsupportedFormatError: ``pix_fmt`` is not one of these.
        ConvertError: The shape, dtype or layout of the array does not match.
        TypeError: It is not an array.
        ValueError: ``frame_rate`` is not positive.
    """
    numerator, denominator = map(operator.index, frame_rate)
    if numerator < 1 or denominator < 1:
        raise ValueError(f"frame_rate must be two positive integers, got {frame_rate!r}")
    view = _checked(array, pix_fmt)
    return _native.media.create_reference_pictures(
        view,
        element=(view.dtype.kind, view.dtype.itemsize),
        shape=view.shape,
        pix_fmt=pix_fmt,
        frame_rate=(numerator, denominator),
        pts=as_int("pts", pts),
    )


def create_reference_audio_frame(array: Any, sample_fmt: str, sample_rate: int, pts: int) -> "AudioFrames":
    """Make audio frames that use the memory of an array, without a copy.

    The same rules for memory apply as for ``create_reference_video_frame``.

    Args:
        array: C-contiguous array, as for ``create_reference_video_frame``. Packed formats: ``(samples, channels)``;
            planar ones, whose names end with ``p``: ``(channels, samples)``.
        sample_fmt: ``u8``: 8-bit integers. ``s16``, ``s32``, ``s64``: 16-, 32-, 64-bit integers. ``flt``,
            ``dbl``: 32-, 64-bit floating point. Each also with ``p``.
        sample_rate: Samples per second.
        pts: Timestamp of the first sample, counted in samples.

    Raises:
        UnsupportedFormatError: ``sample_fmt`` is not one of these.
        ConvertError: The shape, dtype or layout of the array does not match.
        TypeError: ``array`` is not an array, or has one dimension.
        ValueError: ``sample_rate`` is not positive.
    """
    sample_rate = as_int("sample_rate", sample_rate, 1)
    view = _checked(array, sample_fmt)
    if view.ndim == 1:
        raise TypeError("array must have two dimensions, samples and channels, got one; a channel is array[None]")
    return _native.media.create_reference_samples(
        view,
        element=(view.dtype.kind, view.dtype.itemsize),
        shape=view.shape,
        sample_fmt=sample_fmt,
        sample_rate=sample_rate,
        pts=as_int("pts", pts),
    )


def _checked(array: Any, fmt: str) -> "NDArray[Any]":
    """The array as a NumPy array, after checking dtype, byte order and contiguity. Never a copy."""
    view = _as_view(array)
    if view.dtype.kind not in "iuf":
        raise ConvertError(f"cannot {_ACTION}: its elements must be numbers, got {view.dtype}", action=_ACTION)
    if not view.flags.c_contiguous:
        raise ConvertError(
            f"cannot {_ACTION}: it must be C-contiguous; numpy.ascontiguousarray makes such an array", action=_ACTION
        )
    if not view.dtype.isnative and not (fmt.endswith("be") and view.dtype == view.dtype.newbyteorder(">")):
        raise ConvertError(
            f"cannot {_ACTION}: '{fmt}' does not have the byte order of {view.dtype.str}", action=_ACTION
        )
    return view


def _as_view(array: Any) -> "NDArray[Any]":
    import numpy as np

    if isinstance(array, np.ndarray):
        return array
    if callable(getattr(array, "numpy", None)):  # a torch tensor
        view: NDArray[Any] = array.numpy()
        return view
    if not hasattr(array, "__array_interface__"):
        try:
            memoryview(array)
        except TypeError:
            raise TypeError(
                f"array must be a NumPy array, a CPU tensor or another buffer, got {type(array).__name__}"
            ) from None
    return np.asarray(array)
