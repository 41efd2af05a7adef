"""What to ask of encoders."""

import dataclasses
from dataclasses import dataclass
from typing import overload

from . import _native

#: What the factory functions take for "the encoder's own default".
_DEFAULT = -1


#: Most that an ``int`` of C holds, and an ``int64_t``.
_MOST, _MOST_BITS = 2**31 - 1, 2**63 - 1


def _require(config: object, *names: str, least: int, most: int = _MOST) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not least <= value <= most:
            raise ValueError(f"{name} must be {f'>= {least}' if value < least else f'<= {most}'}, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoEncodeConfig:
    """Pictures to encode, and how; see :func:`video_encode_config`. ``None`` is the encoder's own default."""

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
        _require(self, "bit_rate", least=0, most=_MOST_BITS)
        if self.frame_rate is not None:
            numerator, denominator = self.frame_rate
            if not 1 <= numerator <= _MOST or not 1 <= denominator <= _MOST:
                raise ValueError(f"frame_rate must be two positive numbers of 31 bits, got {self.frame_rate}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioEncodeConfig:
    """Samples to encode, and how; see :func:`audio_encode_config`. ``None`` is the encoder's own default."""

    num_channels: int
    sample_rate: int
    sample_fmt: str = "fltp"
    bit_rate: int | None = None
    compression_level: int | None = None
    qscale: int | None = None

    def __post_init__(self) -> None:
        _require(self, "num_channels", "sample_rate", least=1)
        _require(self, "compression_level", "qscale", least=0)
        _require(self, "bit_rate", least=0, most=_MOST_BITS)


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
    """The pictures that an encoder will get, and how it shall encode them. ``-1`` leaves a choice to the encoder.

    Args:
        height: Height of the frames, in pixels.
        width: Width of the frames, in pixels.
        frame_rate: Frames per second, as ``(numerator, denominator)``. It is also the unit of time stamps: two frames
            are at least ``1 / frame_rate`` apart. ``None``: the encoder's first; most have none and refuse.
        pix_fmt: Pixel format of the frames. Nothing is converted: a format that the encoder does not take is refused
            by ``Muxer.add_encode_stream`` with the list of those it takes. Video encoders want such as ``"yuv420p"``.
        bit_rate: Target, in bit/s.
        compression_level: Effort of lossless encoders; the scale is the encoder's.
        qscale: Constant quality instead of a bit rate, on the encoder's scale; low is good.
        gop_size: Most frames from one key frame to the next.
        max_b_frames: Most B-frames in a row.
        colorspace: Matrix coefficients to tell, such as ``"bt709"``. The three only describe; nothing is converted.
        color_primaries: Likewise, of the primaries.
        color_trc: Likewise, of the transfer characteristic.

    Raises:
        ValueError: A number is out of range. (Whether the names are known, ``Muxer.add_encode_stream`` finds.)
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
    """The samples that an encoder will get, and how it shall encode them. ``-1`` leaves a choice to the encoder.

    Args:
        num_channels: Number of channels; their layout is FFmpeg's default for that many.
        sample_rate: Samples per second and channel.
        sample_fmt: Sample format: ``"u8"``, ``"s16"``, ``"s32"``, ``"flt"``, ``"dbl"``, packed; with ``p`` behind,
            planar. Nothing is converted: a format that the encoder does not take is refused by
            ``Muxer.add_encode_stream`` with the list of those it takes.
        bit_rate: Target, in bit/s.
        compression_level: Effort; the scale is the encoder's.
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


def _given(value: int) -> int | None:
    return None if value == _DEFAULT else value


@overload
def as_native_config(config: VideoEncodeConfig) -> "_native.media.VideoEncodeConfig": ...
@overload
def as_native_config(config: AudioEncodeConfig) -> "_native.media.AudioEncodeConfig": ...
def as_native_config(
    config: VideoEncodeConfig | AudioEncodeConfig,
) -> "_native.media.VideoEncodeConfig | _native.media.AudioEncodeConfig":
    """The same for native code."""
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if isinstance(config, VideoEncodeConfig):
        return _native.media.VideoEncodeConfig(**fields)
    return _native.media.AudioEncodeConfig(**fields)
