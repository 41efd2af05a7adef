"""``demux_config`` and ``decode_config``: options for opening containers and for decoding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

from spdl._numbers import as_bool, as_int, as_timeout
from spdl.io._types import Default

#: The protocols that FFmpeg allows for a source that is read by HTTP.
_WEB_PROTOCOLS = ("http", "https", "tls", "tcp", "httpproxy", "crypto", "data")


@dataclass(frozen=True, slots=True)
class DemuxConfig:
    """Options for opening a container, made by ``demux_config``, which documents the fields."""

    format: str | None = None
    format_options: Mapping[str, str] = field(default_factory=dict)
    buffer_size: int = 8096
    tolerate_errors: bool = False
    protocols: Sequence[str] | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Check the types. Native code checks the names of formats, protocols and options.

        Raises:
            TypeError: A field is of the wrong type.
            ValueError: ``buffer_size`` is less than 1, or ``timeout`` is not a finite number of seconds above 0.
        """
        if self.format is not None and not isinstance(self.format, str):
            raise TypeError(f"format must be str or None, got {type(self.format).__name__}")
        object.__setattr__(self, "format_options", as_options("format_options", self.format_options))
        object.__setattr__(self, "buffer_size", as_int("buffer_size", self.buffer_size, 1, 2**30 - 1))
        object.__setattr__(self, "tolerate_errors", as_bool("tolerate_errors", self.tolerate_errors))
        object.__setattr__(self, "protocols", _as_protocols(self.protocols))
        object.__setattr__(self, "timeout", as_timeout("timeout", self.timeout, positive=True))


def as_remote_config(config: DemuxConfig) -> DemuxConfig:
    """The options for data from an object store: it may open only what data from the web may open.

    Otherwise, a playlist that ``format`` allows could refer to local files.
    """
    if config.format is None or config.protocols is not None:
        return config
    return replace(config, protocols=_WEB_PROTOCOLS)


def _as_protocols(protocols: Sequence[str] | None) -> tuple[str, ...] | None:
    if protocols is None:
        return None
    if isinstance(protocols, str | bytes) or not isinstance(protocols, Sequence):
        raise TypeError(f"protocols must be a sequence of names or None, got {protocols!r}")
    for protocol in protocols:
        if not isinstance(protocol, str):
            raise TypeError(f"protocols must be names such as 'https', got {protocol!r}")
    return tuple(protocols)


