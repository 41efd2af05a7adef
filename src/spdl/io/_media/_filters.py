"""Descriptions of filters in FFmpeg's syntax, and ``BSF``: bit stream filters, which change undecoded packets."""

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar, cast

from spdl._numbers import as_int
from spdl.io import _native
from spdl.io._trace import traced
from spdl.io._types import Default, TimeWindow

from ._window import as_seconds, bounds_of

if TYPE_CHECKING:
    from spdl.io._native import AudioCodec, AudioPackets, ImageCodec, ImagePackets, VideoCodec, VideoPackets

    P = TypeVar("P", AudioPackets, VideoPackets, ImagePackets)

# Audio filters that preserve timestamps: they output one sample per input sample, or change only the sample rate.
# fmt: off
_KEEP_TIME = frozenset((
    "acompressor", "acontrast", "acopy", "acrusher", "aformat", "agate", "alimiter", "anull", "aresample",
    "asetnsamples", "ashowinfo", "astats", "bandpass", "bandreject", "bass", "biquad", "channelmap", "compand",
    "dcshift", "dynaudnorm", "equalizer", "extrastereo", "highpass", "highshelf", "lowpass", "lowshelf", "pan",
    "tiltshelf", "treble", "volume", "volumedetect",
))
# fmt: on

# The filters that turn stored images upright, by EXIF orientation.
_TURNS = {
    2: "hflip",
    3: "hflip,vflip",
    4: "vflip",
    5: "transpose=cclock_flip",
    6: "transpose=clock",
    7: "transpose=clock_flip",
    8: "transpose=cclock",
}

# FFmpeg stores durations as 64-bit numbers of microseconds.
_LATEST = 2**63 / 1e6


def get_audio_filter_desc(
    *,
    sample_rate: int | None = None,
    num_channels: int | None = None,
    sample_fmt: str | None = "fltp",
    timestamp: TimeWindow | None = None,
    num_frames: int | None = None,
    filter_desc: str | None = None,
) -> str | None:
    """Make the description of an audio filter: channels, sample rate, window, length and sample format.

    The steps, each only if requested, are in this order: channels, sample rate, window, length, ``filter_desc``, sample
    format.

    Args:
        sample_rate: Output sample rate, in Hz.
        num_channels: Number of output channels.
        sample_fmt: Output sample format: ``u8``, ``s16``, ``s32``, ``s64``, ``flt`` or ``dbl``; with a trailing ``p``
            for planar samples, which become arrays ``(channels, samples)`` instead of ``(samples, channels)``. The
            default is 32-bit floating point between -1 and 1. ``None``: unchanged.
        timestamp: Window ``[start, end)`` to keep, in seconds; an infinite end means no end. To keep exactly the
            demuxed window, pass ``packets.timestamp``, as :func:`get_filter_desc` does.
        num_frames: Number of output samples per channel: longer audio is cut, shorter audio is padded with silence.
        filter_desc: Your own filters.

    Returns:
        The description, or ``None`` if there is nothing to do.
    """
    steps: list[str] = []
    if num_channels is not None:
        num_channels = as_int("num_channels", num_channels)
        steps.append(f"aformat=channel_layouts={num_channels}c")
    if sample_rate is not None:
        sample_rate = as_int("sample_rate", sample_rate)
        steps.append(f"aresample={sample_rate}")
    if timestamp is not None:
        steps.append(f"a{_trim(timestamp)}")
    if num_frames is not None:
        num_frames = as_int("num_frames", num_frames)
        steps.append(f"apad,atrim=end_sample={num_frames}")
    if filter_desc is not None:
        steps.append(filter_desc)
    if sample_fmt is not None:
        steps.append(f"aformat=sample_fmts={sample_fmt}")
    return ",".join(steps) or None


