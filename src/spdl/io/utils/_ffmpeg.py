"""FFmpeg's versions, filters and log level."""

from spdl.io import _native


def get_ffmpeg_versions() -> dict[str, tuple[int, int, int]]:
    """Versions of the FFmpeg libraries in use: ``{"libavcodec": (59, 37, 100), …}``.

    Raises:
        NativeLibraryError: FFmpeg cannot be loaded.
    """
    return {name: version for name, version, _ in _native.media.libraries()}


def get_ffmpeg_filters() -> list[str]:
    """Names of the filters of this FFmpeg, sorted.

    Raises:
        NativeLibraryError: FFmpeg cannot be loaded.
    """
    return _native.media.filters()


def get_ffmpeg_log_level() -> int:
    """FFmpeg's log level in calls of :mod:`spdl.io`, 8 by default. See :func:`set_ffmpeg_log_level`.

    Raises:
        NativeLibraryError: FFmpeg cannot be loaded.
    """
    return _native.media.log_level()


def set_ffmpeg_log_level(val: int, /) -> None:
    """Set FFmpeg's log level for messages to standard error, for the whole process.

    Without this call, messages of level 8 or less from calls of :mod:`spdl.io` are printed, and nothing changes for
    other users of the same FFmpeg in the process: neither their level nor their callback. Exceptions contain FFmpeg's
    reasons at any level.

    Args:
        val: Log level. -8: quiet; 0: panic; 8: fatal (the default); 16: error; 24: warning; 32: info; 40: verbose;
            48: debug; 56: trace.

    Raises:
        NativeLibraryError: FFmpeg cannot be loaded.
    """
    _native.media.set_log_level(val)
