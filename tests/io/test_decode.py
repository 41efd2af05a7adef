"""From packets to frames all at once, judged by the ffmpeg tool."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from spdl.io import decode_config, decode_packets, demux_audio, demux_image, demux_video, to_numpy
from tests.support.media import clip, decoded_audio, decoded_video, h264, pictures, tones

STEREO = tones(expression="sin(440*2*PI*t)|cos(300*2*PI*t)")


def array_of(frames: Any) -> NDArray[Any]:
    """The frames' data; they are not consumed."""
    return to_numpy(spdl.io.convert_frames(frames.clone()))


def test_video_is_rgb24_by_default() -> None:
    """Every picture, in display order, as the ffmpeg tool decodes it."""
    frames = decode_packets(demux_video(h264()))
    assert isinstance(frames, spdl.io.VideoFrames)
    assert (frames.pix_fmt, frames.width, frames.height, len(frames)) == ("rgb24", 64, 48, 50)
    assert (array_of(frames) == decoded_video(h264(), "rgb24", (48, 64, 3))).all()


def test_audio_is_fltp_by_default() -> None:
    """Every sample as the ffmpeg tool decodes it."""
    path = clip("tones.flac", *STEREO)
    frames = decode_packets(demux_audio(path))
    assert isinstance(frames, spdl.io.AudioFrames)
    assert (frames.sample_fmt, frames.num_channels, frames.sample_rate, len(frames)) == ("fltp", 2, 8000, 16000)
    assert (array_of(frames) == decoded_audio(path, 2).T).all()


def test_image_is_rgb24_by_default() -> None:
    """One picture, as the ffmpeg tool decodes it."""
    path = clip("picture.png", *pictures(), "-frames:v", "1")
    frames = decode_packets(demux_image(path))
    assert isinstance(frames, spdl.io.ImageFrames)
    assert (array_of(frames) == decoded_video(path, "rgb24", (48, 64, 3))[0]).all()


def test_channels_without_a_place_are_decoded() -> None:
    """A WAV tells how many channels it has, and not which."""
    path = clip("plain.wav", *STEREO, "-c:a", "pcm_s16le")
    assert (array_of(decode_packets(demux_audio(path))) == decoded_audio(path, 2).T).all()


@pytest.mark.parametrize(("filter_desc", "pix_fmt", "size"), [
    (None, "yuv420p", (64, 48)),
    ("scale=20:10", "yuv420p", (20, 10)),
    ("hflip,format=gray", "gray", (64, 48)),
])  # fmt: skip
def test_filter_is_what_the_caller_says(filter_desc: str | None, pix_fmt: str, size: tuple[int, int]) -> None:
    """``None`` is the decoder's own format, text an FFmpeg chain."""
    frames = decode_packets(demux_video(h264()), filter_desc)
    assert (frames.pix_fmt, (frames.width, frames.height), len(frames)) == (pix_fmt, size, 50)


def test_filter_may_change_the_number_of_frames() -> None:
    """Also with what comes out after the last packet."""
    frames = decode_packets(demux_video(h264()), filter_desc="fps=5,format=gray")
    expected = decoded_video(h264(), "gray", (48, 64), "-vf", "fps=5")
    assert (array_of(frames)[..., 0] == expected).all()


def test_frames_without_a_filter_keep_their_times() -> None:
    """They are those of the source."""
    frames = decode_packets(demux_video(h264()), None)
    assert np.allclose(frames.get_timestamps(), np.arange(50) / 25)


def test_image_filter_is_what_the_caller_says() -> None:
    """As for videos."""
    path = clip("picture.png", *pictures(), "-frames:v", "1")
    frames = decode_packets(demux_image(path), filter_desc="scale=8:6,format=gray")
    assert (frames.pix_fmt, frames.width, frames.height) == ("gray", 8, 6)


@pytest.mark.parametrize("count", [1, 7, 49])
def test_number_of_pictures_can_be_limited(count: int) -> None:
    """The first ones, and the same as without a limit."""
    frames = decode_packets(demux_video(h264()), num_frames=count)
    assert (array_of(frames) == decoded_video(h264(), "rgb24", (48, 64, 3))[:count]).all()


@pytest.mark.parametrize("count", [-1, 50, 1000])
def test_limit_that_does_not_bind_changes_nothing(count: int) -> None:
    """``-1`` is no limit."""
    assert len(decode_packets(demux_video(h264()), num_frames=count)) == 50


def test_limit_of_none_gives_nothing() -> None:
    """Neither pictures nor samples."""
    assert len(decode_packets(demux_video(h264()), num_frames=0)) == 0
    assert len(decode_packets(demux_audio(clip("tones.m4a", *STEREO, "-c:a", "aac")), num_frames=0)) == 0


def test_limit_counts_what_comes_out_of_the_filter() -> None:
    """Whether the filter adds frames or takes some."""
    assert len(decode_packets(demux_video(h264()), "fps=100", num_frames=5)) == 5
    assert np.allclose(decode_packets(demux_video(h264()), "fps=5", num_frames=3).get_timestamps(), [0, 0.2, 0.4])


