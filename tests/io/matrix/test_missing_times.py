"""Containers that do not tell when pictures are displayed: every frame has its time all the same."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import spdl.io
from tests.io.matrix.decoding import array_of, assert_same
from tests.support.clip_matrix import SHORT, X264, X265
from tests.support.media import clip, decoded_video

CODECS = {
    "h264": (*X264, "-pix_fmt", "yuv420p"),
    "hevc": (*X265, "-x265-params", "log-level=none:pools=1:frame-threads=1:keyint=6:bframes=2", "-pix_fmt", "yuv420p"),
    "mpeg4": ("-c:v", "mpeg4", "-g", "6", "-bf", "2"),
    "mpeg2": ("-c:v", "mpeg2video", "-g", "6", "-bf", "2"),
    "mpeg1": ("-c:v", "mpeg1video", "-g", "6", "-bf", "2"),
}  # fmt: skip
# All that the ffmpeg tool can write where packets came without presentation times, or without some of them.
FILES = ("h264.avi", "mpeg4.avi", "mpeg2.avi", "mpeg1.avi", "h264.asf", "mpeg4.asf", "mpeg2.asf", "mpeg1.asf",
         "h264.h264", "hevc.hevc", "mpeg4.m4v", "mpeg2.m2v", "mpeg1.m1v", "mpeg2.vob", "mpeg1.mpg")  # fmt: skip
EACH_FILE = pytest.mark.parametrize("name", FILES)


def file_of(name: str) -> Path:
    """0.8 seconds with B-frames: 20 frames."""
    return clip(name, *SHORT, *CODECS[name.split(".")[0]])


@cache
def expected(name: str) -> np.ndarray:
    """What the ffmpeg tool decodes."""
    return decoded_video(file_of(name), "rgb24", (48, 64, 3))


def pictures_of(packets: spdl.io.AudioPackets | spdl.io.VideoPackets) -> spdl.io.VideoPackets:
    """As what they are."""
    assert isinstance(packets, spdl.io.VideoPackets)
    return packets


@EACH_FILE
def test_each_frame_has_its_time(name: str) -> None:
    """In display order, one every 1/25 s: the packets know before decoding, and the frames after it."""
    packets = spdl.io.demux_video(file_of(name))
    stamps = packets.get_timestamps()
    frames = spdl.io.decode_packets(packets)
    start = 0.54 if name in ("mpeg2.vob", "mpeg1.mpg") else 0  # what the multiplexer begins with
    assert stamps == pytest.approx([start + index / 25 for index in range(20)], abs=1e-3)
    assert frames.get_timestamps() == stamps
    assert_same(array_of(frames), expected(name))


@EACH_FILE
def test_windows_side_by_side_hold_each_frame_once(name: str) -> None:
    """Windows of 0.1 s, as decoding everything and selecting."""
    with spdl.io.Demuxer(file_of(name)) as demuxer:
        times = demuxer.demux_video().get_timestamps()
        edges = [times[0] + step / 10 for step in range(9)]
        position = 0
        for window in pairwise(edges):
            packets = demuxer.demux_video(window)
            # A bound means the nearest tick: what is less than one apart is the same time.
            count = sum(window[0] - 1e-9 <= time < window[1] - 1e-9 for time in times)
            assert len(packets) == count
            assert_same(array_of(spdl.io.decode_packets(packets)), expected(name)[position : position + count])
            position += count
    assert position == 20


@pytest.mark.parametrize("name", ["h264.avi", "mpeg4.avi", "h264.h264"])
def test_a_stream_read_in_parts_has_the_same_times(name: str) -> None:
    """And so have samples of it, and a copy in another container."""
    whole = spdl.io.demux_video(file_of(name))
    times = whole.get_timestamps()
    with spdl.io.Demuxer(file_of(name)) as demuxer:
        parts = [pictures_of(each).get_timestamps(raw=True) for each in demuxer.streaming_demux(0, num_packets=3)]
    assert [time for part in parts for time in part] == whole.get_timestamps(raw=True)
    images = spdl.io.sample_decode_video(whole, [1, 7, 19])
    assert [image.pts for image in images] == [times[index] for index in (1, 7, 19)]
    for index, image in zip((1, 7, 19), images, strict=True):
        assert_same(array_of(image), expected(name)[index])


def test_times_of_a_raw_stream_are_of_the_frame_rate_asked_for() -> None:
    """FFmpeg's 25 without one."""
    config = spdl.io.demux_config(format_options={"framerate": "50"})
    packets = spdl.io.demux_video(file_of("h264.h264"), timestamp=(0.1, 0.2), demux_config=config)
    assert packets.get_timestamps() == pytest.approx([0.1, 0.12, 0.14, 0.16, 0.18])
    assert_same(array_of(spdl.io.decode_packets(packets)), expected("h264.h264")[5:10])


def test_what_had_no_times_can_be_copied_where_they_are_needed(tmp_path: Path) -> None:
    """From AVI to MP4, with every frame."""
    packets = spdl.io.demux_video(file_of("mpeg4.avi"))
    muxer = spdl.io.Muxer(tmp_path / "copy.mp4")
    assert packets.codec is not None
    muxer.add_remux_stream(packets.codec)
    with muxer.open():
        muxer.write(0, packets)
    frames = spdl.io.decode_packets(spdl.io.demux_video(tmp_path / "copy.mp4"))
    assert frames.get_timestamps() == pytest.approx([index / 25 for index in range(20)])
    assert_same(array_of(frames), expected("mpeg4.avi"))
