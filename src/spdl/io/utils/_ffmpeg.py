"""What FFmpeg is here, and how much it says."""

from spdl.io import _native


def get_ffmpeg_versions() -> dict[str, tuple[int, int, int]]:
    """Versions of the FFmpeg libraries in use: ``{"libavcodec": (59, 37, 100), …}``.

    Raises:
        NativeLibraryError: They cannot be loaded.
    """
    return {name: version for name, version, _ in _native.media.libraries()}


def get_ffmpeg_filters() -> list[str]:
    """Names of the filters of this FFmpeg, sorted.

    Raises:
        NativeLibraryError: FFmpeg cannot be loaded.
    """
    return _native.media.filters()


def get_ffmpeg_log_level() -> int:
    """FFmpeg's log level in what we do, 8 unless it was changed. See :func:`set_ffmpeg_log_level`.

    Raises:
        NativeLibraryError: FFmpeg cannot be loaded.
    """
    return _native.media.log_level()


def set_ffmpeg_log_level(val: int, /) -> None:
    """Choose what FFmpeg prints to the standard error stream, for the whole process.

    Without this call, what is 8 or less is printed of what :mod:`spdl.io` does, and nothing changes for others in the
    process that use the same FFmpeg: neither their level nor their callback. Errors of ours carry FFmpeg's reasons at
    any level.

    Args:
        val: -8: nothing; 0: before a crash; 8: what is fatal (the default); 16: errors; 24: warnings; 32: information;
            40: more of it; 48 and 56: for debugging FFmpeg.

    Raises:
        NativeLibraryError: FFmpeg cannot be loaded.
    """
    _native.media.set_log_level(val)