def get_video_filter_desc(
    *,
    frame_rate: tuple[int, int] | None = None,
    timestamp: TimeWindow | None = None,
    scale_width: int | None = None,
    scale_height: int | None = None,
    scale_algo: str = "bicubic",
    scale_mode: str | None = "pad",
    crop_width: int | None = None,
    crop_height: int | None = None,
    pix_fmt: str | None = "rgb24",
    num_frames: int | None = None,
    pad_mode: str | None = None,
    filter_desc: str | None = None,
) -> str | None:
    """Make the description of a filter for video and images: rate, window, size, crop, length and pixel format.

    The steps, each only if requested, are in this order: frame rate, window, size, crop, length, ``filter_desc``, pixel
    format.

    Args:
        frame_rate: Output frame rate, ``(numerator, denominator)`` in Hz. Frames are repeated or dropped.
        timestamp: Window ``[start, end)`` to keep, in seconds; an infinite end means no end. Decoding already applies
            the window of the packets.
        scale_width: Width after scaling, in pixels. 0: the input's width. ``-n``: the width that keeps the aspect ratio
            and is divisible by n; requires ``scale_mode=None``. The default is 0 if only the height is given.
        scale_height: Height after scaling, in pixels; 0 and ``-n`` as for ``scale_width``.
        scale_algo: Algorithm of FFmpeg's scaler, such as ``"bilinear"`` or ``"lanczos"``.
        scale_mode: Treatment of another aspect ratio. ``"pad"``: scale to fit and add borders, centred;
            ``"crop"``: scale to fill and crop the excess; ``None``: stretch.
        crop_width: Width of the centre crop after scaling. FFmpeg requires both sides.
        crop_height: Height of the centre crop after scaling.
        pix_fmt: Output pixel format, such as ``"rgb24"``, ``"rgba"``, ``"gray"``, ``"yuv420p"``, ``"nv12"``.
            ``None``: unchanged.
        num_frames: Number of output frames: longer video is cut, shorter video is padded with copies of the last frame.
        pad_mode: Colour of borders (default: black) and of padding frames (default: a copy of the last frame).
        filter_desc: Your own filters.

    Returns:
        The description, or ``None`` if there is nothing to do.

    Raises:
        TypeError: A number is not an integer.
        ValueError: ``scale_mode`` is not one of the three.
        FilterError: ``num_frames`` needs the filter ``tpad``, which this FFmpeg does not have.
    """
    steps: list[str] = []
    if frame_rate is not None:
        steps.append(f"fps={frame_rate[0]}/{frame_rate[1]}")
    if timestamp is not None:
        steps.append(_trim(timestamp))
    if scale_width is not None or scale_height is not None:
        width, height = _as_pixels("scale_width", scale_width), _as_pixels("scale_height", scale_height)
        steps += _scale(width, height, scale_algo, scale_mode, pad_mode or "black")
    if crop_width is not None or crop_height is not None:
        steps.append(f"crop=w={_as_pixels('crop_width', crop_width)}:h={_as_pixels('crop_height', crop_height)}")
    if num_frames is not None:
        steps.append(_fill_up(as_int("num_frames", num_frames), pad_mode))
    if filter_desc is not None:
        steps.append(filter_desc)
    if pix_fmt is not None:
        steps.append(f"format=pix_fmts={pix_fmt}")
    return ",".join(steps) or None


def get_filter_desc(packets: "AudioPackets | VideoPackets | ImagePackets", **filter_args: Any) -> str | None:
    """Make the filter description for these packets.

    Args:
        packets: Packets to decode. They are not consumed. For audio, their window becomes a step of the filter.
        **filter_args: Arguments of :func:`get_audio_filter_desc` or :func:`get_video_filter_desc`, except
            ``timestamp``.

    Raises:
        TypeError: ``packets`` are not packets, or an argument is unknown.
    """
    media = _native.media
    if isinstance(packets, media.AudioPackets):
        return get_audio_filter_desc(timestamp=packets.timestamp, **filter_args)
    if isinstance(packets, media.VideoPackets | media.ImagePackets):
        # Decoding applies the window. `timestamp` in filter_args raises TypeError, as for audio.
        return get_video_filter_desc(timestamp=None, **filter_args)
    raise TypeError(f"packets must be AudioPackets, VideoPackets or ImagePackets, got {type(packets).__name__}")


def turned(filter_desc: str | Default | None, orientation: int) -> str | Default | None:
    """The same filters, after a step that turns images upright from the given EXIF orientation."""
    turn = _TURNS.get(orientation)
    if turn is None:
        return filter_desc
    if isinstance(filter_desc, Default):
        return get_video_filter_desc(filter_desc=turn)
    if not filter_desc:
        return turn
    if filter_desc.lstrip().startswith("[in]"):
        return f"[in]{turn}[upright];{filter_desc.replace('[in]', '[upright]', 1)}"
    return f"{turn},{filter_desc}"


def keeps_time(filter_desc: str | None) -> bool:
    """Whether an audio filter preserves timestamps.

    True for ``None``, and for a linear chain of filters that are known to preserve them.
    """
    if filter_desc is None:
        return True
    unquoted = re.sub(r"'[^']*'|\\.", "", filter_desc)
    if "[" in unquoted or ";" in unquoted:
        return False
    steps = unquoted.split(",")
    return all(re.split(r"[=@]", step.strip(), maxsplit=1)[0].strip() in _KEEP_TIME for step in steps)


def get_abuffer_desc(codec: "AudioCodec", *, label: str | None = None, sample_fmt: str | None = None) -> str:
    """Make the description of an audio input of a :class:`FilterGraph`.

    Args:
        codec: Codec of the decoder.
        label: Name of the input: add frames with ``key=f"abuffer@{label}"``. Required if a graph has several inputs.
        sample_fmt: Sample format of the frames. Default: the codec's.

    Returns:
        ``abuffer@label=…``, to be followed by filters.

    Raises:
        TypeError: ``codec`` is not an audio codec.
    """
    if not isinstance(codec, _native.media.AudioCodec):
        raise TypeError(f"codec must be an AudioCodec, got {type(codec).__name__}")
    numerator, denominator = codec.time_base
    return (
        f"{_node('abuffer', label)}=time_base={numerator}/{denominator}:sample_rate={codec.sample_rate}"
        f":sample_fmt={codec.sample_fmt if sample_fmt is None else sample_fmt}:channel_layout={codec.channel_layout}"
    )


