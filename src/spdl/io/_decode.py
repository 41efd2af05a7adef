"""From packets to frames: all at once, by and by, or some pictures only."""

from collections.abc import Sequence
from itertools import pairwise
from operator import index as as_int
from typing import TYPE_CHECKING, Any, overload

from . import _native
from ._config import DecodeConfig
from ._filters import get_audio_filter_desc, get_filter_desc, get_video_filter_desc, keeps_time
from ._trace import traced
from ._types import DEFAULT, Default

if TYPE_CHECKING:
    from ._native import (
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
    """Decode packets, which are consumed.

    Args:
        packets: What a demuxer gave. Using them again raises ``ConsumedError``; pass a ``clone()`` to keep them.
        filter_desc: An FFmpeg filter chain, as the functions ``get_..._filter_desc`` make them. By default audio
            becomes ``fltp``, trimmed to the window of the packets, and pictures become ``rgb24``. ``None``: frames in
            the format of the decoder.
        decode_config: See the function of that name.
        num_frames: Stop when that many frames came out of the filter: pictures, or blocks of samples as the codec
            makes them (1024 samples for AAC). 0: none, and nothing is decoded. ``-1``, and anything else below 0: no
            limit. Of an image there is one.

    Returns:
        Frames of the kind of the packets. Of a video with a window, exactly the pictures inside it, filtered. A window
        of audio is for the filter to cut: the default one does, and so does what ``get_filter_desc`` makes, both to the
        sample.

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
    """What ``convert_frames`` gives of what ``decode_packets`` gives, without frames in between where that can be.

    A window of audio is cut behind the filter also if the filter is not the default one, but keeps time.
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
    """A decoder that is given the packets of a stream by and by.

    Frames lag behind packets by what the decoder holds back to put pictures in order: ``flush()`` gives the rest. All
    batches together equal bit for bit what ``decode_packets`` gives for all packets.

    Args:
        codec: Of the stream: ``demuxer.video_codec``, ``demuxer.audio_codec`` or ``packets.codec``.
        filter_desc: As for ``decode_packets``. Samples are not trimmed by default.
        decode_config: See the function of that name.

    Raises:
        DecodeError: The decoder or an option is unknown.
        TypeError: The codec is of an image: ``decode_packets`` decodes those.
        ValueError: ``codec`` is no codec.
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
    """Decode some pictures of a video, and no more than it takes to get them.

    Each picture is the one that decoding everything and picking gives, bit for bit. Decoded are the groups of pictures
    that hold the wanted ones, from their key frame to the last wanted one. (Where packets do not tell which picture is
    which, as in raw streams without time stamps and interlaced video, decoding starts at the beginning.)

    Args:
        packets: Of a video; consumed.
        indices: Positions inside the window, in display order: ascending, none twice, in ``[0, len(packets))``.
        decode_config: See the function of that name.
        filter_desc: As for ``decode_packets``. It sees the wanted pictures only, and must give one for each.

    Raises:
        ValueError: No index, or indices that are not ascending and unique. The packets are not consumed.
        IndexError: An index is outside. The packets are not consumed.
        TypeError: An index is no integer; ``packets`` are not of a video.
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
    # Native code cuts a window of audio.
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
