"""``convert_frames`` and ``convert_array``: copy frames or integers into one contiguous buffer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl.io import _native
from spdl.io._buffers import as_storage
from spdl.io._trace import traced

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from spdl.io._native import AudioFrames, CPUBuffer, ImageFrames, VideoFrames

    Frames: TypeAlias = AudioFrames | VideoFrames | ImageFrames
    FramesBatch: TypeAlias = Sequence[AudioFrames] | Sequence[VideoFrames] | Sequence[ImageFrames]


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
        list(batch),
        is_batch=is_batch,
        storage=None if storage is None else as_storage(storage),
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
