"""Pictures by position equal those of decoding everything and picking."""

import functools
import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import spdl.io
from spdl.io import convert_frames, decode_config, decode_packets, demux_video, sample_decode_video, to_numpy
from tests.support.media import clip, decoded_video, h264, pictures, tones

SOURCE = pictures(duration=1.2)
X264 = "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p"
CLIPS: dict[str, tuple[str, ...]] = {
    "closed.mp4": (*X264, "-g", "8", "-bf", "2"),
    "pyramid.mp4": (*X264, "-g", "15", "-bf", "5", "-b_strategy", "0", "-x264-params", "b-pyramid=normal:scenecut=0"),
    "open.mp4": (*X264, "-x264-params", "open-gop=1:keyint=6:bframes=3:b-adapt=0"),
    "open.ts": (*X264, "-x264-params", "open-gop=1:keyint=6:bframes=3:b-adapt=0"),
    "refresh.mp4": (*X264, "-g", "10", "-x264-params", "intra-refresh=1"),
    "interlaced.ts": (*X264, "-g", "8", "-bf", "2", "-flags", "+ildct+ilme"),
    "one_group.mkv": (*X264, "-g", "300", "-bf", "2"),
    "no_times.h264": (*X264, "-g", "8", "-bf", "2"),
    "variable.mp4": ("-vf", "select='not(mod(n,3))+not(mod(n,5))'", "-fps_mode", "vfr", *X264, "-g", "6", "-bf", "2"),
    "hevc.mp4": ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params",
                 "log-level=none:pools=1:frame-threads=1:keyint=6:bframes=3:open-gop=1"),
    "mpeg2.mpg": ("-c:v", "mpeg2video", "-g", "6", "-bf", "2"),
    "mpeg4.avi": ("-c:v", "mpeg4", "-g", "6", "-bf", "2"),
    "mpeg4.mp4": ("-c:v", "mpeg4", "-g", "6", "-bf", "2"),
    "mpeg2.ts": ("-c:v", "mpeg2video", "-g", "6", "-bf", "2"),
    "vp8.webm": ("-c:v", "libvpx", "-cpu-used", "8", "-g", "8", "-auto-alt-ref", "1", "-lag-in-frames", "8"),
    "vp9.webm": ("-c:v", "libvpx-vp9", "-cpu-used", "8", "-g", "8", "-auto-alt-ref", "1", "-lag-in-frames", "8"),
    "mjpeg.mov": ("-c:v", "mjpeg"),
}  # fmt: skip


def path_of(name: str) -> Path:
    return clip(name, *SOURCE, *CLIPS[name])


@functools.cache
def expected(path: Path) -> NDArray[np.uint8]:
    """Every picture, by the ffmpeg tool."""
    return decoded_video(path, "rgb24", (48, 64, 3))


@functools.cache
def packets_of(path: Path) -> spdl.io.VideoPackets:
    """To be cloned."""
    return demux_video(path)


def sampled(packets: Any, indices: list[int], **options: Any) -> NDArray[Any]:
    return np.stack([to_numpy(convert_frames(each)) for each in sample_decode_video(packets, indices, **options)])


@pytest.mark.parametrize("name", CLIPS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_samples_are_those_of_the_whole(name: str, data: st.DataObject) -> None:
    """B-frames, open groups, variable rates, no time stamps: whichever pictures are wanted."""
    path = path_of(name)
    count = len(expected(path))
    indices = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=6)))
    assert (sampled(packets_of(path).clone(), indices) == expected(path)[indices]).all()


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 40), length=st.integers(1, 20), data=st.data())
def test_indices_count_inside_the_window(start: int, length: int, data: st.DataObject) -> None:
    """The first picture inside is number 0."""
    packets = demux_video(h264(), timestamp=(start / 25, (start + length) / 25))
    count = len(packets)
    assert count == min(length, 50 - start)
    index = data.draw(st.integers(0, count - 1))
    [image] = sample_decode_video(packets, [index])
    assert image.pts == pytest.approx((start + index) / 25)
    assert (to_numpy(convert_frames(image)) == expected(h264())[start + index]).all()


