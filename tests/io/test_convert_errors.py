"""Frames that do not make an array, and what is left of them."""

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.io.raw import noise, picture_bytes, raw_audio, raw_video


def video(pix_fmt: str = "rgb24", width: int = 6, height: int = 4, count: int = 2, **options: Any) -> Any:
    """Frames of noise."""
    return raw_video(noise(count * picture_bytes(pix_fmt, width, height)), pix_fmt, width, height, **options)


def audio(num_samples: int = 16, num_channels: int = 2) -> Any:
    """Packed samples of noise."""
    return raw_audio(noise(num_samples * num_channels).reshape(-1, num_channels), "u8")


def reference_audio(dtype: type, sample_fmt: str) -> Any:
    """16 samples of 16 channels, in memory of the same shape whether planar or not."""
    return spdl.io.create_reference_audio_frame(np.zeros((16, 16), dtype), sample_fmt, 8000, 0)


@pytest.mark.parametrize("pix_fmt", ["pal8", "yuv440p", "yuyv422", "yuv420p9le", "monob", "rgb565le"])
def test_format_without_a_layout_is_an_error_that_lists_those_that_have_one(pix_fmt: str) -> None:
    """It is also a ``ValueError`` and a ``RuntimeError``, and names the source."""
    frames = video(filter_desc=f"format=pix_fmts={pix_fmt}")
    with pytest.raises(spdl.io.UnsupportedFormatError, match=f"'{pix_fmt}' has no array layout") as caught:
        spdl.io.convert_frames(frames)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.source is not None
    assert caught.value.source in str(caught.value)
    for name in ["rgb24", "rgba", "gray16", "yuvj444p", "nv12", "gbrp", "rgb48"]:
        assert name in str(caught.value)


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p", "nv12"])
def test_odd_width_of_halved_chroma_is_an_error_that_says_what_to_do(pix_fmt: str) -> None:
    """The remedy that it names works."""
    with pytest.raises(spdl.io.UnsupportedFormatError, match="even widths only, and the width is 7") as caught:
        spdl.io.convert_frames(video(pix_fmt, 7, 4))
    assert "'crop=w=trunc(iw/2)*2'" in str(caught.value)
    frames = video(pix_fmt, 7, 4, filter_desc="crop=w=trunc(iw/2)*2")
    assert spdl.io.convert_frames(frames).shape[-1] == 6


def test_empty_list_is_an_error() -> None:
    """A ``RuntimeError``."""
    with pytest.raises(spdl.io.ConvertError, match="empty"):
        spdl.io.convert_frames([])


def test_no_pictures_are_an_error() -> None:
    """There is no size that the array could have."""
    with pytest.raises(spdl.io.ConvertError, match="there are no pictures"):
        spdl.io.convert_frames(video()[[]])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (video, lambda: video(width=8)),
        (video, lambda: video(height=2)),
        (video, lambda: video(width=4, height=6)),
        (video, lambda: video("bgr24")),
        (lambda: video("yuv420p"), lambda: video("nv12")),
        (video, lambda: video(count=3)),
        (lambda: video()[0], lambda: video("bgr24")[0]),
        (audio, lambda: audio(17)),
        (audio, lambda: audio(16, 1)),
        (lambda: reference_audio(np.uint8, "u8"), lambda: reference_audio(np.uint8, "u8p")),
        (lambda: reference_audio(np.int32, "s32"), lambda: reference_audio(np.float32, "flt")),
    ],
    ids=[
        "width",
        "height",
        "turned",
        "format",
        "same shape",
        "count",
        "images",
        "samples",
        "channels",
        "planar",
        "type",
    ],
)
def test_frames_of_a_list_must_agree(one: Any, other: Any) -> None:
    """Else the error says which of them differs, and none is consumed."""
    batch = [one(), one(), other()]
    with pytest.raises(spdl.io.ConvertError, match="must agree") as caught:
        spdl.io.convert_frames(batch)
    assert "number 2" in str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    for frames in batch:
        spdl.io.convert_frames(frames)


@pytest.mark.parametrize("batch", [lambda: [video(), audio()], lambda: [video(), video()[0]]], ids=["audio", "image"])
def test_frames_of_different_classes_are_a_type_error(batch: Any) -> None:
    """Even if their arrays would fit together; none is consumed."""
    frames = batch()
    with pytest.raises(TypeError, match="must be of one type") as caught:
        spdl.io.convert_frames(frames)
    assert not isinstance(caught.value, spdl.io.ConsumedError)
    for each in frames:
        spdl.io.convert_frames(each)