def as_options(name: str, options: Mapping[str, str | int | float] | None) -> dict[str, str]:
    """Return a copy of options for FFmpeg, with every value as text.

    Raises:
        TypeError: ``options`` is not a mapping, a key is not text, or a value is neither text nor a number.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(f"{name} must be a dict, got {type(options).__name__}")
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str | Real):
            raise TypeError(f"{name} must map str to str, got {key!r}: {value!r}")
    return {key: str(int(value)) if isinstance(value, bool) else str(value) for key, value in options.items()}


def demux_config(
    format: str | None = None,
    format_options: Mapping[str, str | int | float] | None = None,
    buffer_size: int = 8096,
    *,
    tolerate_errors: bool = False,
    protocols: Sequence[str] | None = None,
    timeout: float | None = None,
) -> DemuxConfig:
    """Make options for opening a container: its format, if FFmpeg cannot detect it, and which other files it may open.

    FFmpeg detects the format from the content, and some formats are lists of other files and hosts: HLS, DASH,
    ``ffconcat``, SDP. Unless ``format`` or ``protocols`` is given, such a source raises ``OpenError``, and a container
    of any other format cannot open other files.

    Args:
        format: FFmpeg's name of the format: for data without a header, such as ``"rawvideo"`` or ``"s16le"``; or for
            formats that refer to other files, such as ``"hls"``, ``"concat"`` or ``"image2"``. The latter may open
            other files and hosts with the protocols that FFmpeg allows for the source: files for a path, files and
            HTTP for data in memory, and for a URL those that its protocol allows (for HTTP: not files).
        format_options: Options of that format or of a URL's protocol, by FFmpeg's names:
            ``{"video_size": "64x48", "pixel_format": "rgb24"}``.
        buffer_size: Number of bytes per read from data in memory.
        tolerate_errors: Whether to stop reading at damaged data instead of raising. ``packets.num_errors`` counts it.
        protocols: Protocols, by FFmpeg's names, with which the container may open other files and hosts, instead of
            those that ``format`` allows: ``("https", "tls", "tcp")``. ``()``: none. Without ``format``, they also
            allow formats that refer to other files to be detected from the content.
        timeout: Limit in seconds for opening a source, and then for reading each packet, after which
            ``SourceTimeoutError`` is raised. ``None``: no limit. A host name lookup cannot be interrupted.

    Returns:
        Immutable options. Formats, protocols and options that FFmpeg does not know raise ``DemuxError`` when they are
        used.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: ``buffer_size`` is less than 1, or ``timeout`` is not a finite number of seconds above 0.
    """
    options = as_options("format_options", format_options)
    return DemuxConfig(format, options, buffer_size, tolerate_errors, protocols, timeout)


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """Options for decoding, made by ``decode_config``, which documents the fields."""

    decoder: str | None = None
    decoder_options: Mapping[str, str] = field(default_factory=dict)
    tolerate_errors: bool = False

    def __post_init__(self) -> None:
        """Check the types. Native code checks the names of decoders and options.

        Raises:
            TypeError: A field is of the wrong type.
        """
        if self.decoder is not None and not isinstance(self.decoder, str):
            raise TypeError(f"decoder must be str or None, got {type(self.decoder).__name__}")
        object.__setattr__(self, "decoder_options", as_options("decoder_options", self.decoder_options))
        object.__setattr__(self, "tolerate_errors", as_bool("tolerate_errors", self.tolerate_errors))


def decode_config(
    decoder: str | None = None,
    decoder_options: Mapping[str, str | int | float] | None = None,
    *,
    tolerate_errors: bool = False,
) -> DecodeConfig:
    """Make options for decoding.

    Args:
        decoder: Name of the FFmpeg decoder to use instead of the codec's default, such as ``"libvpx-vp9"``.
        decoder_options: Options of libavcodec or of the decoder, such as ``{"threads": "4"}``. The default is one
            thread. Frames of more than ``max_pixels`` pixels raise ``ImageTooLargeError``; the default is 178,956,970.
        tolerate_errors: Whether to continue after damaged data instead of raising ``DecodeError``.
            ``frames.num_errors`` counts the packets that the decoder rejected or had to conceal errors in.

    Returns:
        Immutable options. Decoders and options that FFmpeg does not know raise ``DecodeError`` when they are used.

    Raises:
        TypeError: An argument has the wrong type.
    """
    return DecodeConfig(decoder, as_options("decoder_options", decoder_options), tolerate_errors)


def check_arguments(demux_config: object, decode_config: object, filter_desc: object) -> None:
    """Raise ``TypeError`` for options of the wrong type. Used by the functions that load in one step."""
    if demux_config is not None and not isinstance(demux_config, DemuxConfig):
        raise TypeError(f"demux_config must be made by demux_config(), got {type(demux_config).__name__}")
    if decode_config is not None and not isinstance(decode_config, DecodeConfig):
        raise TypeError(f"decode_config must be made by decode_config(), got {type(decode_config).__name__}")
    if filter_desc is not None and not isinstance(filter_desc, str | Default):
        raise TypeError(f"filter_desc must be str or None, got {type(filter_desc).__name__}")


def demux_fields(config: DemuxConfig | None) -> tuple[Any, ...] | None:
    """The fields of a configuration for native functions that take them as a tuple."""
    if config is None:
        return None
    protocols = None if config.protocols is None else list(config.protocols)
    return (
        config.format,
        dict(config.format_options),
        config.buffer_size,
        config.tolerate_errors,
        protocols,
        config.timeout,
    )


def decode_fields(config: DecodeConfig | None) -> tuple[Any, ...] | None:
    """The fields of a configuration for native functions that take them as a tuple."""
    return None if config is None else (config.decoder, dict(config.decoder_options), config.tolerate_errors)
