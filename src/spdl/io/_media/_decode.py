"""Decode packets to frames: all at once (``decode_packets``), as a stream (``Decoder``), or selected frames only
(``sample_decode_video``).
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from spdl._numbers import as_int
from spdl.io import _native
from spdl.io._trace import traced
from spdl.io._types import DEFAULT, Default, Seconds

from ._config import DecodeConfig
from ._filters import get_audio_filter_desc, get_filter_desc, get_video_filter_desc, keeps_time
from ._window import nearest_tick

if TYPE_CHECKING:
    from spdl.io._native import (
        AudioCodec,
        AudioDecoder,
        AudioFrames,
        AudioPackets,
        CPUBuffer,
        ImageFrames,
        ImagePackets,
        PictureTimes,
        VideoCodec,
        VideoDecoder,
        VideoFrames,
        VideoPackets,
    )


@overload
def decode_packets(
    packets: "AudioPackets",
    filter_desc: str | Default | None = ...,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> "AudioFrames": ...
@overload
def decode_packets(
    packets: "VideoPackets",
    filter_desc: str | Default | None = ...,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> "VideoFrames": ...
@overload
def decode_packets(
    packets: "ImagePackets",
    filter_desc: str | Default | None = ...,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> "ImageFrames": ...
@traced
def decode_packets(
    packets: "AudioPackets | VideoPackets | ImagePackets",
    filter_desc: str | Default | None = DEFAULT,
    decode_config: DecodeConfig | None = None,
    *,
    num_frames: int = -1,
) -> "AudioFrames | VideoFrames | ImageFrames":
    """Decode packets to frames. The packets are consumed.

    .. code-block:: python

        packets = demux_audio("clips/speech.wav")
        frames = decode_packets(packets, get_audio_filter_desc(sample_rate=8000))
        array = to_numpy(convert_frames(frames))  # (channels, samples) float32

    Args:
        packets: Packets from a demuxer. Using them again raises ``ConsumedError``; pass a ``clone()`` to keep them.
        filter_desc: FFmpeg filter chain, as made by the ``get_..._filter_desc`` functions. By default, audio is
            converted to ``fltp`` and trimmed to the window of the packets, and video and images are converted to
            ``rgb24``. ``None``: no filter; frames have the decoder's own format.
        decode_config: Options for decoding, from ``decode_config``.
        num_frames: Stop after this many frames from the filter. An audio frame is a block of samples, of a size that
            the codec chooses (1024 samples for AAC). 0: no frames, and nothing is decoded. ``-1``, or any other
            negative number: no limit. An image always has one frame.

    Returns:
        Frames of the kind of the packets. For video with a window: exactly the frames inside it, filtered. For audio,
        the filter must trim to the window; the default filter and those from ``get_filter_desc`` do so exactly to the
        sample.

    Raises:
        DecodeError: The data is damaged (see ``decode_config``), or the decoder or an option is unknown.
        FilterError: The filter description is wrong.
        NoCodecError: The packets carry no codec. They are not consumed.
        ConsumedError: The packets were consumed before.
        TypeError: An argument is of the wrong type.

    Releases the GIL; safe to call from several threads, each with its own packets.
    """
    return _native.media.decode_packets(
        packets,
        _filter_of(packets, filter_desc),
        **_as_arguments(decode_config),
        num_frames=_as_limit(num_frames),
        cuts_sound=isinstance(filter_desc, Default),
    )


@traced
def decode_array(
    packets: "AudioPackets | VideoPackets | ImagePackets",
    filter_desc: str | Default | None,
    decode_config: DecodeConfig | None,
) -> "CPUBuffer":
    """Same as ``convert_frames(decode_packets(...))``, without intermediate frames where possible.

    An audio window is trimmed after the filter if the filter is the default one or preserves timestamps.
    """
    return _native.media.decode_array(
        packets,
        _filter_of(packets, filter_desc),
        **_as_arguments(decode_config),
        cuts_sound=isinstance(filter_desc, Default) or keeps_time(filter_desc),
    )


@overload
def Decoder(
    codec: "AudioCodec", *, filter_desc: str | Default | None = ..., decode_config: DecodeConfig | None = None
) -> "AudioDecoder": ...
@overload
def Decoder(
    codec: "VideoCodec", *, filter_desc: str | Default | None = ..., decode_config: DecodeConfig | None = None
) -> "VideoDecoder": ...
def Decoder(
    codec: "AudioCodec | VideoCodec",
    *,
    filter_desc: str | Default | None = DEFAULT,
    decode_config: DecodeConfig | None = None,
) -> "AudioDecoder | VideoDecoder":
    """Make a streaming decoder, which decodes the packets of a stream incrementally.

    Frames lag behind packets, because the decoder reorders frames; ``flush()`` returns the remaining ones. Together,
    the frames are bit-identical to those of ``decode_packets`` for all packets.

    Args:
        codec: Codec of the stream: ``demuxer.video_codec``, ``demuxer.audio_codec``, ``demuxer.codec(index)`` for any
            stream, or ``packets.codec``.
        filter_desc: FFmpeg filter chain, as for ``decode_packets``. The default does not trim samples.
        decode_config: Options for decoding, from ``decode_config``.

    Raises:
        DecodeError: The decoder or an option is unknown.
        TypeError: ``codec`` is an image codec: use ``decode_packets``.
        ValueError: ``codec`` is not a codec.
    """
    media = _native.media
    if isinstance(codec, media.ImageCodec):
        raise TypeError("an image has nothing to stream: decode it with decode_packets(packets)")
    if not isinstance(codec, media.AudioCodec | media.VideoCodec):
        raise ValueError(f"codec must be AudioCodec or VideoCodec, got {type(codec).__name__}")
    if isinstance(filter_desc, Default):
        filter_desc = get_audio_filter_desc() if isinstance(codec, media.AudioCodec) else get_video_filter_desc()
    return media.make_decoder(codec, _as_description(filter_desc), **_as_arguments(decode_config))


@traced
def sample_decode_video(
    packets: "VideoPackets",
    indices: Sequence[int] | slice | None = None,
    *,
    times: Iterable[Seconds] | None = None,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
) -> "list[ImageFrames]":
    """Decode selected frames of a video, and no more of it than they need.

    .. code-block:: python

        frames = sample_decode_video(demux_video("clips/video.mp4"), [0, 10, 20])
        array = to_numpy(convert_frames(frames))  # (3, height, width, 3) uint8

        frames = sample_decode_video(demux_video("clips/video.mp4"), times=[0.5, 1.25])
        [frame.pts for frame in frames]  # display time of each frame, in seconds

    The result is bit-identical to decoding everything and selecting. Frames that are requested several times are
    decoded once. Only the groups of pictures (GOPs) that contain requested frames are decoded, from the key frame to
    the last requested frame. If packets do not identify their frames, as in interlaced video and in streams that were
    cut, all packets are decoded; for ``times``, slices and negative indices twice.

    Args:
        packets: Video packets. They are consumed.
        indices: Positions of frames inside the window, counted in display order. They may be in any order and may
            repeat; negative ones count from the end. Or a slice, as of a list. They count the frames that come out,
            which may be fewer than ``len(packets)``: encoders write frames that are never shown, and a stream that
            was cut begins with some that cannot be decoded.
        times: Times in seconds, in any order, instead of ``indices``: each selects the frame displayed at that time,
            which is the last one whose time is not later. A time means the nearest tick of the stream (of two, the
            later one), so ``k / 30`` is frame ``k`` at 30 frames per second also where the container rounds times to
            milliseconds.
        decode_config: Options for decoding, from ``decode_config``.
        filter_desc: FFmpeg filter chain, as for ``decode_packets``. It receives only the requested frames, and must
            return one frame for each.

    Raises:
        ValueError: ``indices`` or ``times`` is empty, both or none are given, or no frame is displayed at one of the
            times. The packets are not consumed.
        IndexError: There is no frame with that index; the message has the numbers of frames and of packets. The
            packets are not consumed.
        TypeError: An index is not an integer, or ``packets`` are not video packets.
        DecodeError, FilterError, NoCodecError, ConsumedError: As for ``decode_packets``.

    One native call without the GIL.
    """
    if not isinstance(packets, _native.media.VideoPackets):
        raise TypeError(f"packets must be VideoPackets, got {type(packets).__name__}")
    if (indices is None) == (times is None):
        raise ValueError(f"exactly one of indices and times must be given, got {'none' if times is None else 'both'}")
    wanted = _Wanted(packets, indices, times)
    options = {"filter_desc": _filter_of(packets, filter_desc), **_as_arguments(decode_config)}
    images = _sample(packets, wanted, by_decoding=False, options=options)
    return _sample(packets, wanted, by_decoding=True, options=options) or [] if images is None else images


def _sample(
    packets: "VideoPackets", wanted: "_Wanted", *, by_decoding: bool, options: dict[str, Any]
) -> "list[ImageFrames] | None":
    """The wanted frames; ``None`` if packets do not tell which frame is which, unless all of them are decoded."""
    known = None
    if not by_decoding or wanted.needs_times:
        decoding = {name: value for name, value in options.items() if name != "filter_desc"}
        known = _native.media.picture_times(packets, by_decoding=by_decoding, **decoding)
        if known is None:
            return None
    positions = wanted.positions(known)
    ascending = sorted(set(positions))
    images = _native.media.sample_video(packets, ascending, by_decoding=by_decoding, **options)
    if isinstance(images, int):
        raise _outside(ascending[-1], images, len(packets))
    return None if images is None else _in_order(images, ascending, positions)


def _in_order(images: "list[ImageFrames]", ascending: list[int], positions: list[int]) -> "list[ImageFrames]":
    """The image of each position, given those of all positions in ascending order."""
    if positions == ascending:
        return images
    decoded = dict(zip(ascending, images, strict=True))
    given: set[int] = set()
    result = []
    for position in positions:
        # A repeated frame needs its own object each time, because using frames consumes them.
        result.append(decoded[position].clone() if position in given else decoded[position])
        given.add(position)
    return result


class _Wanted:
    """The frames that a user asks for."""

    def __init__(
        self, packets: "VideoPackets", indices: Sequence[int] | slice | None, times: Iterable[Seconds] | None
    ) -> None:
        self._packets = packets
        self._slice = indices if isinstance(indices, slice) else None
        self._indices = (
            [] if indices is None or isinstance(indices, slice) else [as_int("indices", index) for index in indices]
        )
        self._times = [] if times is None else list(times)
        self._ticks = [nearest_tick(time, "times", packets.time_base) for time in self._times]
        if not self._slice and not self._indices and not self._ticks:
            raise ValueError(f"{'indices' if times is None else 'times'} must have at least one item, got none")

    @property
    def needs_times(self) -> bool:
        """Whether the number of frames or their times must be known to find the frames."""
        return not self._indices or not all(0 <= index < 2**31 for index in self._indices)

    def positions(self, known: "PictureTimes | None") -> list[int]:
        """The position of each frame in presentation order. Raises ``IndexError`` or ``ValueError`` if it has none."""
        if known is None:
            return self._indices
        num_pictures = len(known)
        if self._slice is not None:
            positions = list(range(num_pictures)[self._slice])
            if not positions:
                raise ValueError(
                    f"indices must have at least one item, got none: {self._slice} of {num_pictures} pictures"
                )
            return positions
        if self._indices:
            for index in self._indices:
                if not -num_pictures <= index < num_pictures:
                    raise _outside(index, num_pictures, len(self._packets))
            return [index + num_pictures if index < 0 else index for index in self._indices]
        found = []
        for time, position in zip(self._times, known.indices_at(self._ticks), strict=True):
            if position is None:
                raise self._not_displayed(time, known)
            found.append(position)
        return found

    def _not_displayed(self, time: Seconds, known: "PictureTimes") -> ValueError:
        extent = "there is none"
        if known.extent is not None:
            start, end = (float(tick * Fraction(*self._packets.time_base)) for tick in known.extent)
            extent = f"they have frames from {start:.6g} to {end:.6g}"
        return ValueError(f"no frame of the packets is displayed at {time} seconds; {extent}: choose other times")


def _outside(index: int, num_pictures: int, num_packets: int) -> IndexError:
    return IndexError(
        f"indices must be in [-{num_pictures}, {num_pictures}), got {index}:"
        f" {num_pictures} pictures come out of the {num_packets} packets"
    )


def _filter_of(packets: Any, filter_desc: str | Default | None) -> str | None:
    if not isinstance(filter_desc, Default):
        return _as_description(filter_desc)
    # Native code trims audio to the window.
    return get_audio_filter_desc() if isinstance(packets, _native.media.AudioPackets) else get_filter_desc(packets)


def _as_description(filter_desc: str | None) -> str | None:
    if filter_desc is not None and not isinstance(filter_desc, str):
        raise TypeError(f"filter_desc must be str or None, got {type(filter_desc).__name__}")
    return filter_desc


def _as_arguments(config: DecodeConfig | None) -> dict[str, Any]:
    if config is None:
        config = DecodeConfig()
    elif not isinstance(config, DecodeConfig):
        raise TypeError(f"decode_config must be a DecodeConfig, got {type(config).__name__}")
    return {
        "decoder": config.decoder,
        "options": dict(config.decoder_options),
        "tolerate_errors": config.tolerate_errors,
    }


def _as_limit(num_frames: int) -> int | None:
    limit = as_int("num_frames", num_frames)
    return None if limit < 0 else limit
