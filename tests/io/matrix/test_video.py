"""Every picture of every clip is the one that the ffmpeg tool decodes, and has the time that ffprobe tells."""

import numpy as np
import pytest

import spdl.io
from tests.io.matrix.decoding import array_of, assert_same, config_of, filter_to
from tests.support.clip_matrix import VIDEO_CLIPS, VideoClip, expected_pictures, expected_times, video_clip

EACH_CLIP = pytest.mark.parametrize("clip", VIDEO_CLIPS, ids=str)
EACH_FORMAT = pytest.mark.parametrize(
    ("clip", "pix_fmt"),
    [pytest.param(clip, each, id=f"{clip}-{each}") for clip in VIDEO_CLIPS for each in clip.formats],
)


@EACH_FORMAT
def test_every_picture_is_that_of_the_ffmpeg_tool(clip: VideoClip, pix_fmt: str) -> None:
    """In the decoder's own format and after conversion, to the last bit."""
    packets = spdl.io.demux_video(clip.path)
    frames = spdl.io.decode_packets(packets, filter_desc=filter_to(clip, pix_fmt), decode_config=config_of(clip))
    assert (frames.pix_fmt, frames.width, frames.height) == (pix_fmt, *clip.size)
    assert_same(array_of(frames), expected_pictures(clip, pix_fmt))


@EACH_CLIP
def test_every_picture_has_the_time_that_ffprobe_tells(clip: VideoClip) -> None:
    """Wherever ffprobe knows one."""
    frames = spdl.io.decode_packets(spdl.io.demux_video(clip.path), decode_config=config_of(clip))
    times = expected_times(clip.path)
    assert len(frames) == len(times)
    given = frames.get_timestamps()
    for index, time in enumerate(times):
        if time is not None:
            assert given[index] == pytest.approx(float(time), abs=1e-9), index


@pytest.mark.parametrize("clip", [each for each in VIDEO_CLIPS if "rgb24" in each.formats], ids=str)
def test_loading_in_one_step_gives_the_same_pictures(clip: VideoClip) -> None:
    """From a path and from memory."""
    expected = expected_pictures(clip, "rgb24")
    config = config_of(clip)
    assert_same(spdl.io.to_numpy(spdl.io.load_video(clip.path, decode_config=config)), expected)
    data = clip.path.read_bytes()
    assert_same(spdl.io.to_numpy(spdl.io.load_video(data, decode_config=config)), expected)


@pytest.mark.parametrize("clip", [each for each in VIDEO_CLIPS if "rgb24" in each.formats], ids=str)
def test_decoding_with_several_threads_gives_the_same_pictures(clip: VideoClip) -> None:
    """However the decoder spreads them over threads."""
    config = spdl.io.decode_config(decoder=clip.decoder, decoder_options={"threads": "3"})
    array = spdl.io.to_numpy(spdl.io.load_video(clip.path, decode_config=config))
    assert_same(array, expected_pictures(clip, "rgb24"))


@pytest.mark.parametrize("name", ["h264.mp4", "open_gop.mkv", "vp9_alt_ref.webm", "mjpeg.avi", "edit_list.mp4"])
def test_the_first_pictures_alone_are_the_same(name: str) -> None:
    """``num_frames`` stops early and changes nothing else."""
    clip = video_clip(name)
    expected = expected_pictures(clip, "rgb24")
    for count in (1, 2, 7, len(expected), len(expected) + 5):
        frames = spdl.io.decode_packets(spdl.io.demux_video(clip.path), num_frames=count)
        assert_same(array_of(frames), expected[:count])


@pytest.mark.parametrize("name", ["h264.mp4", "hevc.mp4"])
def test_annex_b_packets_decode_to_the_same_pictures(name: str) -> None:
    """After the bit stream filter that decoders outside FFmpeg need."""
    clip = video_clip(name)
    packets = spdl.io.demux_video(clip.path, bsf=f"{name[:4]}_mp4toannexb")
    assert_same(array_of(spdl.io.decode_packets(packets)), expected_pictures(clip, "rgb24"))


@EACH_CLIP
def test_the_number_of_packets_counts_the_pictures(clip: VideoClip) -> None:
    """For clips with one picture in each packet and none that an edit list hides."""
    packets = spdl.io.demux_video(clip.path)
    if clip.then is None and clip.name not in ("theora.ogv", "vp9_alt_ref.webm"):
        assert len(packets) == len(expected_times(clip.path))
    assert (packets.width, packets.height) == clip.size


def test_slices_and_lists_of_frames_are_those_of_the_whole() -> None:
    """Every way to select, against selecting from the ffmpeg tool's pictures."""
    clip = video_clip("pyramid.mp4")
    expected = expected_pictures(clip, "rgb24")
    frames = spdl.io.decode_packets(spdl.io.demux_video(clip.path))
    times = frames.get_timestamps()
    for key in (slice(3, 9), slice(None, None, 4), slice(None, None, -1), slice(15, 2, -3)):
        picked = frames[key]
        assert picked.get_timestamps() == times[key]
        assert_same(array_of(picked), expected[key])
    chosen = [5, 0, 0, -1, 7]
    assert_same(array_of(frames[chosen]), expected[chosen])
    for index in (0, 7, -1):
        assert_same(array_of(frames[index]), expected[index])
        assert frames[index].pts == pytest.approx(times[index])
    assert_same(np.stack([array_of(each) for each in frames]), expected)
