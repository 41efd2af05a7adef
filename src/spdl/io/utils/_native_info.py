"""Information on the native parts and optional features of this build."""

import os
from dataclasses import dataclass, field

from spdl.io import _native
from spdl.io._errors import NativeLibraryError


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
