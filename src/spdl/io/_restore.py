"""What pickles call to make buffers, packets and frames again.

Their memory is read where it is, be it inside of the pickle or beside it, and kept alive; nothing is copied.
"""

from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import AudioFrames, AudioPackets, CPUBuffer, ImageFrames, ImagePackets, VideoFrames, VideoPackets
    from ._types import LoadFailure


def restore_buffer(
    memory: "Buffer",
    shape: tuple[int, ...],
    typestr: str,
    failures: "tuple[LoadFailure, ...]",
    origins: tuple[int | None, ...],
    plans: tuple[int, int, bytes] | None,
) -> "CPUBuffer":
    """A buffer in ``memory``, and read-only if that is.

    Raises:
        ConvertError: ``memory`` does not have exactly so many bytes.
    """
    return _native.core.restore_buffer(memory, shape, typestr, failures, origins, plans)


def restore_packets(data: "Buffer", *others: "Buffer") -> "AudioPackets | VideoPackets | ImagePackets":
    """Packets whose encoded data is in ``data`` and ``others``.

    Raises:
        MediaError: These are not what packets were taken apart to.
    """
    return _native.media.deserialize(data, *others)


def restore_frames(data: "Buffer", *others: "Buffer") -> "AudioFrames | VideoFrames | ImageFrames":
    """Frames whose planes are in ``data`` and ``others``.

    Raises:
        MediaError: These are not what frames were taken apart to.
    """
    return _native.media.restore_frames(data, *others)
