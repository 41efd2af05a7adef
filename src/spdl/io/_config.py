"""Options that travel together: how to open containers, and how to decode what is in them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DemuxConfig:
    """How to open a container. Made by ``demux_config``, which says what the fields mean."""

    format: str | None = None
    format_options: Mapping[str, str] = field(default_factory=dict)
    buffer_size: int = 8096
    tolerate_errors: bool = False
    protocols: Sequence[str] | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Check the types; native code knows which formats, protocols and options there are.

        Raises:
            TypeError: A field is of the wrong type.
            ValueError: ``buffer_size`` is less than 1, or ``timeout`` is not a finite number of seconds above 0.
        """
        if self.format is not None and not isinstance(self.format, str):
            raise TypeError(f"format must be str or None, got {type(self.format).__name__}")
        object.__setattr__(self, "format_options", as_options("format_options", self.format_options))
        if isinstance(self.buffer_size, bool) or not isinstance(self.buffer_size, int):
            raise TypeError(f"buffer_size must be int, got {type(self.buffer_size).__name__}")
        if not 1 <= self.buffer_size < 2**30:
            raise ValueError(f"buffer_size must be >= 1 and < 2**30, got {self.buffer_size}")
        if not isinstance(self.tolerate_errors, bool):
            raise TypeError(f"tolerate_errors must be bool, got {type(self.tolerate_errors).__name__}")
        object.__setattr__(self, "protocols", _as_protocols(self.protocols))
        object.__setattr__(self, "timeout", _as_timeout(self.timeout))


def _as_protocols(protocols: Sequence[str] | None) -> tuple[str, ...] | None:
    if protocols is None:
        return None
    if isinstance(protocols, str | bytes) or not isinstance(protocols, Sequence):
        raise TypeError(f"protocols must be a sequence of names or None, got {protocols!r}")
    for protocol in protocols:
        if not isinstance(protocol, str):
            raise TypeError(f"protocols must be names such as 'https', got {protocol!r}")
    return tuple(protocols)


def _as_timeout(timeout: float | None) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout must be a number of seconds or None, got {type(timeout).__name__}")
    if not 0 < timeout < math.inf:
        raise ValueError(f"timeout must be a finite number of seconds > 0, got {timeout!r}")
    return float(min(timeout, 1e9))


def as_options(name: str, options: Mapping[str, str | int | float] | None) -> dict[str, str]:
    """Options for FFmpeg: a copy, with every value as text.

    Raises:
        TypeError: It is not a mapping, or a key is not text, or a value neither text nor a number.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(f"{name} must be a dict, got {type(options).__name__}")
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str | int | float):
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
    """Say how to open a container, where FFmpeg cannot tell by itself, and what it may open in turn.

    The bytes of a source choose the format that reads it, and some formats are lists of other files and hosts: HLS,
    DASH, ``ffconcat``, SDP. Unless ``format`` or ``protocols`` is given, those are refused, and a container of any
    other format opens nothing beside itself.

    Args:
        format: FFmpeg's name of the format: for data without a header, such as ``"rawvideo"`` or ``"s16le"``; or to
            open what consists of other files, such as ``"hls"``, ``"concat"`` or ``"image2"``. It may open others by
            the protocols that FFmpeg allows where the source comes from: files for a path, files and HTTP for data in
            memory, and for a URL what its protocol allows (for HTTP: not files).
        format_options: Options of that format or of a URL's protocol, as FFmpeg names them:
            ``{"video_size": "64x48", "pixel_format": "rgb24"}``.
        buffer_size: In bytes, how much is read at a time of data in memory.
        tolerate_errors: Whether damage ends the reading instead of raising. ``packets.num_errors`` tells.
        protocols: By which protocols, as FFmpeg names them, the container may open others, instead of those that
            ``format`` allows: ``("https", "tls", "tcp")``. None of them: ``()``. Without ``format``, they also allow
            the bytes to choose a format that consists of others.
        timeout: Seconds that opening a source may take, and after that reading each packet of it; then
            ``SourceTimeoutError``. ``None``: as long as it takes. Looking up a host name cannot be interrupted.

    Returns:
        Immutable options. Formats, protocols and options that FFmpeg does not know raise ``DemuxError`` when they are
        used.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: ``buffer_size`` is less than 1, or ``timeout`` is not a finite number of seconds above 0.
    """
    options = as_options("format_options", format_options)
    return DemuxConfig(format, options, buffer_size, tolerate_errors, protocols, timeout)


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """How to decode. Made by ``decode_config``, which says what the fields mean."""

    decoder: str | None = None
    decoder_options: Mapping[str, str] = field(default_factory=dict)
    tolerate_errors: bool = False

    def __post_init__(self) -> None:
        """Check the types; native code knows which decoders and options there are.

        Raises:
            TypeError: A field is of the wrong type.
        """
        if self.decoder is not None and not isinstance(self.decoder, str):
            raise TypeError(f"decoder must be str or None, got {type(self.decoder).__name__}")
        object.__setattr__(self, "decoder_options", as_options("decoder_options", self.decoder_options))
        if not isinstance(self.tolerate_errors, bool):
            raise TypeError(f"tolerate_errors must be bool, got {type(self.tolerate_errors).__name__}")


def decode_config(
    decoder: str | None = None,
    decoder_options: Mapping[str, str | int | float] | None = None,
    *,
    tolerate_errors: bool = False,
) -> DecodeConfig:
    """Say how to decode, where the defaults do not serve.

    Args:
        decoder: Name of the FFmpeg decoder to use instead of the default one of the codec, such as ``"libvpx-vp9"``.
        decoder_options: Options of libavcodec or of the decoder, such as ``{"threads": "4"}``. There is one thread
            unless ``threads`` says otherwise. Pictures of more than ``max_pixels`` raise ``ImageTooLargeError``; the
            default is 178,956,970.
        tolerate_errors: What to do with damaged data. By default it raises ``DecodeError``. If set, the decoder goes on
            with what it can; ``frames.num_errors`` says how many packets it refused or had to patch.

    Returns:
        Immutable options. Decoders and options that FFmpeg does not know raise ``DecodeError`` when they are used.

    Raises:
        TypeError: An argument is of the wrong type.
    """
    return DecodeConfig(decoder, as_options("decoder_options", decoder_options), tolerate_errors)
