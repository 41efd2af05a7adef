"""Utilities: FFmpeg's versions, filters and log level; the memory cache; information on the native parts; tracing."""

import os
from dataclasses import dataclass, field

from spdl._numbers import as_int
from spdl.io._errors import NativeLibraryError

from . import _native
from ._trace import trace_counter as trace_counter
from ._trace import trace_event as trace_event
from ._trace import trace_gc as trace_gc
from ._trace import tracing as tracing

__all__ = [
    "LibraryInfo",
    "NativeInfo",
    "built_with_cuda",
    "built_with_nvcodec",
    "built_with_nvjpeg",
    "get_ffmpeg_filters",
    "get_ffmpeg_log_level",
    "get_ffmpeg_versions",
    "get_memory_cache_limit",
    "get_native_info",
    "release_memory_cache",
    "set_ffmpeg_log_level",
    "set_memory_cache_limit",
    "trace_counter",
    "trace_event",
    "trace_gc",
    "tracing",
]


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
    _native.media.set_log_level(as_int("val", val))


def get_memory_cache_limit() -> int:
    """The limit of this process's cache, in bytes. See :func:`set_memory_cache_limit`.

    Raises:
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
        ValueError: ``SPDL_IO_MEMORY_CACHE`` is not a number of bytes.
    """
    return _native.core.large_memory_limit()


def set_memory_cache_limit(num_bytes: int | None) -> None:
    """Set how much memory of freed large buffers this process keeps for new ones.

    The default is the environment variable ``SPDL_IO_MEMORY_CACHE``, in bytes, which also applies to worker
    processes. Without it, the default is 1 GiB or a sixteenth of the available memory (the least of the machine's, its
    control groups' and ``ulimit -v``), whichever is less. The system reclaims cached memory when it runs low.

    Args:
        num_bytes: Limit in bytes. Cached memory beyond it is freed now. 0: no cache. ``None``: the default.

    Raises:
        ValueError: ``num_bytes`` is negative; or it is ``None``, and ``SPDL_IO_MEMORY_CACHE`` is not a number of bytes.
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
    """
    limit = _native.memory_cache_limit() if num_bytes is None else min(as_int("num_bytes", num_bytes, 0), 2**63)
    _native.core.set_large_memory_limit(limit)


def release_memory_cache() -> None:
    """Return all cached memory to the system now, for example before a long phase without loading.

    Raises:
        NativeLibraryError: The native part of :mod:`spdl.io` cannot be loaded.
    """
    _native.core.release_large_memory()


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """A library that the native parts use.

    Attributes:
        name: Name, such as ``"libavcodec"``.
        version: Version, such as ``"59.37.100"``. For libjpeg-turbo and libdeflate, the version of the headers
            used by the build.
        path: Path of the file that it was loaded from; empty if unknown.
    """

    name: str
    version: str
    path: str


@dataclass(frozen=True, slots=True)
class NativeInfo:
    """The native parts of :mod:`spdl.io`, or the reasons why they cannot be loaded.

    Attributes:
        core_error: Reason why the part without FFmpeg cannot be loaded; ``None`` if it is loaded.
        media_error: Reason why the part that needs FFmpeg cannot be loaded; ``None`` if it is loaded.
        core_path: Path of the part without FFmpeg; ``None`` if it cannot be loaded.
        media_path: Path of the part that needs FFmpeg; ``None`` if it cannot be loaded.
        instruction_sets: Instruction sets of this processor for which there is code, slowest first.
        libraries: libjpeg-turbo, libdeflate, libwebp, libheif and libtiff if the build has them, and the
            libraries of FFmpeg.
        reads_heic: Whether HEIC can be loaded: with libheif, and with its decoder for HEVC.
        ffmpeg_version: Version of FFmpeg, such as ``"5.1.7-0+deb12u1"``.
        ffmpeg_is_bundled: Whether FFmpeg is part of the extension, as in wheels, and not a library of the system.
        ffmpeg_license: Licence of this build of FFmpeg.
        ffmpeg_configuration: Configuration options of FFmpeg.
        decoders: Decoders of each requested codec, the default one first.
        encoders: Encoders of each requested codec, the default one first.
        filters: Names of all filters.
    """

    core_error: str | None = None
    media_error: str | None = None
    core_path: str | None = None
    media_path: str | None = None
    instruction_sets: tuple[str, ...] = ()
    libraries: tuple[LibraryInfo, ...] = ()
    reads_heic: bool = False
    ffmpeg_version: str = ""
    ffmpeg_is_bundled: bool = False
    ffmpeg_license: str = ""
    ffmpeg_configuration: str = ""
    decoders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    encoders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    filters: tuple[str, ...] = ()


def get_native_info(*, decoders: tuple[str, ...] = (), encoders: tuple[str, ...] = ()) -> NativeInfo:
    """Load the native parts and describe them. Never raises: if a part cannot be loaded, the result has the reason.

    Args:
        decoders: Codecs whose decoders to list, by FFmpeg's names, such as ``"h264"``.
        encoders: Codecs whose encoders to list.
    """
    try:
        core = _native.core
    except NativeLibraryError as exc:
        return NativeInfo(core_error=str(exc), media_error=str(exc))
    base = [LibraryInfo("libjpeg-turbo", core.libjpeg_turbo_version(), core.libjpeg_turbo_path())]
    if (version := core.libdeflate_version()) is not None:
        base.append(LibraryInfo("libdeflate", version, core.libdeflate_path()))
    sets = tuple(core.instruction_sets())
    try:
        media = _native.media
    except NativeLibraryError as exc:
        return NativeInfo(media_error=str(exc), core_path=core.__file__, instruction_sets=sets, libraries=tuple(base))
    if (version := media.libwebp_version()) is not None:
        base.append(LibraryInfo("libwebp", version, media.libwebp_path()))
    if (version := media.libheif_version()) is not None:
        base.append(LibraryInfo("libheif", version, media.libheif_path()))
    if (version := media.libtiff_version()) is not None:
        base.append(LibraryInfo("libtiff", version, media.libtiff_path()))
    libraries = [LibraryInfo(name, ".".join(map(str, version)), path) for name, version, path in media.libraries()]
    return NativeInfo(
        core_path=core.__file__,
        media_path=media.__file__,
        instruction_sets=sets,
        libraries=(*base, *libraries),
        reads_heic=media.libheif_reads_hevc(),
        ffmpeg_version=media.version(),
        ffmpeg_is_bundled=all(_is_file(each.path, media.__file__) for each in libraries),
        ffmpeg_license=media.license(),
        ffmpeg_configuration=media.configuration(),
        decoders={codec: tuple(media.decoders(codec)) for codec in decoders},
        encoders={codec: tuple(media.encoders(codec)) for codec in encoders},
        filters=tuple(media.filters()),
    )


def _is_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of the files does not exist
        return False


def built_with_cuda() -> bool:
    """Whether the native part has code for CUDA. This version has none."""
    return False


def built_with_nvcodec() -> bool:
    """Whether the native part decodes video on NVIDIA's GPUs. This version does not."""
    return False


def built_with_nvjpeg() -> bool:
    """Whether the native part decodes JPEG on NVIDIA's GPUs. This version does not."""
    return False
