"""What decoded frames say of themselves, and how they are taken apart."""

import copy
import gc
import math
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import spdl.io
from spdl.io import decode_packets, demux_audio, demux_image, demux_video, to_numpy
from tests.support.media import clip, decoded_video, h264, pictures, tones

COUNT = 50


def video(**options: Any) -> spdl.io.VideoFrames:
    return decode_packets(demux_video(h264(), **options))


def audio() -> spdl.io.AudioFrames:
    return decode_packets(demux_audio(clip("tones.flac", *tones(expression="sin(440*2*PI*t)|cos(300*2*PI*t)"))))


def image() -> spdl.io.ImageFrames:
    return decode_packets(demux_image(clip("picture.png", *pictures(), "-frames:v", "1")))


def array_of(frames: Any) -> NDArray[Any]:
    return to_numpy(spdl.io.convert_frames(frames))


@pytest.fixture(scope="module")
def expected() -> NDArray[np.uint8]:
    """Every picture, by the ffmpeg tool."""
    return decoded_video(h264(), "rgb24", (48, 64, 3))


def test_frames_describe_themselves() -> None:
    """In the words of the field."""
    frames = video()
    assert (frames.num_frames, len(frames), frames.num_planes) == (COUNT, COUNT, 1)
    assert (frames.width, frames.height, frames.pix_fmt, frames.num_errors) == (64, 48, "rgb24", 0)
    samples = audio()
    assert (samples.num_frames, len(samples), samples.num_errors) == (16000, 16000, 0)
    assert (samples.sample_rate, samples.num_channels, samples.sample_fmt) == (8000, 2, "fltp")
    picture = image()
    assert (picture.width, picture.height, picture.pix_fmt) == (64, 48, "rgb24")
    assert (picture.num_planes, picture.num_errors) == (1, 0)
    assert decode_packets(demux_video(h264()), None).num_planes == 3


def test_frames_tell_their_times() -> None:
    """In seconds, and in ticks of the time base."""
    frames = video(timestamp=(0.5, 1))
    num, den = frames.time_base
    assert np.allclose(frames.get_timestamps(), np.arange(13, 25) / 25)
    assert [ticks * num / den for ticks in frames.get_pts()] == frames.get_timestamps()
    assert [each.pts for each in frames] == frames.get_timestamps()


def test_repr_shows_what_is_there() -> None:
    """As the reference does."""
    assert repr(video()) == (
        'VideoFrames<num_frames=50, pixel_format="rgb24", num_planes=1, width=64, height=48, timestamp=[0.000, 1.960]>'
    )
    assert repr(video()[3]) == 'ImageFrames<pixel_format="rgb24", num_planes=1, width=64, height=48, timestamp=0.120>'
    text = 'AudioFrames<num_frames=16000, sample_format="fltp", sample_rate=8000, num_channels=2, timestamp=[0.000, '
    assert repr(audio()).startswith(text)


def test_frames_without_pictures_have_no_format() -> None:
    """They are empty, and can be asked all the same."""
    frames = video()[[]]
    assert (len(frames), list(frames), frames.get_timestamps(), frames.get_pts()) == (0, [], [], [])
    assert (frames.width, frames.height, frames.num_planes, frames.pix_fmt) == (0, 0, 0, "none")
    assert "num_frames=0" in repr(frames)
    assert len(frames.clone()) == len(frames[:]) == 0


@settings(max_examples=30, deadline=None)
@given(index=st.integers(-COUNT, COUNT - 1))
def test_one_picture_is_an_image(expected: NDArray[np.uint8], index: int) -> None:
    """Negative indices count from the end."""
    picture = video()[index]
    assert isinstance(picture, spdl.io.ImageFrames)
    assert picture.pts == pytest.approx(index % COUNT / 25)
    assert (array_of(picture) == expected[index]).all()


@settings(max_examples=30, deadline=None)
@given(key=st.slices(COUNT))
def test_slice_is_a_video(key: slice) -> None:
    """Of the pictures that the slice of a list has, of any step."""
    frames = video()
    part = frames[key]
    assert isinstance(part, spdl.io.VideoFrames)
    assert part.get_pts() == frames.get_pts()[key]


@settings(max_examples=30, deadline=None)
@given(key=st.lists(st.integers(-COUNT, COUNT - 1), max_size=8))
def test_list_of_indices_is_a_video(expected: NDArray[np.uint8], key: list[int]) -> None:
    """In any order, with repeats."""
    frames = video()
    part = frames[key]
    assert isinstance(part, spdl.io.VideoFrames)
    assert part.get_pts() == [frames.get_pts()[index] for index in key]
    if key:
        assert (array_of(part) == expected[key]).all()


