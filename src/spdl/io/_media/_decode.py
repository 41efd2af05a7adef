"""Decoding packets to frames: all at once, as a stream, or selected frames only."""

from collections.abc import Sequence
from itertools import pairwise
from operator import index as as_int
from typing import TYPE_CHECKING, Any, overload

from spdl.io import _native
from spdl.io._trace import traced
from spdl.io._types import DEFAULT, Default

from ._config import DecodeConfig
from ._filters import get_audio_filter_desc, get_filter_desc, get_video_filter_desc, keeps_time

if TYPE_CHECKING:
    from spdl.io._native import (
        AudioCodec,
        AudioDecoder,
        AudioFrames,
        AudioPackets,
        CPUBuffer,
        ImageFrames,
        ImagePackets,
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
    """Decode packets. The packets are consumed.

    Args:
        packets: Packets from a demuxer. Using them again raises ``ConsumedError``; pass a ``clone()`` to keep them.
        filter_desc: FFmpeg filter chain, as made by the ``get_..._filter_desc`` functions. By default, audio
            becomes ``fltp``, trimmed to the window of the packets, and pictures become ``rgb24``. ``None``: the
            decoder's own format.
        decode_config: Options for decoding, from ``decode_config``.
        num_frames: Number of frames from the filter after which to stop: pictures, or blocks of samples as the codec
            makes them (1024 samples for AAC). 0: no frames, and nothing is decoded. ``-1``, and any other negative
            number: no limit. An image always has one frame.

    Returns:
        Frames of the kind of the packets. For video with a window: exactly the frames inside it, filtered. For audio,
        the filter has to trim to the window: the default one does, and so do those that ``get_filter_desc`` makes, both
        with sample accuracy.

    Raises:
        DecodeError: The data is damaged (see ``decode_config``), or the decoder or an option is unknown.
        FilterError: The filter description is wrong.
        NoCodecError: The packets carry no codec. They are not consumed.
        ConsumedError: The packets were consumed before.
        TypeError: An argument is of the wrong type.

    Releases the GIL; safe to call from several threads, each with packets of its own.
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
    """Make a streaming decoder, which takes the packets of a stream incrementally.

    Frames lag behind packets, because the decoder reorders frames: ``flush()`` returns the rest. All batches together
    are bit-identical to ``decode_packets`` on all packets.

    Args:
        codec: Codec of the stream: ``demuxer.video_codec``, ``demuxer.audio_codec`` or ``packets.codec``.
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
    indices: Sequence[int],
    *,
    decode_config: DecodeConfig | None = None,
    filter_desc: str | Default | None = DEFAULT,
) -> "list[ImageFrames]":
    """Decode selected frames of a video, and no more than needed for them.

    The result is bit-identical to decoding everything and selecting. Only the groups of pictures (GOPs) that contain
    requested frames are decoded, from the key frame to the last requested frame. (Where packets do not identify their
    frames, as in raw streams without timestamps and in interlaced video, decoding starts at the beginning.)

    Args:
        packets: Video packets. They are consumed.
        indices: Positions inside the window, in display order: ascending, unique, in ``[0, len(packets))``.
        decode_config: Options for decoding, from ``decode_config``.
        filter_desc: FFmpeg filter chain, as for ``decode_packets``. It receives only the requested frames, and must
            give one frame for each.

    Raises:
        ValueError: ``indices`` is empty, or not ascending and unique. The packets are not consumed.
        IndexError: An index is out of range. The packets are not consumed.
        TypeError: An index is not an integer, or ``packets`` are not video packets.
        DecodeError, FilterError, NoCodecError, ConsumedError: As for ``decode_packets``.

    One native call without the GIL.
    """
    wanted = [as_int(index) for index in indices]
    if not isinstance(packets, _native.media.VideoPackets):
        raise TypeError(f"packets must be VideoPackets, got {type(packets).__name__}")
    if not wanted:
        raise ValueError("indices must have at least one index, got none")
    if any(after <= before for before, after in pairwise(wanted)):
        raise ValueError(f"indices must be ascending and unique, got {_shorten(wanted)}")
    num_packets = len(packets)
    if wanted[0] < 0 or wanted[-1] >= num_packets:
        outside = wanted[0] if wanted[0] < 0 else wanted[-1]
        raise IndexError(f"indices must be in [0, {num_packets}), got {outside}")
    return _native.media.sample_video(packets, wanted, _filter_of(packets, filter_desc), **_as_arguments(decode_config))


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
    limit = as_int(num_frames)
    return None if limit < 0 else limit


def _shorten(values: list[int]) -> str:
    return repr(values) if len(values) <= 8 else f"[{', '.join(map(str, values[:8]))}, ...]"
