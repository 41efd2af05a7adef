"""Arrays as frames: what they look like to filters and converters, and how long their memory lives."""

import gc
import importlib.util
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io

RATE = (25, 1)
PICTURES = {
    "rgb24": ((3, 5, 7, 3), np.uint8),
    "bgr24": ((3, 5, 7, 3), np.uint8),
    "gray": ((3, 5, 7), np.uint8),
    "gray8": ((3, 5, 7), np.uint8),
    "gray16": ((3, 5, 7), np.uint16),
    "gray16le": ((3, 5, 7), np.uint16),
    "yuv444p": ((3, 3, 5, 7), np.uint8),
}
SAMPLES = {"u8": np.uint8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "flt": np.float32, "dbl": np.float64}


def noise(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of numbers."""
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


def video_of(array: Any, pix_fmt: str = "rgb24", frame_rate: tuple[int, int] = RATE, pts: int = 0) -> Any:
    """The function under test."""
    return spdl.io.create_reference_video_frame(array, pix_fmt, frame_rate, pts)


def audio_of(array: Any, sample_fmt: str = "s16", sample_rate: int = 8000, pts: int = 0) -> Any:
    """The function under test."""
    return spdl.io.create_reference_audio_frame(array, sample_fmt, sample_rate, pts)


def convert(frames: Any) -> Any:
    """As an array of NumPy's."""
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


@pytest.mark.parametrize("pix_fmt", PICTURES)
def test_pictures_are_those_of_the_array(pix_fmt: str) -> None:
    """With its size, its values, and one time stamp after the other."""
    shape, dtype = PICTURES[pix_fmt]
    array = noise(shape, dtype)
    frames = video_of(array, pix_fmt, (30000, 1001), 100)
    assert (len(frames), frames.width, frames.height) == (3, 7, 5)
    assert frames.pix_fmt == {"gray8": "gray", "gray16": f"gray16{sys.byteorder[0]}e"}.get(pix_fmt, pix_fmt)
    assert frames.get_pts() == [100, 101, 102]
    assert frames.get_timestamps() == pytest.approx([pts * 1001 / 30000 for pts in (100, 101, 102)])
    assert (convert(frames).reshape(-1) == array.reshape(-1)).all()


@pytest.mark.parametrize("sample_fmt", SAMPLES)
@pytest.mark.parametrize("num_channels", [1, 2, 6, 8, 9, 30])
def test_samples_are_those_of_the_array(sample_fmt: str, num_channels: int) -> None:
    """Packed and planar; more channels than a frame has room for too."""
    array = noise((50, num_channels), SAMPLES[sample_fmt])
    for each, fmt in ((array, sample_fmt), (np.ascontiguousarray(array.T), f"{sample_fmt}p")):
        frames = audio_of(each, fmt, 16000, 7)
        assert (len(frames), frames.num_channels) == (50, num_channels)
        assert (frames.sample_rate, frames.sample_fmt) == (16000, fmt)
        result = convert(frames)
        assert result.dtype == each.dtype
        assert (result == each).all()


def test_filter_sees_the_pictures_and_does_not_write_to_them() -> None:
    """A filter that draws in place gets a copy."""
    array = np.zeros((2, 16, 16, 3), np.uint8)
    graph = spdl.io.FilterGraph(
        "buffer=video_size=16x16:pix_fmt=rgb24:time_base=1/25:pixel_aspect=1/1,"
        "drawbox=w=8:h=8:color=white:t=fill,buffersink"
    )
    graph.add_frames(video_of(array))
    graph.flush()
    frames = graph.get_frames()
    assert frames is not None
    drawn = convert(frames)
    assert (drawn[:, :8, :8] == 255).all()
    assert (drawn[:, 8:] == 0).all()
    assert (array == 0).all()


def test_filter_sees_the_samples() -> None:
    """As what the sample format says."""
    array = np.arange(40, dtype=np.int16).reshape(20, 2)
    graph = spdl.io.FilterGraph(
        "abuffer=time_base=1/8000:sample_rate=8000:sample_fmt=s16:channel_layout=stereo,"
        "channelmap=map=1|0:channel_layout=stereo,aformat=sample_fmts=s16p,abuffersink"
    )
    graph.add_frames(audio_of(array))
    graph.flush()
    frames = graph.get_frames()
    assert frames is not None
    assert (convert(frames) == array.T[::-1]).all()


@pytest.mark.parametrize("read_only", [False, True])
def test_frames_share_the_memory_of_the_array(read_only: bool) -> None:
    """They hold it, and nothing else does, until the last of them is gone."""
    array = noise((3, 5, 7, 3), np.uint8)
    expected = array.copy()
    array.flags.writeable = not read_only
    alive = weakref.ref(array)
    frames = video_of(array)
    image, clone = frames[1], frames.clone()
    del array
    gc.collect()
    assert alive() is not None
    assert (convert(frames) == expected).all()
    del frames
    gc.collect()
    assert alive() is not None
    assert (convert(image) == expected[1]).all()
    assert alive() is not None
    del clone
    gc.collect()
    assert alive() is None


def test_bytearray_that_frames_hold_cannot_be_resized() -> None:
    """Whatever array is around it."""
    memory = bytearray(2 * 4 * 4)
    frames = video_of(memoryview(memory).cast("B", (2, 4, 4)), "gray")
    with pytest.raises(BufferError):
        memory.append(0)
    del frames
    memory.append(0)


def test_buffer_of_ours_can_be_made_frames_again() -> None:
    """Without a copy; its memory may even be the storage of the result."""
    array = noise((2, 4, 6, 3), np.uint8)
    buffer = spdl.io.convert_frames(video_of(array))
    again = spdl.io.convert_frames(video_of(buffer), storage=buffer)
    assert again.__array_interface__["data"] == buffer.__array_interface__["data"]
    assert (spdl.io.to_numpy(again) == array).all()


def test_memory_that_ends_with_a_page_is_safe_to_read_beyond() -> None:
    """FFmpeg may read some bytes after the last row: where nothing may be mapped there, the last picture is a copy."""
    block = np.zeros(3 * 4096, np.uint8)
    start = -block.ctypes.data % 4096
    for end in range(start + 4096 - 70, start + 4096 + 3):
        array = block[end - 120 : end].reshape(2, 4, 5, 3)
        array[:] = np.arange(120).reshape(2, 4, 5, 3)
        assert (convert(video_of(array)) == array).all()
        planar = array.reshape(-1).view(np.int16 if (block.ctypes.data + end) % 2 == 0 else np.uint8).reshape(4, -1)
        assert (convert(audio_of(planar, "s16p" if planar.dtype == np.int16 else "u8p")) == planar).all()


def test_last_frames_let_go_of_the_array_on_another_thread() -> None:
    """Python's reference is dropped there."""
    array = noise((1, 4, 4, 3), np.uint8)
    alive = weakref.ref(array)
    held = [video_of(array)]
    del array
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert alive() is None


def test_exit_with_live_frames_is_quiet() -> None:
    """The interpreter takes them down in any order."""
    code = (
        "import numpy as np, spdl.io\n"
        "frames = spdl.io.create_reference_video_frame(np.zeros((1, 4, 4, 3), np.uint8), 'rgb24', (25, 1), 0)\n"
        "buffer = spdl.io.convert_frames(frames[0:1])\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


BAD_PICTURES = {
    "no pictures": (np.zeros((0, 4, 4, 3), np.uint8), "rgb24", "every size"),
    "no rows": (np.zeros((1, 0, 4, 3), np.uint8), "rgb24", "every size"),
    "three dimensions": (np.zeros((4, 4, 3), np.uint8), "rgb24", r"is \(N, H, W, 3\), got \(4, 4, 3\)"),
    "four channels": (np.zeros((1, 4, 4, 4), np.uint8), "rgb24", r"is \(N, H, W, 3\), got \(1, 4, 4, 4\)"),
    "channels last": (np.zeros((1, 4, 4, 3), np.uint8), "yuv444p", r"is \(N, 3, H, W\)"),
    "channels first": (np.zeros((1, 3, 4, 4), np.uint8), "bgr24", r"is \(N, H, W, 3\)"),
    "channel of gray": (np.zeros((1, 4, 4, 1), np.uint8), "gray", r"is \(N, H, W\)"),
    "no dimensions": (np.zeros((), np.uint8), "gray", r"is \(N, H, W\), got \(\)"),
    "16 bits": (np.zeros((1, 4, 4, 3), np.uint16), "rgb24", "8 bits, and the array has uint16"),
    "8 bits": (np.zeros((1, 4, 4), np.uint8), "gray16", "16 bits, and the array has uint8"),
    "floats": (np.zeros((1, 4, 4), np.float16), "gray16", "integer elements of 16 bits, and the array has float16"),
    "booleans": (np.zeros((1, 4, 4), bool), "gray", "must be numbers, got bool"),
    "other byte order": (np.zeros((1, 4, 4), ">u2"), "gray16le", "byte order"),
    "transposed": (np.zeros((4, 4, 1), np.uint8).T, "gray", "C-contiguous"),
    "every other": (np.zeros((2, 4, 4), np.uint8)[::2, :, ::2], "gray", "C-contiguous"),
}


@pytest.mark.parametrize("case", BAD_PICTURES)
def test_array_that_does_not_fit_the_pixel_format_is_an_error(case: str) -> None:
    """A ``RuntimeError`` that says what is wrong."""
    array, pix_fmt, message = BAD_PICTURES[case]
    with pytest.raises(spdl.io.ConvertError, match=message) as caught:
        video_of(array, pix_fmt)
    assert isinstance(caught.value, RuntimeError)


def test_array_that_does_not_fit_is_not_kept() -> None:
    """Once the error is gone, so is the array."""
    array = noise((1, 4, 4, 2), np.uint8)
    alive = weakref.ref(array)
    with pytest.raises(spdl.io.ConvertError):
        video_of(array)
    del array
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "pal8", "no such format", ""])
def test_other_pixel_formats_are_an_error_that_lists_those_there_are(pix_fmt: str) -> None:
    """Known to FFmpeg or not."""
    with pytest.raises(spdl.io.UnsupportedFormatError, match=f"rgb24, bgr24, gray.*got '{pix_fmt}'"):
        video_of(np.zeros((1, 4, 4, 3), np.uint8), pix_fmt)