def get_buffer_desc(codec: "VideoCodec | ImageCodec", label: str | None = None, pix_fmt: str | None = None) -> str:
    """Make the description of a video or image input of a :class:`FilterGraph`.

    Args:
        codec: Codec of the decoder.
        label: Name of the input: add frames with ``key=f"buffer@{label}"``. Required if a graph has several inputs.
        pix_fmt: Pixel format of the frames. Default: the codec's.

    Returns:
        ``buffer@label=…``, to be followed by filters.

    Raises:
        TypeError: ``codec`` is not a video or image codec.
    """
    media = _native.media
    if not isinstance(codec, media.VideoCodec | media.ImageCodec):
        raise TypeError(f"codec must be a VideoCodec or an ImageCodec, got {type(codec).__name__}")
    numerator, denominator = codec.time_base
    across, down = codec.sample_aspect_ratio
    return (
        f"{_node('buffer', label)}=video_size={codec.width}x{codec.height}"
        f":pix_fmt={codec.pix_fmt if pix_fmt is None else pix_fmt}"
        f":time_base={numerator}/{denominator}:pixel_aspect={across}/{down}"
    )


class BSF:
    """Apply a chain of bit stream filters to a stream of packets. Not thread-safe; releases the GIL.

    Args:
        codec: Codec of the packets, such as ``demuxer.video_codec``.
        bsf: Filters in FFmpeg's syntax: ``"h264_mp4toannexb"``, ``"noise=amount=10,null"``.

    Raises:
        TypeError: ``codec`` is not a codec.
        FilterError: A filter or option is unknown, or does not support the codec.
    """

    def __init__(self, codec: "AudioCodec | VideoCodec | ImageCodec", bsf: str) -> None:
        self._native = _native.media.BSF(codec, bsf)

    @traced
    def filter(self, packets: "P", flush: bool = False) -> "P | None":
        """Filter packets. ``packets`` are neither changed nor consumed.

        Args:
            packets: Packets of the kind of the codec. If they have no codec (from streaming), the result has none.
            flush: Whether these are the last packets, so that the filters return all that they still hold.

        Returns:
            Packets with the window of ``packets``; ``None`` if the filters returned no packet.

        Raises:
            FilterError: The packets are of another kind, or a filter rejects them.
            ConsumedError: The packets were consumed before.
        """
        return cast("P | None", self._native.filter(packets, flush))

    @traced
    def flush(self) -> "AudioPackets | VideoPackets | ImagePackets | None":
        """Return the packets that the filters still hold, or ``None``. The filters can be used again after that."""
        return self._native.flush()


@traced
def apply_bsf(packets: "P", bsf: str) -> "P | None":
    """Apply bit stream filters to packets. The result has a matching codec.

    Args:
        packets: Packets, which are neither changed nor consumed.
        bsf: Filters in FFmpeg's syntax.

    Returns:
        Packets with the window of ``packets``; ``None`` if the filters returned no packet.

    Raises:
        NoCodecError: The packets have no codec, like those from streaming; use ``BSF``. Also a ``ValueError``.
        FilterError: A filter or option is unknown, or a filter rejects the packets.
        ConsumedError: The packets were consumed before.
    """
    return cast("P | None", _native.media.apply_bsf(packets, bsf))


def _node(filter_name: str, label: str | None) -> str:
    return filter_name if label is None else f"{filter_name}@{label}"


def _trim(timestamp: TimeWindow) -> str:
    start, end = bounds_of(timestamp, "timestamp")
    until = "" if as_seconds(end, "timestamp") >= _LATEST else f":end={_seconds(end)}"
    return f"trim=start={_seconds(start)}{until}"


def _seconds(value: Any) -> str:
    """The time in FFmpeg's syntax, which has neither exponents nor fractions."""
    number = as_seconds(value, "timestamp")
    if isinstance(value, int):
        return str(value)
    text = repr(number)
    return f"{Decimal(text):f}" if "e" in text and math.isfinite(number) else text


def _as_pixels(name: str, value: int | None) -> int:
    return 0 if value is None else as_int(name, value)


def _scale(width: int, height: int, algo: str, mode: str | None, color: str) -> list[str]:
    scale = f"scale=w={width}:h={height}:flags={algo}"
    size = f"w={width}:h={height}"
    match mode:
        case "pad":
            return [f"{scale}:force_original_aspect_ratio=decrease", f"pad={size}:x=-1:y=-1:color={color}"]
        case "crop":
            return [f"{scale}:force_original_aspect_ratio=increase", f"crop={size}"]
        case None:
            return [scale]
    raise ValueError(f"scale_mode must be 'pad', 'crop' or None, got {mode!r}")


def _fill_up(num_frames: int, color: str | None) -> str:
    _native.media.require_filter("tpad")
    fill = "clone" if color is None else f"add:color={color}"
    return f"tpad=stop=-1:stop_mode={fill},trim=end_frame={num_frames}"
