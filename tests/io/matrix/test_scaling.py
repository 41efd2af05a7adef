"""Pictures that are made smaller are, to the last bit, those that the ffmpeg tool makes smaller by the same filter."""

import numpy as np
import pytest

import spdl.io
from tests.io.matrix.decoding import array_of, assert_same
from tests.support.clip_matrix import video_clip
from tests.support.media import decoded_video

CLIPS = ("h264.mp4", "h264_full_range.mp4", "h264_bt709.mp4", "h264_422.mp4", "vp9_444.webm", "odd_mjpeg.mkv",
         "odd_vp9.webm", "h264_10bit.mp4", "prores_4444.mov")  # fmt: skip


@pytest.mark.parametrize("algorithm", ["bicubic", "bilinear", "area", "lanczos"])
@pytest.mark.parametrize("size", [(32, 24), (30, 17), (50, 11), (33, 36)], ids=str)
def test_every_scaler_gives_the_pictures_of_the_ffmpeg_tool(size: tuple[int, int], algorithm: str) -> None:
    """In one step and by way of frames; with more pictures than a short way takes to be tried."""
    width, height = size
    path = video_clip("h264.mp4").path
    expected = decoded_video(path, "rgb24", (height, width, 3), "-vf", f"scale={width}:{height}:flags={algorithm}")
    description = spdl.io.get_video_filter_desc(
        scale_width=width, scale_height=height, scale_algo=algorithm, scale_mode=None
    )
    assert_same(spdl.io.to_numpy(spdl.io.load_video(path, filter_desc=description)), expected)
    frames = spdl.io.decode_packets(spdl.io.demux_video(path), filter_desc=description)
    assert_same(array_of(frames), expected)


@pytest.mark.parametrize("name", CLIPS)
def test_every_format_is_scaled_as_the_ffmpeg_tool_does(name: str) -> None:
    """Chroma of every kind, both ranges, matrices, odd sizes and more than eight bits."""
    path = video_clip(name).path
    expected = decoded_video(path, "rgb24", (22, 34, 3), "-vf", "scale=34:22:flags=bicubic")
    description = spdl.io.get_video_filter_desc(scale_width=34, scale_height=22, scale_mode=None)
    assert_same(spdl.io.to_numpy(spdl.io.load_video(path, filter_desc=description)), expected)


def test_batches_of_a_stream_are_scaled_alike() -> None:
    """One picture at a time gives what all at once give."""
    path = video_clip("h264.mp4").path
    description = spdl.io.get_video_filter_desc(scale_width=32, scale_height=24, scale_mode=None)
    whole = spdl.io.to_numpy(spdl.io.load_video(path, filter_desc=description))
    with spdl.io.Demuxer(path) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec, filter_desc=description)
        decoder.set_buffer_size(1)
        parts = [array_of(frames) for frames in decoder.streaming_decode_packets(demuxer.demux_video())]
        parts += [array_of(frames) for frames in decoder.flush()]
    assert_same(np.concatenate(parts), whole)