BAD_SAMPLES = {
    "no samples": (np.zeros((0, 2), np.int16), "s16", "every size"),
    "no channels": (np.zeros((2, 0), np.int16), "s16", "every size"),
    "three dimensions": (np.zeros((1, 2, 3), np.int16), "s16", r"\(samples, channels\), got \(1, 2, 3\)"),
    "32 bits": (np.zeros((4, 2), np.int32), "s16", "16 bits, and the array has int32"),
    "integers": (np.zeros((4, 2), np.int32), "flt", "floating point elements of 32 bits, and the array has int32"),
    "floats": (np.zeros((4, 2), np.float64), "s64p", "integer elements of 64 bits, and the array has float64"),
    "other byte order": (np.zeros((4, 2), ">i2"), "s16", "byte order"),
    "transposed": (np.zeros((4, 2), np.int16).T, "s16p", "C-contiguous"),
    "unknown format": (np.zeros((4, 2), np.int16), "s24", "sample_fmt must be one of"),
}


@pytest.mark.parametrize("case", BAD_SAMPLES)
def test_array_that_does_not_fit_the_sample_format_is_an_error(case: str) -> None:
    """A ``RuntimeError`` that says what is wrong."""
    array, sample_fmt, message = BAD_SAMPLES[case]
    with pytest.raises(spdl.io.ConvertError, match=message) as caught:
        audio_of(array, sample_fmt)
    assert isinstance(caught.value, RuntimeError)