@pytest.mark.parametrize("frames", [None, 3, "frames", np.zeros((2, 4, 6, 3), np.uint8), b"", {}])
def test_anything_else_is_a_type_error(frames: Any) -> None:
    """Arrays need no conversion."""
    with pytest.raises(TypeError, match="frames must be AudioFrames, VideoFrames or ImageFrames"):
        spdl.io.convert_frames(frames)
    with pytest.raises(TypeError, match="must be AudioFrames, VideoFrames or ImageFrames"):
        spdl.io.convert_frames([frames])


def test_conversion_consumes() -> None:
    """Frames, each of a list, and not their clones or slices."""
    frames = video()
    clone, part = frames.clone(), frames[:1]
    spdl.io.convert_frames(frames)
    with pytest.raises(spdl.io.ConsumedError):
        spdl.io.convert_frames(frames)
    batch = [clone, video()]
    spdl.io.convert_frames(batch)
    for each in batch:
        with pytest.raises(spdl.io.ConsumedError) as caught:
            spdl.io.convert_frames(each)
        assert isinstance(caught.value, TypeError)
    assert spdl.io.convert_frames(part).shape == (1, 4, 6, 3)


def test_consumed_frames_in_a_list_leave_the_others() -> None:
    """They are looked at before the first is converted."""
    gone, kept = video(), video()
    spdl.io.convert_frames(gone)
    with pytest.raises(spdl.io.ConsumedError):
        spdl.io.convert_frames([kept, gone])
    spdl.io.convert_frames(kept)


def test_frames_twice_in_a_list_are_an_error_that_says_what_to_do() -> None:
    """They can be consumed once only; they are not consumed now."""
    frames = video()
    with pytest.raises(spdl.io.ConsumedError, match=r"twice; use a clone\(\)"):
        spdl.io.convert_frames([frames, frames])
    assert spdl.io.convert_frames([frames, frames.clone()]).shape == (2, 2, 4, 6, 3)


@pytest.mark.parametrize("storage", [bytearray(143), b"0" * 144, np.zeros(288, np.uint8)[::2], "text"])
def test_storage_that_does_not_fit_leaves_the_frames(storage: Any) -> None:
    """It is looked at before they are consumed."""
    frames = video()
    with pytest.raises((spdl.io.ConvertError, TypeError), match="storage"):
        spdl.io.convert_frames(frames, storage=storage)
    spdl.io.convert_frames(frames, storage=bytearray(144))


def test_pictures_that_differ_among_themselves_are_an_error() -> None:
    """As of a stream whose size changes, decoded without a filter."""
    mixed = b"".join(b"P6 %d 2 255\n" % width + bytes(width * 2 * 3) for width in (2, 2, 3))
    config = spdl.io.demux_config("ppm_pipe")
    frames = spdl.io.decode_packets(spdl.io.demux_video(mixed, demux_config=config), None)
    with pytest.raises(spdl.io.ConvertError, match="the first is rgb24 of 2x2, number 2 is rgb24 of 3x2"):
        spdl.io.convert_frames(frames)


def test_array_outlives_the_frames_and_the_buffer() -> None:
    """It keeps the buffer, which does not keep the frames."""
    frames = video()
    alive = weakref.ref(frames)
    expected = noise(144)
    array = spdl.io.to_numpy(spdl.io.convert_frames(frames))
    del frames
    gc.collect()
    assert alive() is None
    assert (array.reshape(-1) == expected).all()


def test_two_threads_that_want_the_same_frames() -> None:
    """One gets them, the other an error."""
    for _ in range(20):
        frames = video(count=8)
        start = threading.Barrier(2)
        outcomes: list[Any] = []

        def convert(frames: Any = frames, start: threading.Barrier = start, outcomes: list[Any] = outcomes) -> None:
            start.wait()
            try:
                outcomes.append(spdl.io.convert_frames(frames).shape)
            except spdl.io.MediaError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=convert) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count((8, 4, 6, 3)) == 1
        assert sum(isinstance(outcome, spdl.io.MediaError) for outcome in outcomes) == 1
