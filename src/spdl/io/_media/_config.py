"""``demux_config``, ``decode_config`` and those for encoding: options for opening, decoding and encoding media."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, overload

from spdl._numbers import MAX_INT, as_bool, as_int, as_timeout, int_or_none
from spdl.io import _native
from spdl.io._source import is_remote
from spdl.io._types import Default, Source

#: The protocols that FFmpeg allows for a source that is read by HTTP.
_WEB_PROTOCOLS = ("http", "https", "tls", "tcp", "httpproxy", "crypto", "data")
#: The value that means "the encoder's own default" in the factory functions.
_DEFAULT = -1
#: Largest C ``int64_t``.
_MAX_INT64 = 2**63 - 1


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
        """Check types and ranges. Native code checks the names of formats, protocols and options."""
        if self.format is not None and not isinstance(self.format, str):
            raise TypeError(f"format must be str or None, got {type(self.format).__name__}")
        object.__setattr__(self, "format_options", as_options("format_options", self.format_options))
        object.__setattr__(self, "buffer_size", as_int("buffer_size", self.buffer_size, 1, 2**30 - 1))
        object.__setattr__(self, "tolerate_errors", as_bool("tolerate_errors", self.tolerate_errors))
        object.__setattr__(self, "protocols", _as_protocols(self.protocols))
        object.__setattr__(self, "timeout", as_timeout("timeout", self.timeout, positive=True))


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
        """Check the types. Native code checks the names of decoders and options."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoEncodeConfig:
    """Options for encoding frames; see :func:`video_encode_config`. ``None`` is the encoder's own default."""

    height: int
    width: int
    frame_rate: tuple[int, int] | None = None
    pix_fmt: str = "rgb24"
    bit_rate: int | None = None
    compression_level: int | None = None
    qscale: int | None = None
    gop_size: int | None = None
    max_b_frames: int | None = None
    colorspace: str | None = None
    color_primaries: str | None = None
    color_trc: str | None = None

    def __post_init__(self) -> None:
        _require(self, "height", "width", least=1)
        _require(self, "compression_level", "qscale", "gop_size", "max_b_frames", least=0)
        _require(self, "bit_rate", least=0, most=_MAX_INT64)
        if self.frame_rate is not None:
            numerator, denominator = self.frame_rate
            if not 1 <= numerator <= MAX_INT or not 1 <= denominator <= MAX_INT:
                raise ValueError(f"frame_rate must be two positive numbers of 31 bits, got {self.frame_rate}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioEncodeConfig:
    """Options for encoding samples; see :func:`audio_encode_config`. ``None`` is the encoder's own default."""

    num_channels: int
    sample_rate: int
    sample_fmt: str = "fltp"
    bit_rate: int | None = None
    compression_level: int | None = None
    qscale: int | None = None

    def __post_init__(self) -> None:
        _require(self, "num_channels", "sample_rate", least=1)
        _require(self, "compression_level", "qscale", least=0)
        _require(self, "bit_rate", least=0, most=_MAX_INT64)


def video_encode_config(
    *,
    height: int,
    width: int,
    frame_rate: tuple[int, int] | None = None,
    pix_fmt: str = "rgb24",
    bit_rate: int = -1,
    compression_level: int = -1,
    qscale: int = -1,
    gop_size: int = -1,
    max_b_frames: int = -1,
    colorspace: str | None = None,
    color_primaries: str | None = None,
    color_trc: str | None = None,
) -> VideoEncodeConfig:
    """Make options for encoding video: the input frames, and how to encode them. ``-1`` is the encoder's own default.

    Args:
        height: Height of the frames, in pixels.
        width: Width of the frames, in pixels.
        frame_rate: Frames per second, as ``(numerator, denominator)``. It is also the resolution of timestamps: two
            frames are at least ``1 / frame_rate`` apart. ``None``: the first rate that the encoder lists; most list
            none and raise.
        pix_fmt: Pixel format of the frames. Frames are not converted: if the encoder does not support the format,
            ``Muxer.add_encode_stream`` raises with the list of those that it supports. Most video encoders need YUV
            such as ``"yuv420p"``.
        bit_rate: Target bit rate, in bit/s.
        compression_level: Effort of lossless encoders, on the encoder's scale.
        qscale: Constant quality instead of a bit rate, on the encoder's scale; low is good.
        gop_size: Largest number of frames from one key frame to the next.
        max_b_frames: Largest number of consecutive B-frames.
        colorspace: Matrix coefficients to record, such as ``"bt709"``. This and the next two are metadata only; frames
            are not converted.
        color_primaries: Primaries to record.
        color_trc: Transfer characteristic to record.

    Raises:
        ValueError: A number is out of range. (``Muxer.add_encode_stream`` checks the names.)
    """
    return VideoEncodeConfig(
        height=height,
        width=width,
        frame_rate=frame_rate,
        pix_fmt=pix_fmt,
        bit_rate=_given(bit_rate),
        compression_level=_given(compression_level),
        qscale=_given(qscale),
        gop_size=_given(gop_size),
        max_b_frames=_given(max_b_frames),
        colorspace=colorspace,
        color_primaries=color_primaries,
        color_trc=color_trc,
    )


def audio_encode_config(
    *,
    num_channels: int,
    sample_rate: int,
    sample_fmt: str = "fltp",
    bit_rate: int = -1,
    compression_level: int = -1,
    qscale: int = -1,
) -> AudioEncodeConfig:
    """Make options for encoding audio: the input samples, and how to encode them. ``-1`` is the encoder's own default.

    Args:
        num_channels: Number of channels; their layout is FFmpeg's default for this number.
        sample_rate: Samples per second and channel.
        sample_fmt: Sample format: ``"u8"``, ``"s16"``, ``"s32"``, ``"flt"``, ``"dbl"``, packed; with a trailing ``p``,
            planar. Samples are not converted: if the encoder does not support the format,
            ``Muxer.add_encode_stream`` raises with the list of those that it supports.
        bit_rate: Target bit rate, in bit/s.
        compression_level: Effort, on the encoder's scale.
        qscale: Constant quality instead of a bit rate, on the encoder's scale.

    Raises:
        ValueError: A number is out of range.
    """
    return AudioEncodeConfig(
        num_channels=num_channels,
        sample_rate=sample_rate,
        sample_fmt=sample_fmt,
        bit_rate=_given(bit_rate),
        compression_level=_given(compression_level),
        qscale=_given(qscale),
    )


@overload
def as_native_config(config: VideoEncodeConfig) -> "_native.media.VideoEncodeConfig": ...
@overload
def as_native_config(config: AudioEncodeConfig) -> "_native.media.AudioEncodeConfig": ...
def as_native_config(
    config: VideoEncodeConfig | AudioEncodeConfig,
) -> "_native.media.VideoEncodeConfig | _native.media.AudioEncodeConfig":
    """The native object for a config."""
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if isinstance(config, VideoEncodeConfig):
        return _native.media.VideoEncodeConfig(**fields)
    return _native.media.AudioEncodeConfig(**fields)


def as_remote_config(config: DemuxConfig) -> DemuxConfig:
    """The options for data from an object store: it may open only what data from the web may open.

    Otherwise, a playlist that ``format`` allows could refer to local files.
    """
    if config.format is None or config.protocols is not None:
        return config
    return replace(config, protocols=_WEB_PROTOCOLS)


def check_arguments(demux_config: object, decode_config: object, filter_desc: object) -> None:
    """Raise ``TypeError`` for options of the wrong type. Used by the functions that load in one step."""
    if demux_config is not None and not isinstance(demux_config, DemuxConfig):
        raise TypeError(f"demux_config must be made by demux_config(), got {type(demux_config).__name__}")
    if decode_config is not None and not isinstance(decode_config, DecodeConfig):
        raise TypeError(f"decode_config must be made by decode_config(), got {type(decode_config).__name__}")
    if filter_desc is not None and not isinstance(filter_desc, str | Default):
        raise TypeError(f"filter_desc must be str or None, got {type(filter_desc).__name__}")


def native_options(
    demux_config: DemuxConfig | None, decode_config: DecodeConfig | None, sources: Iterable[Source]
) -> dict[str, Any]:
    """The options for opening and decoding these sources, as native functions that load take them."""
    demux = decode = None
    if demux_config is not None:
        if any(map(is_remote, sources)):
            demux_config = as_remote_config(demux_config)
        fields = dataclasses.asdict(demux_config)
        demux = tuple(list(value) if isinstance(value, tuple) else value for value in fields.values())
    if decode_config is not None:
        decode = tuple(dataclasses.asdict(decode_config).values())
    return {"demux": demux, "decode": decode}


def as_options(name: str, options: Mapping[str, str | int | float] | None) -> dict[str, str]:
    """Return a copy of options for FFmpeg, with every value as text. Values are text or numbers, else ``TypeError``."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(f"{name} must be a dict, got {type(options).__name__}")
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str | Real):
            raise TypeError(f"{name} must map str to str, got {key!r}: {value!r}")
    return {key: str(int(value)) if isinstance(value, bool) else str(value) for key, value in options.items()}


def _require(config: object, *names: str, least: int, most: int = MAX_INT) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None:
            object.__setattr__(config, name, as_int(name, value, least, most))


def _given(value: int) -> int | None:
    return None if int_or_none(value) == _DEFAULT else value


def _as_protocols(protocols: Sequence[str] | None) -> tuple[str, ...] | None:
    if protocols is None:
        return None
    if isinstance(protocols, str | bytes) or not isinstance(protocols, Sequence):
        raise TypeError(f"protocols must be a sequence of names or None, got {protocols!r}")
    for protocol in protocols:
        if not isinstance(protocol, str):
            raise TypeError(f"protocols must be names such as 'https', got {protocol!r}")
    return tuple(protocols)
