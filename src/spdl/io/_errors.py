"""Exceptions of ``spdl.io``: one class per failure that a caller may want to handle. All are ``MediaError``."""

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._types import LoadFailure


def _restore(cls: type["MediaError"], args: tuple[Any, ...], state: dict[str, Any]) -> "MediaError":
    error = cls(*args)
    for name, value in state.items():
        setattr(error, name, value)
    return error


class MediaError(RuntimeError):
    """Media could not be read, decoded, converted or written.

    Attributes:
        source: Name of the source: a path or URL, or ``Bytes: 0x…`` for data in memory.
        action: The attempted action, such as ``"open"`` or ``"decode"``.
        code: FFmpeg's error code, or ``None`` where FFmpeg was not involved.
    """

    def __init__(
        self, message: str, *, source: str | None = None, action: str | None = None, code: int | None = None
    ) -> None:
        super().__init__(message)
        self.source = source
        self.action = action
        self.code = code

    def __str__(self) -> str:
        # `__str__` of builtin base classes would prepend their own fields.
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


class OpenError(MediaError):
    """A source cannot be opened, or is not media."""


class SourceNotFoundError(OpenError, FileNotFoundError):
    """A file does not exist. ``errno`` and ``filename`` are set as in the builtin class."""

    def __init__(
        self, message: str, *, source: str | None = None, action: str | None = None, code: int | None = None
    ) -> None:
        super().__init__(message, source=source, action=action, code=code)
        self.errno = errno.ENOENT
        self.filename = source

    def __reduce__(self) -> tuple[Any, ...]:
        # The builtin class keeps its fields outside the instance's __dict__.
        return _restore, (type(self), self.args, {**self.__dict__, "errno": self.errno, "filename": self.filename})


class StreamNotFoundError(MediaError, LookupError):
    """A container has no stream of that kind or index."""


class _StreamError(MediaError):
    """An error inside a stream.

    Attributes:
        stream_index: Index of the stream in its container, or ``None``.
        pts: Presentation timestamp in seconds, or ``None`` if it is unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        action: str | None = None,
        code: int | None = None,
        stream_index: int | None = None,
        pts: float | None = None,
    ) -> None:
        super().__init__(message, source=source, action=action, code=code)
        self.stream_index = stream_index
        self.pts = pts


class DemuxError(_StreamError):
    """A container is damaged, or its format or an option is unknown."""


class DecodeError(_StreamError):
    """Encoded data is damaged or incomplete, or the decoder or an option is unknown."""


class SourceTimeoutError(OpenError, DemuxError, TimeoutError):
    """A source sent no data for longer than ``demux_config(timeout=)`` allows, while it was opened or read."""


class ImageTooLargeError(DecodeError):
    """A picture has more pixels than ``max_pixels`` allows. No memory was allocated for them."""


class FilterError(MediaError):
    """A filter description is wrong, a filter is unknown, or frames do not match it."""


class UnknownNodeError(FilterError, IndexError):
    """A filter graph has no node with this name; the message lists its nodes."""


class ConvertError(MediaError):
    """Frames differ in format or size, or do not fit into the storage."""


class UnsupportedFormatError(ConvertError, ValueError):
    """A pixel or sample format has no array layout; the message lists those that have one."""


class EncodeError(MediaError):
    """Frames cannot be encoded."""


class MuxError(MediaError):
    """Packets cannot be written."""


class NoCodecError(MediaError, ValueError, AssertionError):
    """Packets carry no codec, so they cannot be decoded on their own."""


class ConsumedError(MediaError, TypeError):
    """Packets or frames were used after they were consumed."""


class ClosedError(MediaError):
    """A demuxer or muxer was used after it was closed."""


class BatchLoadError(MediaError):
    """Some sources of a batch failed with ``strict=True``, or all sources failed.

    Attributes:
        failures: One ``LoadFailure`` per failed source, in order of their index.
    """

    def __init__(self, message: str, *, failures: Sequence["LoadFailure"] = ()) -> None:
        super().__init__(message, action="load")
        self.failures = tuple(failures)


class ArchiveError(MediaError):
    """A tar, zip or npy file is damaged."""


class WAVError(MediaError, ValueError):
    """A WAV file is damaged or has no array layout, or a window is not inside it."""


class DeviceError(MediaError):
    """A GPU, CUDA or a GPU decoder is missing."""


class NativeLibraryError(MediaError, ImportError):
    """The native part, FFmpeg, or an optional package cannot be loaded."""
