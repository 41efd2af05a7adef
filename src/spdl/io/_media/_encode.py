"""``video_encode_config`` and ``audio_encode_config``: options for encoders."""

import dataclasses
from dataclasses import dataclass
from typing import overload

from spdl._numbers import MAX_INT, as_int
from spdl.io import _native

#: The value that means "the encoder's own default" in the factory functions.
_DEFAULT = -1


#: Largest C ``int64_t``.
_MAX_INT64 = 2**63 - 1


def _require(config: object, *names: str, least: int, most: int = MAX_INT) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None:
            object.__setattr__(config, name, as_int(name, value, least, most))


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


def _given(value: int) -> int | None:
    return None if value == _DEFAULT else value


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
