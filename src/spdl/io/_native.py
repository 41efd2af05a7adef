"""Load the native extensions on first use: ``core``, and ``media``, which needs FFmpeg. No other module loads them."""

import os
from typing import TYPE_CHECKING, Any

from spdl._extensions import load_extension

from ._errors import NativeLibraryError

if TYPE_CHECKING:
    from .lib import _core, _media
    from .lib._core import CPUBuffer as CPUBuffer
    from .lib._core import CPUStorage as CPUStorage
    from .lib._core import Transform as Transform
    from .lib._core import WAVArray as WAVArray
    from .lib._core import WAVHeader as WAVHeader
    from .lib._media import AudioCodec as AudioCodec
    from .lib._media import AudioDecoder as AudioDecoder
    from .lib._media import AudioEncoder as AudioEncoder
    from .lib._media import AudioFrames as AudioFrames
    from .lib._media import AudioPackets as AudioPackets
    from .lib._media import FilterGraph as FilterGraph
    from .lib._media import ImageCodec as ImageCodec
    from .lib._media import ImageFrames as ImageFrames
    from .lib._media import ImagePackets as ImagePackets
    from .lib._media import PictureTimes as PictureTimes
    from .lib._media import VideoCodec as VideoCodec
    from .lib._media import VideoDecoder as VideoDecoder
    from .lib._media import VideoEncoder as VideoEncoder
    from .lib._media import VideoFrames as VideoFrames
    from .lib._media import VideoPackets as VideoPackets

    core = _core
    media = _media

#: The public classes of ``core``; all others are of ``media``.
_OF_CORE = ("CPUBuffer", "CPUStorage", "WAVHeader")


def memory_cache_limit() -> int | None:
    """The value of ``SPDL_IO_MEMORY_CACHE``, or ``None`` if it is not set."""
    text = os.environ.get("SPDL_IO_MEMORY_CACHE", "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"SPDL_IO_MEMORY_CACHE must be a number of bytes, 0 for none, got {text!r}")
    return min(int(text), 2**63)


def _load_core() -> Any:
    try:
        core = load_extension("spdl.io.lib._core")
    except ImportError as exc:
        raise NativeLibraryError(
            f"cannot load the native part of spdl.io: {exc}. In a source tree, build it with `pip install"
            " --no-build-isolation --editable .`; otherwise reinstall spdl, and check that libjpeg-turbo is installed.",
            action="load the native part",
        ) from exc
    if "core" not in globals() and (limit := memory_cache_limit()) is not None:
        core.set_large_memory_limit(limit)
    return core


def _load_media() -> Any:
    _load_core()
    try:
        return load_extension("spdl.io.lib._media")
    except ImportError as exc:
        raise NativeLibraryError(
            f"cannot load the part of spdl.io that needs FFmpeg: {exc}. Install the FFmpeg libraries that it was built"
            " with, or build it for the installed ones with `pip install .`.",
            action="load FFmpeg",
        ) from exc


def __getattr__(name: str) -> Any:
    """Load and return ``core``, ``media`` or one of their classes, whose names ``spdl.io`` has, too."""
    # The modules are stored as globals, so that later accesses do not call this function.
    if name == "core":
        return globals().setdefault("core", _load_core())
    if name == "media":
        return globals().setdefault("media", _load_media())
    if name[:1].isupper():
        return getattr(_load_core() if name in _OF_CORE else _load_media(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