def test_limit_of_audio_counts_blocks_of_the_codec() -> None:
    """AAC has 1024 samples in each; a filter may make others."""
    path = clip("tones.m4a", *STEREO, "-c:a", "aac")
    assert len(decode_packets(demux_audio(path), num_frames=3)) == 3 * 1024
    assert len(decode_packets(demux_audio(path), "asetnsamples=100", num_frames=3)) == 300


def test_window_of_video_is_exact_to_the_frame() -> None:
    """Half open, with any filter, and filtered after the cut."""
    expected = decoded_video(h264(), "rgb24", (48, 64, 3))[13:31]
    frames = decode_packets(demux_video(h264(), timestamp=(0.52, 1.24)))
    assert np.allclose(frames.get_timestamps(), np.arange(13, 31) / 25)
    assert (array_of(frames) == expected).all()
    again = decode_packets(demux_video(h264(), timestamp=(0.52, 1.24)), "reverse,format=rgb24")
    assert (array_of(again) == expected[::-1]).all()


@pytest.mark.parametrize("window", [(1, 1), (1.5, 1), (10, 11)])
def test_window_without_pictures_gives_none(window: tuple[float, float]) -> None:
    """Empty, reversed and late ones."""
    assert len(decode_packets(demux_video(h264(), timestamp=window))) == 0


def test_window_of_audio_is_exact_to_the_sample() -> None:
    """By the default filter; a filter of the caller's cuts by itself, as ``get_filter_desc`` does."""
    path = clip("tones.flac", *STEREO)
    expected = decoded_audio(path, 2).T[:, 4000:9000]
    packets = demux_audio(path, timestamp=(0.5, 1.125))
    assert (array_of(decode_packets(packets.clone())) == expected).all()
    assert len(decode_packets(packets.clone(), None)) > 5000
    desc = spdl.io.get_filter_desc(packets, sample_rate=16000)
    assert len(decode_packets(packets, desc)) == 10000


def test_packets_are_consumed() -> None:
    """Decoding them again is an error that is a ``TypeError``; a clone is independent."""
    packets = demux_video(h264())
    clone = packets.clone()
    decode_packets(packets)
    with pytest.raises(spdl.io.ConsumedError, match=r"clone\(\)") as caught:
        decode_packets(packets)
    assert isinstance(caught.value, TypeError)
    assert len(decode_packets(clone)) == 50


def test_packets_without_codec_are_refused_and_kept() -> None:
    """Those of streaming have none; the error says what does decode them."""
    with spdl.io.Demuxer(h264()) as demuxer:
        packets: Any = next(iter(demuxer.streaming_demux(num_packets=5)))
    with pytest.raises(spdl.io.NoCodecError, match="Decoder") as caught:
        decode_packets(packets)
    assert isinstance(caught.value, ValueError)
    assert len(packets) == 5


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_of_the_decoder_change_nothing(threads: int) -> None:
    """There is one unless the options say otherwise."""
    config = decode_config(decoder_options={"threads": threads})
    frames = decode_packets(demux_video(h264()), decode_config=config)
    assert (array_of(frames) == decoded_video(h264(), "rgb24", (48, 64, 3))).all()


@pytest.mark.needs("decoder libvpx-vp9")
def test_decoder_can_be_named() -> None:
    """Instead of the codec's default one."""
    path = clip("vp9.webm", *pictures(duration=0.4), "-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8")
    frames = decode_packets(demux_video(path), decode_config=decode_config(decoder="libvpx-vp9"))
    assert (array_of(frames) == decoded_video(path, "rgb24", (48, 64, 3))).all()


@pytest.fixture(scope="module")
def changing() -> bytes:
    """A raw stream whose pictures change in size, and then in format."""
    kinds = [("64x48", "yuv420p"), ("32x24", "yuv420p"), ("32x24", "yuv444p")]
    x264 = "-c:v", "libx264", "-bf", "0"
    parts = [clip("part.h264", *pictures(size=size, duration=0.2), *x264, "-pix_fmt", name) for size, name in kinds]
    return b"".join(part.read_bytes() for part in parts)


@pytest.mark.parametrize("last", ["", ",null"], ids=["direct", "graph"])
def test_change_of_size_or_format_in_the_stream_is_followed(changing: bytes, last: str) -> None:
    """What comes out is what the filter says, whatever goes in."""
    config = spdl.io.demux_config(format="h264")
    packets = demux_video(changing, demux_config=config)
    frames = decode_packets(packets.clone(), "scale=w=16:h=12:flags=bicubic,format=pix_fmts=rgb24" + last)
    assert array_of(frames).shape == (15, 12, 16, 3)
    native = decode_packets(packets, None)
    assert {(image.width, image.pix_fmt) for image in native} == {(64, "yuv420p"), (32, "yuv420p"), (32, "yuv444p")}
    with pytest.raises(spdl.io.ConvertError):
        spdl.io.convert_frames(native)
