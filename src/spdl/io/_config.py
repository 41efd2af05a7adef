"""Options that travel together: how to open containers, and how to decode what is in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DemuxConfig:
    """How to open a container. Made by ``demux_config``, which says what the fields mean."""

    format: str | None = None
    format_options: Mapping[str, str] = field(default_factory=dict)
    buffer_size: int = 8096
    tolerate_errors: bool = False

    def __post_init__(self) -> None:
        """Check the types; native code knows which formats and options there are.

        Raises:
            TypeError: A field is of the wrong type.
            ValueError: ``buffer_size`` is less than 1.
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
) -> DemuxConfig:
    """Say how to open a container, where FFmpeg cannot tell by itself.

    Args:
        format: FFmpeg's name of the format, for data without a header, such as ``"rawvideo"`` or ``"s16le"``.
        format_options: Options of that format or of the protocol, as FFmpeg names them:
            ``{"video_size": "64x48", "pixel_format": "rgb24"}``.
        buffer_size: In bytes, how much is read at a time of data in memory. Files are read by FFmpeg itself.
        tolerate_errors: Whether damage ends the reading instead of raising. ``packets.num_errors`` tells.

    Returns:
        Immutable options. Formats and options that FFmpeg does not know raise ``DemuxError`` when they are used.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: ``buffer_size`` is less than 1.
    """
    return DemuxConfig(format, as_options("format_options", format_options), buffer_size, tolerate_errors)


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
            unless ``threads`` says otherwise.
        tolerate_errors: What to do with damaged data. By default it raises ``DecodeError``. If set, the decoder goes on
            with what it can; ``frames.num_errors`` says how many packets it refused or had to patch.

    Returns:
        Immutable options. Decoders and options that FFmpeg does not know raise ``DecodeError`` when they are used.

    Raises:
        TypeError: An argument is of the wrong type.
    """
    return DecodeConfig(decoder, as_options("decoder_options", decoder_options), tolerate_errors)