def test_one_dimension_of_samples_is_a_type_error() -> None:
    """Which of the two is missing, nobody can know."""
    with pytest.raises(TypeError, match=r"array\[None\]"):
        audio_of(np.zeros(4, np.int16))


@pytest.mark.parametrize("array", [None, 3, "abc", [[[[1, 2, 3]]]], object()])
def test_what_is_no_array_is_a_type_error(array: Any) -> None:
    """Lists too: frames show memory, and a list has none to show."""
    with pytest.raises(TypeError, match="must be a NumPy array, a CPU tensor or another buffer"):
        video_of(array)
    with pytest.raises(TypeError, match="must be a NumPy array, a CPU tensor or another buffer"):
        audio_of(array)


@pytest.mark.parametrize("frame_rate", [(0, 1), (25, 0), (-25, 1), (25, -1)])
def test_frame_rate_that_is_not_positive_is_an_error(frame_rate: tuple[int, int]) -> None:
    """Time would stand still, or run backwards."""
    with pytest.raises(ValueError, match="frame_rate must be two positive integers"):
        video_of(np.zeros((1, 4, 4, 3), np.uint8), frame_rate=frame_rate)


@pytest.mark.parametrize("sample_rate", [0, -8000])
def test_sample_rate_that_is_not_positive_is_an_error(sample_rate: int) -> None:
    """Likewise."""
    with pytest.raises(ValueError, match="sample_rate must be >= 1"):
        audio_of(np.zeros((4, 2), np.int16), sample_rate=sample_rate)


def test_big_endian_gray_is_read_as_such() -> None:
    """An array of the other byte order fits the format that says so."""
    array = noise((1, 4, 4), ">u2") * 257
    assert (convert(video_of(array.astype(">u2"), "gray16be"))[0, 0] == array[0]).all()


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.slow  # the import of torch
def test_torch_tensor_is_an_array() -> None:
    """Its memory is kept."""
    import torch

    tensor = torch.arange(60, dtype=torch.uint8).reshape(1, 4, 5, 3)
    frames = video_of(tensor)
    expected = tensor.numpy().copy()
    del tensor
    assert (convert(frames) == expected).all()
    with pytest.raises(spdl.io.ConvertError, match="C-contiguous"):
        audio_of(torch.zeros(4, 2).T, "fltp")


@pytest.mark.parametrize("is_flushed", [True, False], ids=["flushed", "abandoned"])
def test_arrays_that_threads_of_the_encoder_let_go_of_are_released(is_flushed: bool, tmp_path: Path) -> None:
    """Also if the encoder goes while they still hold some, more of them than there are threads."""
    alive = []
    muxer = spdl.io.Muxer(tmp_path / "out.mkv")
    config = spdl.io.video_encode_config(height=16, width=16, frame_rate=RATE, pix_fmt="rgb24")
    encoder = muxer.add_encode_stream(config, encoder="png", encoder_config={"threads": "4"})
    for pts in range(40):
        array = noise((1, 16, 16, 3), np.uint8)
        alive.append(weakref.ref(array))
        encoder.encode(video_of(array, pts=pts))
        del array
    if is_flushed:
        encoder.flush()
    del encoder, muxer
    gc.collect()
    assert [each() for each in alive] == [None] * 40