@pytest.mark.parametrize("start", [15, 18, 22, 25])
def test_samples_of_a_window_have_recovered(start: int) -> None:
    """Where pictures recover bit by bit instead of at key frames, decoding begins early enough."""
    packets = demux_video(path_of("refresh.mp4"), timestamp=(start / 25, (start + 3) / 25))
    whole = expected(path_of("refresh.mp4"))
    assert (sampled(packets, [0, 1, 2]) == whole[start : start + 3]).all()


def test_a_stream_cut_inside_a_group_has_the_pictures_that_come_out(tmp_path: Path) -> None:
    """Those before its first key frame cannot be decoded, and are neither counted nor displayed."""
    data = clip("long.ts", *pictures(duration=4), *X264, "-g", "25", "-bf", "2").read_bytes()
    path = tmp_path / "cut.ts"
    path.write_bytes(data[: 3 * 188] + data[len(data) // 188 // 3 * 188 :])
    whole = decoded_video(path, "rgb24", (48, 64, 3))
    packets = demux_video(path)
    times = decode_packets(packets.clone(), None).get_timestamps()
    assert 0 < len(whole) == len(times) < len(packets)
    chosen = [0, len(whole) // 2, len(whole) - 1]
    images = sample_decode_video(packets.clone(), times=[times[index] for index in chosen])
    assert (to_numpy(convert_frames(images)) == whole[chosen]).all()
    assert (sampled(packets.clone(), chosen) == whole[chosen]).all()
    with pytest.raises(IndexError, match=f"{len(whole)} pictures come out of the {len(packets)} packets"):
        sample_decode_video(packets, [len(whole)])
    with pytest.raises(ValueError, match="they have frames from"):
        sample_decode_video(packets, times=[times[0] - 0.1])


@pytest.mark.parametrize("rate", [30, 60])
def test_times_of_frames_hold_in_containers_of_milliseconds(rate: int) -> None:
    """Frame k is displayed at k / rate, and a window of ten frames has ten."""
    path = clip(f"{rate}.mkv", *pictures(rate=str(rate)), *X264, "-g", "12")
    times = [k / rate for k in range(2 * rate)]
    images = sample_decode_video(demux_video(path), times=times)
    assert (to_numpy(convert_frames(images)) == expected(path)).all()
    for k in range(0, 2 * rate - 10, 7):
        assert len(demux_video(path, timestamp=(k / rate, (k + 10) / rate))) == 10


def test_every_picture_at_once_is_the_whole() -> None:
    """As images, with their times."""
    images = sample_decode_video(demux_video(h264()), range(50))
    assert all(isinstance(image, spdl.io.ImageFrames) for image in images)
    assert np.allclose([image.pts for image in images], np.arange(50) / 25)
    assert {image.pix_fmt for image in images} == {"rgb24"}
    assert (np.stack([to_numpy(convert_frames(image)) for image in images]) == expected(h264())).all()


@pytest.mark.parametrize(
    "filter_desc", [None, "scale=20:16,hflip,format=gray", "scale=w=16:h=12:flags=area,format=rgb24"]
)
def test_filter_is_that_of_decoding(filter_desc: str | None) -> None:
    """Each wanted picture is filtered."""
    whole = to_numpy(convert_frames(decode_packets(demux_video(h264()), filter_desc)))
    assert (sampled(demux_video(h264()), [3, 17, 40], filter_desc=filter_desc) == whole[[3, 17, 40]]).all()


def test_filter_that_changes_the_number_of_pictures_is_an_error() -> None:
    """Which picture is which would be lost."""
    with pytest.raises(spdl.io.FilterError, match="gave 1 pictures for 3; it has to give one for each"):
        sample_decode_video(demux_video(h264()), [3, 17, 40], filter_desc="trim=end_frame=1")


def test_decoder_options_hold() -> None:
    """Threads change nothing."""
    config = decode_config(decoder_options={"threads": 2})
    indices = [3, 17, 40]
    assert (sampled(demux_video(h264()), indices, decode_config=config) == expected(h264())[indices]).all()


@pytest.mark.parametrize("indices", [[3, 3], [5, 3], [40, 3, 17, 3], [-1, -50, 0, 49], [49, 48, 47] * 3])
def test_indices_may_come_in_any_order(indices: list[int]) -> None:
    """Unsorted, several times, and negative: what selecting from all gives, each an object of its own."""
    pictures = sample_decode_video(demux_video(h264()), indices)
    assert len({id(picture) for picture in pictures}) == len(indices)
    assert (to_numpy(convert_frames(pictures)) == expected(h264())[indices]).all()


@pytest.mark.parametrize("chosen", [slice(3, 20, 4), slice(-3, None), slice(None, None, -10)], ids=str)
def test_a_slice_is_that_of_a_list(chosen: slice) -> None:
    """Counted from either end, and backwards."""
    pictures = sample_decode_video(demux_video(h264()), chosen)
    assert (to_numpy(convert_frames(pictures)) == expected(h264())[chosen]).all()


@pytest.mark.parametrize(
    ("times", "indices"),
    [
        ([0], [0]),
        ([1.0, 0.2, 1.0], [25, 5, 25]),
        ([0.039, 0.04, 0.041], [0, 1, 1]),
        (["1/2", Fraction(39, 25), 1.999], [12, 39, 49]),
        (np.array([1.0, 0.2], np.float32), [25, 5]),
    ],
)
def test_times_give_the_frames_that_are_displayed_then(times: Any, indices: list[int]) -> None:
    """A frame is displayed from its time stamp to that of the next one."""
    pictures = sample_decode_video(demux_video(h264()), times=times)
    assert (to_numpy(convert_frames(pictures)) == expected(h264())[indices]).all()


def test_times_count_inside_the_window() -> None:
    """Frames outside of it are not displayed."""
    pictures = sample_decode_video(demux_video(h264(), timestamp=(0.5, 1)), times=[0.7])
    assert (to_numpy(convert_frames(pictures)) == expected(h264())[[17]]).all()
    with pytest.raises(ValueError, match=r"no frame of the packets is displayed at 0.2 seconds; .* from 0.52 to 1"):
        sample_decode_video(demux_video(h264(), timestamp=(0.5, 1)), times=[0.2])


@pytest.mark.parametrize("times", [[2.0], [-0.01], [1, 1e300], [float("nan")], ["soon"], []])
def test_times_at_which_nothing_is_displayed_are_an_error(times: list[Any]) -> None:
    """Before the first frame, behind the last one, or no times; the packets are not consumed."""
    packets = demux_video(h264())
    with pytest.raises(ValueError, match="times"):
        sample_decode_video(packets, times=times)
    assert len(packets) == 50


def test_indices_and_times_exclude_each_other() -> None:
    """One of them must be given."""
    with pytest.raises(ValueError, match="exactly one of indices and times must be given, got both"):
        sample_decode_video(demux_video(h264()), [1], times=[1])
    with pytest.raises(ValueError, match="exactly one of indices and times must be given, got none"):
        sample_decode_video(demux_video(h264()))


def test_no_indices_are_an_error() -> None:
    """The packets are not consumed."""
    packets = demux_video(h264())
    with pytest.raises(ValueError, match="indices must have at least one"):
        sample_decode_video(packets, [])
    with pytest.raises(ValueError, match="indices must have at least one"):
        sample_decode_video(packets, slice(50, None))
    assert len(packets) == 50


@pytest.mark.parametrize("indices", [[50], [-51], [0, 50], [3, -60], [2**40]])
def test_indices_outside_are_an_error(indices: list[int]) -> None:
    """They count the pictures of the packets, from 0 on or from the end."""
    packets = demux_video(h264())
    with pytest.raises(IndexError, match=r"indices must be in \[-50, 50\), got"):
        sample_decode_video(packets, indices)
    assert len(packets) == 50


def test_indices_of_other_types_are_an_error() -> None:
    """Integers of NumPy's are fine."""
    packets = demux_video(h264())
    wrong: Any = [1.5]
    with pytest.raises(TypeError):
        sample_decode_video(packets, wrong)
    numbers: Any = np.array([1, 2])
    assert len(sample_decode_video(packets, numbers)) == 2


def test_packets_are_consumed() -> None:
    """As in decoding."""
    packets = demux_video(h264())
    sample_decode_video(packets, [1])
    with pytest.raises(spdl.io.ConsumedError):
        sample_decode_video(packets, [1])


def test_packets_of_another_kind_are_an_error() -> None:
    """Only video has pictures to pick from."""
    packets: Any = spdl.io.demux_audio(clip("tones.flac", *tones()))
    with pytest.raises(TypeError, match="packets must be VideoPackets, got AudioPackets"):
        sample_decode_video(packets, [0])


def test_packets_without_codec_are_an_error() -> None:
    """Those of streaming have none."""
    with spdl.io.Demuxer(h264()) as demuxer:
        packets: Any = next(iter(demuxer.streaming_demux(num_packets=5)))
    with pytest.raises(spdl.io.NoCodecError):
        sample_decode_video(packets, [0])


def test_only_the_groups_that_hold_the_pictures_are_decoded() -> None:
    """Damage elsewhere is not met."""
    data = bytearray(h264().read_bytes())
    packets = demux_video(bytes(data))
    start = data.index(b"mdat") + 4
    data[start + 700 : start + 900] = bytes(200)  # in the first of the key frames
    packets = demux_video(bytes(data))
    with pytest.raises(spdl.io.DecodeError):
        sample_decode_video(packets.clone(), [1])
    for indices in itertools.combinations(range(24, 50, 9), 2):
        assert (sampled(packets.clone(), list(indices)) == expected(h264())[list(indices)]).all()


def test_damage_is_counted_where_it_is_tolerated() -> None:
    """On each picture, what all of them met."""
    data = bytearray(h264().read_bytes())
    start = data.index(b"mdat") + 4
    data[start + 700 : start + 900] = bytes(200)
    config = decode_config(tolerate_errors=True)
    images = sample_decode_video(demux_video(bytes(data)), [1, 30], decode_config=config)
    assert {image.num_errors for image in images} == {images[0].num_errors}
    assert images[0].num_errors > 0


@pytest.mark.parametrize(
    ("encoder", "suffix"), [("libvpx", "webm"), ("libvpx-vp9", "webm"), ("ffv1", "mkv")], ids=["vp8", "vp9", "ffv1"]
)
def test_what_comes_before_the_first_key_frame_is_skipped(encoder: str, suffix: str) -> None:
    """A stream whose first packets were cut off is not damaged, and a frame that is damaged still is."""
    # 5.1 has no bit stream filter that only leaves out packets.
    drop = "noise=drop=lt(n\\,2):amount=0"
    path = clip(f"cut_{encoder}.{suffix}", *SOURCE, "-c:v", encoder, "-g", "8", "-cpu-used", "8", "-bsf:v", drop)
    pictures = expected(path)
    packets = packets_of(path)
    assert 0 < len(pictures) < len(packets)
    whole = to_numpy(convert_frames(decode_packets(packets.clone(), "format=pix_fmts=rgb24")))
    assert np.array_equal(whole, pictures)
    indices = [0, len(pictures) - 1]
    found = sampled(packets.clone(), indices, filter_desc="format=pix_fmts=rgb24")
    assert np.array_equal(found, pictures[indices])