def test_indices_may_be_what_numpy_gives() -> None:
    """Integers of any kind, tuples and arrays."""
    frames = video()
    three: Any = np.int64(3)
    assert frames[three].pts == frames[3].pts
    assert frames[np.array([4, -1])].get_pts() == frames[[4, -1]].get_pts()
    assert frames[(4, -1)].get_pts() == frames[[4, -1]].get_pts()


@pytest.mark.parametrize("key", [COUNT, -COUNT - 1, 2**70, [0, COUNT], [-COUNT - 1]])
def test_index_outside_is_an_error(key: Any) -> None:
    """As with lists."""
    with pytest.raises(IndexError):
        video()[key]


@pytest.mark.parametrize("key", [1.5, "1", None, [0, 1.5], {1}])
def test_index_of_another_type_is_an_error(key: Any) -> None:
    """The message says what is taken."""
    with pytest.raises(TypeError, match="int"):
        video()[key]


def test_step_of_zero_is_an_error() -> None:
    """As with lists."""
    with pytest.raises(ValueError, match="zero"):
        video()[::0]


def test_frames_are_iterable(expected: NDArray[np.uint8]) -> None:
    """Picture by picture; the frames remain."""
    frames = video()
    assert all((array_of(each) == picture).all() for each, picture in zip(frames, expected, strict=True))
    assert len(frames) == COUNT


def test_parts_and_clones_are_consumed_on_their_own(expected: NDArray[np.uint8]) -> None:
    """Whoever is consumed first."""
    frames = video()
    clone, part, picture = frames.clone(), frames[10:20], frames[5]
    assert (array_of(part) == expected[10:20]).all()
    assert (array_of(frames) == expected).all()
    assert (array_of(clone) == expected).all()
    second = picture.clone()
    assert (array_of(picture) == array_of(second)).all()
    samples = audio()
    copied = samples.clone()
    assert (array_of(samples) == array_of(copied)).all()


@pytest.mark.parametrize("make", [video, audio, image])
def test_consumed_frames_refuse_any_use(make: Any) -> None:
    """With an error that is a ``TypeError``, and without a warning beside it."""
    frames = make()
    spdl.io.convert_frames(frames)
    uses: list[Any] = [repr, lambda x: x.clone(), lambda x: x.num_errors, spdl.io.convert_frames]
    if make is not image:
        uses += [len, lambda x: x.num_frames]
    if make is video:
        uses += [lambda x: x[0], lambda x: x[:], lambda x: x[[0]], iter, lambda x: x.width, lambda x: x.get_pts()]
    for use in uses:
        with pytest.raises(spdl.io.ConsumedError, match=r"clone\(\)") as caught:
            use(frames)
        assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("make", [video, audio, image])
@pytest.mark.parametrize("copying", [pickle.dumps, copy.copy, copy.deepcopy])
def test_frames_do_not_pickle(make: Any, copying: Any) -> None:
    """The message says what does."""
    frames = make()
    with pytest.raises(TypeError, match="cannot pickle frames: pickle their packets, or the array"):
        copying(frames)
    assert frames.num_errors == 0


def test_metadata_is_what_the_file_says(tmp_path: Path) -> None:
    """Text of a PNG; none for pictures that have none."""
    path = tmp_path / "noted.png"
    notes = PngInfo()
    notes.add_text("Title", "Frühstück")
    Image.new("RGB", (4, 4)).save(path, pnginfo=notes)
    assert decode_packets(demux_image(path)).metadata["Title"] == "Frühstück"
    assert video()[0].metadata == {}


def test_time_of_a_picture_is_in_seconds_or_nan() -> None:
    """Those of a still are what FFmpeg makes up, if anything."""
    pts = image().pts
    assert isinstance(pts, float)
    assert pts == 0 or math.isnan(pts)


def test_frames_outlive_what_they_came_from(expected: NDArray[np.uint8]) -> None:
    """Packets, codec, decoder and demuxer may go, and the data that was in memory."""
    data = bytearray(h264().read_bytes())
    demuxer = spdl.io.Demuxer(data)
    packets = demuxer.demux_video()
    decoder = spdl.io.Decoder(demuxer.video_codec, filter_desc=None)
    iterator = decoder.streaming_decode_packets(packets)
    held = next(iterator)
    demuxer.close()
    del demuxer, packets, decoder, iterator
    gc.collect()
    data[:] = bytes(len(data))
    pictures_of = [video()[4], held[7]]
    del held
    gc.collect()
    assert (array_of(pictures_of[0]) == expected[4]).all()
    assert array_of(pictures_of[1]).shape == (1, 72, 64)


def test_two_threads_may_look_at_the_same_frames() -> None:
    """Slicing and cloning are reading."""
    frames = video()
    barrier = threading.Barrier(4)
    seen: list[int] = []

    def look() -> None:
        barrier.wait()
        for index in range(100):
            part = frames[index % 50 :].clone()
            seen.append(len(part) + index % 50)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [COUNT] * 400
