"""Native part of spdl.io: everything that needs FFmpeg."""

from typing import Any

import numpy.typing
from typing_extensions import Buffer

import spdl.io.lib._core

def libraries() -> list[tuple[str, tuple[int, int, int], str]]:
    """
    The FFmpeg libraries in use: name, version, and the file each was loaded from, "" if that is not known.
    """

def license() -> str:
    """Licence of this build of FFmpeg."""

def configuration() -> str:
    """Options that FFmpeg was configured with."""

def filters() -> list[str]:
    """Names of all filters."""

def decoders(codec: str) -> list[str]:
    """
    Names of the decoders for a codec, the default one first; none for a codec that FFmpeg does not know.
    """

def encoders(codec: str) -> list[str]:
    """
    Names of the encoders for a codec, the default one first; none for a codec that FFmpeg does not know.
    """

def require_filter(name: str) -> None:
    """Raise FilterError if this FFmpeg has no such filter."""

def log_level() -> int:
    """FFmpeg's log level."""

def set_log_level(level: int) -> None:
    """Sets FFmpeg's log level, for the whole process."""

def convert_frames(
    frames: list[Any], *, is_batch: bool, storage: Buffer | numpy.typing.NDArray[Any] | None
) -> spdl.io.lib._core.CPUBuffer:
    """
    Copy frames into one array.

    Args:
        frames: Frames of one class; all are consumed.
        is_batch: Whether the array gets an axis for them in front; else there must be one.
        storage: Writable memory for the array, or None for memory of its own.

    Releases the GIL; safe to call from several threads.
    """

def create_reference_pictures(
    array: numpy.typing.NDArray[Any],
    *,
    element: tuple[str, int],
    shape: tuple[int, ...],
    pix_fmt: str,
    frame_rate: tuple[int, int],
    pts: int,
) -> Any:
    """
    Pictures whose planes are the array's.

    Args:
        array: A C-contiguous array.
        element: Kind and size of its elements, as NumPy's ``dtype.kind`` and ``dtype.itemsize``.
        shape: Its shape.
    """

def create_reference_samples(
    array: numpy.typing.NDArray[Any],
    *,
    element: tuple[str, int],
    shape: tuple[int, ...],
    sample_fmt: str,
    sample_rate: int,
    pts: int,
) -> Any:
    """Samples whose planes are the array's; arguments as for pictures."""
