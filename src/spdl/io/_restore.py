"""Functions that unpickling calls to restore buffers, packets and frames.

The pickled memory, in band or out of band, is used in place and kept alive. Nothing is copied.
"""

from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._native import AudioFrames, AudioPackets, CPUBuffer, ImageFrames, ImagePackets, VideoFrames, VideoPackets
    from ._types import Excerpt, LoadFailure


def restore_buffer(
    memory: "Buffer",
    shape: tuple[int, ...],
    typestr: str,
    failures: "tuple[LoadFailure, ...]",
    origins: tuple[int | None, ...],
    plans: tuple[int, int, bytes] | None,
    excerpts: "tuple[Excerpt | None, ...]" = (),
) -> "CPUBuffer":
    """Make a buffer in ``memory``, which has exactly the size of the array; it is read-only if ``memory`` is."""
    return _native.core.restore_buffer(memory, shape, typestr, failures, origins, plans, excerpts)


def restore_packets(data: "Buffer", *others: "Buffer") -> "AudioPackets | VideoPackets | ImagePackets":
    """Make packets whose encoded data is in ``data`` and ``others``.

    Raises:
        MediaError: The data was not made by pickling packets.
    """
    return _native.media.deserialize(data, *others)


def restore_frames(data: "Buffer", *others: "Buffer") -> "AudioFrames | VideoFrames | ImageFrames":
    """Make frames whose planes are in ``data`` and ``others``, or raise ``MediaError``."""
    return _native.media.restore_frames(data, *others)
