"""Windows and samples, frame for frame the same as decoding everything with the ffmpeg tool and selecting."""

import random
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

import spdl.io
from tests.io.matrix.decoding import array_of, assert_same, config_of, inside
from tests.support.clip_matrix import VIDEO_CLIPS, VideoClip, expected_pictures, known_times, video_clip

CLIPS = [each for each in VIDEO_CLIPS if "rgb24" in each.formats]
EACH_CLIP = pytest.mark.parametrize("clip", CLIPS, ids=str)
# ffprobe does not know the time of every frame of MPEG-1 program streams.
EACH_TIMED_CLIP = pytest.mark.parametrize("clip", [each for each in CLIPS if each.name != "mpeg1.mpg"], ids=str)
SEVERAL = ("h264.mp4", "h264.ts", "open_gop.mp4", "open_gop.mkv", "pyramid.mp4", "vp9_alt_ref.webm", "av1.mp4",
           "edit_list.mp4", "variable_rate.mkv", "hevc.mp4", "mpeg4.avi")  # fmt: skip


def windows_of(times: tuple[Fraction, ...], count: int, seed: int) -> list[tuple[Fraction, Fraction]]:
    """Windows whose edges are on frames, between them, and outside of all."""
    ordered = sorted(times)
    edges = [*ordered, *((a + b) / 2 for a, b in pairwise(ordered)), ordered[0] - 1, ordered[-1] + 1]
    rng = random.Random(seed)
    fixed = [
        (ordered[0], ordered[-1] + 1),
        (ordered[0], ordered[-1]),
        (ordered[-1], ordered[-1] + 1),
        (ordered[len(ordered) // 2], ordered[-1] + 5),
        (ordered[0] - 2, ordered[len(ordered) // 2]),
    ]
    chosen = [(rng.choice(edges), rng.choice(edges)) for _ in range(count)]
    return fixed + [(start, end) for start, end in chosen if start < end]


@EACH_TIMED_CLIP
def test_a_window_has_the_pictures_whose_time_is_inside(clip: VideoClip) -> None:
    """Whatever has to be decoded before its start; the packets say beforehand how many pictures there will be."""
    times, expected = known_times(clip.path), expected_pictures(clip, "rgb24")
    with spdl.io.Demuxer(clip.path) as demuxer:
        for window in windows_of(times, 8, seed=1):
            packets = demuxer.demux_video(window)
            chosen = inside(times, window)
            promised, stamps = len(packets), packets.get_timestamps()
            if not chosen:
                assert promised == 0, window
                continue
            frames = spdl.io.decode_packets(packets, decode_config=config_of(clip))
            assert len(frames) == len(chosen), window
            assert promised == len(chosen), window
            assert stamps == pytest.approx([float(times[i]) for i in chosen]), window
            assert frames.get_timestamps() == pytest.approx([float(times[i]) for i in chosen]), window
            assert_same(array_of(frames), expected[chosen])


@pytest.mark.parametrize("name", SEVERAL)
def test_each_frame_can_be_had_alone(name: str) -> None:
    """By a window that is as narrow as its time allows, in an order that always has to go back."""
    clip = video_clip(name)
    times, expected = known_times(clip.path), expected_pictures(clip, "rgb24")
    with spdl.io.Demuxer(clip.path) as demuxer:
        for index in reversed(range(len(times))):
            packets = demuxer.demux_video((times[index], times[index] + Fraction(1, 1_000_000)))
            assert_same(array_of(spdl.io.decode_packets(packets)), expected[index : index + 1])


@pytest.mark.parametrize("name", SEVERAL)
def test_windows_side_by_side_add_up_to_the_whole(name: str) -> None:
    """No frame is in two of them, none is in neither."""
    clip = video_clip(name)
    times = known_times(clip.path)
    edges = [times[0], *(times[0] + Fraction(step, 7) * (times[-1] - times[0]) for step in range(1, 7)), times[-1] + 1]
    parts = [spdl.io.to_numpy(spdl.io.load_video(clip.path, (a, b))) for a, b in pairwise(edges)]
    expected = expected_pictures(clip, "rgb24")
    position = 0
    for part in parts:
        assert_same(part, expected[position : position + len(part)])
        position += len(part)
    assert position == len(expected)


@EACH_CLIP
def test_samples_are_the_pictures_of_the_whole(clip: VideoClip) -> None:
    """Indices anywhere, also around key frames, also all of them."""
    expected = expected_pictures(clip, "rgb24")
    packets = spdl.io.demux_video(clip.path)
    rng = random.Random(2)
    count = len(expected)
    assert len(packets) == count
    cases = [[0], [count - 1], list(range(count)), *(sorted(rng.sample(range(count), min(count, 3))) for _ in range(5))]
    for indices in cases:
        images = spdl.io.sample_decode_video(packets.clone(), indices, decode_config=config_of(clip))
        assert len(images) == len(indices)
        for index, image in zip(indices, images, strict=True):
            assert_same(array_of(image), expected[index])


@pytest.mark.parametrize("name", SEVERAL)
def test_samples_of_a_window_count_from_its_start(name: str) -> None:
    """Index 0 is the first picture inside."""
    clip = video_clip(name)
    times, expected = known_times(clip.path), expected_pictures(clip, "rgb24")
    for window in windows_of(times, 6, seed=3):
        chosen = inside(times, window)
        if not chosen:
            continue
        indices = sorted({0, len(chosen) // 2, len(chosen) - 1})
        images = spdl.io.sample_decode_video(spdl.io.demux_video(clip.path, timestamp=window), indices)
        for index, image in zip(indices, images, strict=True):
            assert image.pts == pytest.approx(float(times[chosen[index]]))
            assert_same(array_of(image), expected[chosen[index]])


@pytest.mark.parametrize("name", SEVERAL)
def test_a_window_survives_pickling_and_streams_of_bytes(name: str) -> None:
    """Packets that crossed a process boundary decode to the same pictures."""
    import pickle

    clip = video_clip(name)
    times, expected = known_times(clip.path), expected_pictures(clip, "rgb24")
    window = (times[len(times) // 3], times[2 * len(times) // 3])
    packets: Any = spdl.io.demux_video(clip.path, timestamp=window)
    crossed = pickle.loads(pickle.dumps(packets))
    viewed = type(packets).deserialize_view(memoryview(packets.__getstate__()))
    chosen = inside(times, window)
    for each in (packets.clone(), crossed, viewed.clone(), viewed):
        assert len(each) == len(chosen)
        assert_same(array_of(spdl.io.decode_packets(each)), expected[chosen])
