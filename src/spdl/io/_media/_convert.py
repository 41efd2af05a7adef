"""Frames and arrays: ``convert_frames`` copies frames into one buffer, and reference frames use an array's memory."""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._numbers import as_int
from spdl.io import _native
from spdl.io._buffers import as_storage
from spdl.io._errors import ConvertError
from spdl.io._trace import traced

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from spdl.io._native import AudioFrames, CPUBuffer, ImageFrames, VideoFrames

    Frames: TypeAlias = AudioFrames | VideoFrames | ImageFrames
    FramesBatch: TypeAlias = Sequence[AudioFrames] | Sequence[VideoFrames] | Sequence[ImageFrames]
    from numpy.typing import NDArray

    from spdl.io._native import AudioFrames, VideoFrames


_ACTION = "make frames of an array"


@traced
def convert_frames(frames: "Frames | FramesBatch", storage: Any = None) -> "CPUBuffer":
    """Copy decoded frames into one contiguous array.

    These are the shapes of one image. Channels are in the order of the format's name; planes follow one another.

    ============================================ ==============================================
    ``rgb24``, ``bgr24``                         ``(height, width, 3)`` ``uint8``
    ``rgba``, ``bgra``, ``argb``, ``abgr``       ``(height, width, 4)`` ``uint8``
    ``rgb48``, ``rgba64`` (``le``, ``be``)       ``(height, width, 3)`` or ``4``, ``uint16``
    ``gray``, ``ya8``                            ``(height, width, 1)`` or ``2``, ``uint8``
    ``gray16``, ``gray12``, ``gray10``           ``(1, height, width)`` ``uint16``
    ``yuv444p``, ``yuvj444p``, ``gbrp``          ``(3, height, width)`` ``uint8``
    ``yuva444p``, ``gbrap``                      ``(4, height, width)`` ``uint8``
    ``yuv420p``, ``yuvj420p``, ``nv12``          ``(1, height + ceil(height / 2), width)`` ``uint8``; even widths
    ``yuv422p``, ``yuvj422p``                    ``(1, height * 2, width)`` ``uint8``; even widths
    ``yuva420p``, ``yuva422p``                   the same, and ``height`` more rows, of alpha
    ============================================ ==============================================

    Formats with 10, 12 or 16 bits (``yuv420p10``, ``yuva444p12``, ``gbrap16``, ``p010``, ``ya16``, ...) have the shapes
    of the 8-bit formats, as ``uint16``.

    For ``VideoFrames``, the number of frames is the first axis. ``AudioFrames`` are ``(channels, samples)`` in planar
    formats and ``(samples, channels)`` in packed ones: ``u8`` is ``uint8``; ``s16``, ``s32`` and ``s64`` are signed
    integers; ``flt`` is ``float32``, ``dbl`` ``float64``. For a list, its length is prepended to the shape.

    Args:
        frames: Frames, or a list of frames of one class with the same format, size and count. They are consumed:
            using them again raises ``ConsumedError``. If they cannot be converted, they are not consumed.
        storage: Memory for the result: from ``cpu_storage``, or any writable C-contiguous buffer, array or CPU
            tensor that is large enough. The result is a view of it and keeps it alive. ``None``: memory is allocated.

    Returns:
        C-contiguous, without padding between rows, in the byte order of this machine.

    Raises:
        UnsupportedFormatError: The pixel format has no array layout, or none for an odd width; the message suggests
            formats or filters.
        ConvertError: There are no frames, they differ in format, size or count, or the storage is too small.
        ConsumedError: Frames were consumed before, or are in the list twice.
        TypeError: ``frames`` are not frames, or have different classes; the storage is not writable or not contiguous.

    Releases the GIL; safe to call from several threads.
    """
    is_batch = isinstance(frames, list | tuple)
    batch: Any = frames if is_batch else [frames]
    return _native.media.convert_frames(
        list(batch), is_batch=is_batch, storage=None if storage is None else as_storage(storage)
    )


@traced
def convert_array(vals: "ArrayLike", storage: Any = None) -> "CPUBuffer":
    """Copy integers, such as the labels of a batch, into a buffer.

    Args:
        vals: Array-like of integers, of any shape. Other integer dtypes are converted to ``int64``.
        storage: Memory for the result, as for ``convert_frames``.

    Returns:
        ``int64``, C-contiguous, of the same shape.

    Raises:
        TypeError: The elements are not integers; the storage is not writable or not contiguous.
        OverflowError: A value is beyond ``int64``.
        ConvertError: The storage is too small.
    """
    import numpy as np

    array = np.asarray(vals)
    if array.dtype.kind not in "iu":
        raise TypeError(f"vals must be an array of integers, got one of {array.dtype}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size and array.max() > np.iinfo(np.int64).max:
        raise OverflowError(f"vals must fit into int64, got {array.max()}")
    typestr = np.dtype(np.int64).str
    buffer = _native.core.new_buffer(array.shape, typestr, None if storage is None else as_storage(storage))
    np.copyto(np.asarray(buffer), array, casting="unsafe")
    return buffer


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
