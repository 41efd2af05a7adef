"""Demuxing and decoding by and by, however it is cut, gives what the ffmpeg tool gives at once."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.io.matrix.decoding import array_of, assert_same, config_of
from tests.support.clip_matrix import (
    AUDIO_CLIPS,
    VIDEO_CLIPS,
    AudioClip,
    VideoClip,
    audio_clip,
    expected_pictures,
    expected_times,
    video_clip,
)
from tests.support.media import decoded_audio

VIDEO = [each for each in VIDEO_CLIPS if "rgb24" in each.formats]
CHUNKS = ({"num_packets": 1}, {"num_packets": 3}, {"num_packets": 1000}, {"duration": 0.1}, {"duration": 5})
#: Clips that differ in what the cut may do: B-frames, open groups of pictures, hidden frames, slices, alpha, sound.
IN_EVERY_CHUNK = ("h264.mp4", "h264.ts", "open_gop.mp4", "pyramid.mp4", "vp9_alt_ref.webm", "av1.mp4", "hevc.mp4",
                  "mpeg1.mpg", "slices.mp4", "vp9_alpha_libvpx.webm", "with_sound.mkv", "aac.mp4", "mp3.mp3",
                  "opus.ogg", "vorbis.ogg", "flac.flac")  # fmt: skip


def in_chunks(clips: Sequence[Any], chunks: Sequence[Any]) -> list[Any]:
    """Every chunking of some clips; of the others each in turn, and all of them in a soak."""
    return [
        pytest.param(clip, each, marks=pytest.mark.soak(only=not (clip.name in IN_EVERY_CHUNK or index == turn)))
        for number, clip in enumerate(clips)
        for turn in [number % len(chunks)]
        for index, each in enumerate(chunks)
    ]


VIDEO_IN_CHUNKS = in_chunks(VIDEO, CHUNKS)
AUDIO_IN_CHUNKS = in_chunks(AUDIO_CLIPS, [CHUNKS[1], CHUNKS[3]])


def streamed(decoder: Any, chunks: Any) -> Iterator[Any]:
    """Arrays of what comes out, to the end."""
    for packets in chunks:
        for frames in decoder.streaming_decode_packets(packets):
            yield array_of(frames)
    for frames in decoder.flush():
        yield array_of(frames)
    assert list(decoder.flush()) == []


@pytest.mark.parametrize(("clip", "chunks"), VIDEO_IN_CHUNKS, ids=str)
def test_streamed_pictures_are_those_of_the_ffmpeg_tool(clip: VideoClip, chunks: Any) -> None:
    """Packets from ``streaming_demux`` in any number, through one decoder."""
    with spdl.io.Demuxer(clip.path) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec, decode_config=config_of(clip))
        parts = list(streamed(decoder, demuxer.streaming_demux(demuxer.video_stream_index, **chunks)))
    assert_same(np.concatenate(parts), expected_pictures(clip, "rgb24"))


@pytest.mark.parametrize(("clip", "chunks"), AUDIO_IN_CHUNKS, ids=str)
def test_streamed_samples_are_those_of_the_ffmpeg_tool(clip: AudioClip, chunks: Any) -> None:
    """The same for audio."""
    with spdl.io.Demuxer(clip.path) as demuxer:
        decoder = spdl.io.Decoder(demuxer.audio_codec)
        parts = list(streamed(decoder, demuxer.streaming_demux(demuxer.audio_stream_index, **chunks)))
    assert_same(np.concatenate(parts, axis=1), decoded_audio(clip.path, clip.num_channels).T)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
@pytest.mark.parametrize("name", ["h264.mp4", "open_gop.mp4", "pyramid.mp4", "vp9_alt_ref.webm", "av1.mp4"])
def test_the_size_of_batches_changes_nothing_else(name: str, size: int) -> None:
    """``set_buffer_size`` cuts the same pictures into batches of that size."""
    clip = video_clip(name)
    with spdl.io.Demuxer(clip.path) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec)
        decoder.set_buffer_size(size)
        parts = list(streamed(decoder, demuxer.streaming_demux(demuxer.video_stream_index, num_packets=5)))
    assert all(len(part) <= size for part in parts)
    assert_same(np.concatenate(parts), expected_pictures(clip, "rgb24"))


@pytest.mark.parametrize("name", ["h264.mp4", "variable_rate.mkv", "h264.ts"])
def test_streamed_pictures_keep_their_times(name: str) -> None:
    """As decoded at once."""
    clip = video_clip(name)
    given: list[float] = []
    with spdl.io.Demuxer(clip.path) as demuxer:
        decoder: Any = spdl.io.Decoder(demuxer.video_codec)
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=4):
            for frames in decoder.streaming_decode_packets(packets):
                given += frames.get_timestamps()
        for frames in decoder.flush():
            given += frames.get_timestamps()
    assert given == pytest.approx([float(time or 0) for time in expected_times(clip.path)])


@pytest.mark.parametrize("name", ["with_sound.mp4", "with_sound.mkv", "with_sound.ts"])
def test_two_streams_at_once_are_those_of_the_ffmpeg_tool(name: str) -> None:
    """Pictures and samples of one pass over the file."""
    clip = video_clip(name)
    with spdl.io.Demuxer(clip.path) as demuxer:
        video, audio = demuxer.video_stream_index, demuxer.audio_stream_index
        decoders: dict[int, Any] = {
            video: spdl.io.Decoder(demuxer.video_codec),
            audio: spdl.io.Decoder(demuxer.audio_codec),
        }
        parts: dict[int, list[Any]] = {video: [], audio: []}
        for both in demuxer.streaming_demux([video, audio], num_packets=4):
            for index, packets in both.items():
                parts[index] += [array_of(frames) for frames in decoders[index].streaming_decode_packets(packets)]
        for index, decoder in decoders.items():
            parts[index] += [array_of(frames) for frames in decoder.flush()]
    assert_same(np.concatenate(parts[video]), expected_pictures(clip, "rgb24"))
    assert_same(np.concatenate(parts[audio], axis=1), decoded_audio(clip.path, 1).T)


def test_a_demuxer_gives_the_same_again_and_again() -> None:
    """Streams, windows and the whole, in any order, on one object."""
    clip, sound = video_clip("with_sound.mp4"), audio_clip("aac.mp4")
    expected = expected_pictures(clip, "rgb24")
    with spdl.io.Demuxer(clip.path) as demuxer:
        for _ in range(2):
            assert_same(array_of(spdl.io.decode_packets(demuxer.demux_video())), expected)
            first = array_of(spdl.io.decode_packets(demuxer.demux_audio()))
            assert_same(array_of(spdl.io.decode_packets(demuxer.demux_video((0.2, 0.5)))), expected[5:13])
            assert_same(array_of(spdl.io.decode_packets(demuxer.demux_audio())), first)
    assert_same(spdl.io.to_numpy(spdl.io.load_audio(sound.path)), decoded_audio(sound.path, 2).T)
