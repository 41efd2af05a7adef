"""Frames as arrays: their shape, their type, their values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spdl.io
from tests.io.raw import noise, picture_bytes, raw_audio, raw_video
from tests.support.media import clip, decoded_audio, run_ffmpeg, tones

# The shape of one picture of 6x4 (width x height), and the type of its elements.
LAYOUTS = {
    "rgb24": ((4, 6, 3), "u1"),
    "bgr24": ((4, 6, 3), "u1"),
    "rgba": ((4, 6, 4), "u1"),
    "rgb48le": ((4, 6, 3), "<u2"),
    "rgb48be": ((4, 6, 3), ">u2"),
    "gray": ((4, 6, 1), "u1"),
    "gray16le": ((1, 4, 6), "<u2"),
    "gray16be": ((1, 4, 6), ">u2"),
    "gbrp": ((3, 4, 6), "u1"),
    "yuv444p": ((3, 4, 6), "u1"),
    "yuvj444p": ((3, 4, 6), "u1"),
    "yuv422p": ((1, 8, 6), "u1"),
    "yuvj422p": ((1, 8, 6), "u1"),
    "yuv420p": ((1, 6, 6), "u1"),
    "yuvj420p": ((1, 6, 6), "u1"),
    "nv12": ((1, 6, 6), "u1"),
}
HALF_WIDTHS = {name for name in LAYOUTS if "420" in name or "422" in name or name == "nv12"}


def convert(frames: Any, **options: Any) -> Any:
    """As an array of NumPy's."""
    return spdl.io.to_numpy(spdl.io.convert_frames(frames, **options))


@pytest.mark.parametrize("filter_desc", [None, "copy"], ids=["packed", "padded"])
@pytest.mark.parametrize("pix_fmt", LAYOUTS)
def test_pictures_have_the_documented_shape_and_the_values_of_raw_video(pix_fmt: str, filter_desc: str | None) -> None:
    """Three pictures of every format, with and without padding in the frames."""
    shape, dtype = LAYOUTS[pix_fmt]
    data = noise(3 * picture_bytes(pix_fmt, 6, 4))
    array = convert(raw_video(data, pix_fmt, 6, 4, filter_desc=filter_desc))
    assert array.shape == (3, *shape)
    assert array.dtype == np.dtype(dtype).newbyteorder("=")
    assert (array == data.view(dtype).reshape(3, *shape)).all()
    assert array.flags.c_contiguous
    assert array.flags.writeable


@given(
    pix_fmt=st.sampled_from(sorted(LAYOUTS)),
    width=st.integers(1, 67),
    height=st.integers(1, 67),
    filter_desc=st.sampled_from([None, "copy", "vflip,copy,vflip", "vflip"]),
)
def test_every_size_is_converted_exactly_or_refused(
    pix_fmt: str, width: int, height: int, filter_desc: str | None
) -> None:
    """Odd sizes too; only odd widths of formats with half as wide chroma have no layout."""
    dtype = LAYOUTS[pix_fmt][1]
    data = noise(2 * picture_bytes(pix_fmt, width, height), seed=width)
    frames = raw_video(data, pix_fmt, width, height, filter_desc=filter_desc)
    if pix_fmt in HALF_WIDTHS and width % 2:
        with pytest.raises(spdl.io.UnsupportedFormatError, match="even widths only"):
            spdl.io.convert_frames(frames)
        return
    if filter_desc == "vflip":
        return_trip = convert(raw_video(data, pix_fmt, width, height, filter_desc="vflip,copy"))
        assert (convert(frames) == return_trip).all()  # of negative strides
        return
    assert (convert(frames).reshape(-1) == data.view(dtype)).all()


def test_stride_is_negative_in_a_flipped_picture() -> None:
    """Rows come in the order in which they are seen."""
    data = noise(picture_bytes("gray", 5, 7))
    array = convert(raw_video(data, "gray", 5, 7, filter_desc="vflip"))
    assert (array[0, :, :, 0] == data.reshape(7, 5)[::-1]).all()


@pytest.mark.parametrize("height", [3, 4])
def test_planes_of_yuv420p_are_stacked(height: int) -> None:
    """Luma, then U, then V, each without gaps; half a row of chroma is rounded up."""
    chroma = -(-height // 2) * 4
    planes = [np.full(8 * height, 10, np.uint8), np.full(chroma, 20, np.uint8), np.full(chroma, 30, np.uint8)]
    array = convert(raw_video(np.concatenate(planes), "yuv420p", 8, height, filter_desc="copy"))
    assert array.shape == (1, 1, height + -(-height // 2), 8)
    assert (array[0, 0, :height] == 10).all()
    rest = array[0, 0, height:].reshape(-1)
    assert rest.tolist() == [20] * chroma + [30] * chroma


def test_channels_are_in_the_order_of_the_name() -> None:
    """``gbrp`` has green first, as ``bgr24`` has blue first."""
    red = np.array([200, 0, 10], np.uint8)  # R, G, B
    orders = {"rgb24": [200, 0, 10], "bgr24": [10, 0, 200], "rgba": [200, 0, 10, 255], "gbrp": [0, 10, 200]}
    for pix_fmt, expected in orders.items():
        array = convert(raw_video(red, "rgb24", 1, 1, filter_desc=f"format=pix_fmts={pix_fmt}"))
        assert array.reshape(-1).tolist() == expected


@pytest.mark.parametrize(("width", "height"), [(66, 35), (2, 1), (34, 67)])
def test_decoded_clips_equal_the_raw_output_of_the_ffmpeg_tool(width: int, height: int, tmp_path: Path) -> None:
    """The tool makes of noise, for each format, a lossless clip and raw video."""
    (tmp_path / "noise").write_bytes(noise(2 * 3 * width * height).tobytes())
    command: list[str | Path] = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{width}x{height}",
        "-i",
        tmp_path / "noise",
    ]
    for pix_fmt in LAYOUTS:
        command += ["-c:v", "rawvideo", "-pix_fmt", pix_fmt, tmp_path / f"{pix_fmt}.nut"]
        command += ["-f", "rawvideo", "-pix_fmt", pix_fmt, tmp_path / f"{pix_fmt}.raw"]
    run_ffmpeg(*command)
    for pix_fmt, (_, dtype) in LAYOUTS.items():
        array = convert(spdl.io.decode_packets(spdl.io.demux_video(tmp_path / f"{pix_fmt}.nut"), "copy"))
        assert len(array) == 2
        assert (array.reshape(-1) == np.fromfile(tmp_path / f"{pix_fmt}.raw", dtype)).all(), pix_fmt


def test_picture_has_no_axis_of_frames() -> None:
    """An image is one; so is a frame of a video."""
    data = noise(2 * picture_bytes("rgb24", 6, 4))
    frames = raw_video(data, "rgb24", 6, 4)
    array = convert(frames[1])
    assert array.shape == (4, 6, 3)
    assert (array.reshape(-1) == data[72:]).all()


SAMPLES = {
    "u8": (np.uint8, "u8"),
    "s16le": (np.int16, "s16"),
    "s32le": (np.int32, "s32"),
    "f32le": (np.float32, "flt"),
    "f64le": (np.float64, "dbl"),
}


@pytest.mark.parametrize("num_channels", [1, 2, 3, 11])
@pytest.mark.parametrize("raw_format", SAMPLES)
def test_samples_have_the_documented_shape_and_type(raw_format: str, num_channels: int) -> None:
    """Packed formats have channels last, planar ones first; many frames become one array."""
    dtype, packed = SAMPLES[raw_format]
    bits = noise(3000 * num_channels * np.dtype(dtype).itemsize)
    if np.dtype(dtype).kind == "f":
        data = (bits.view(f"u{np.dtype(dtype).itemsize}") / 2.0**63).astype(dtype)
    else:
        data = bits.view(dtype)
    data = data.reshape(3000, num_channels)
    array = convert(raw_audio(data, raw_format))
    assert array.dtype == dtype
    assert array.shape == (3000, num_channels)
    assert (array == data).all()
    planar = np.ascontiguousarray(data.T)
    frames = spdl.io.create_reference_audio_frame(planar, f"{packed}p", 8000, 0)
    array = convert(frames)
    assert array.dtype == dtype
    assert array.shape == (num_channels, 3000)
    assert (array == planar).all()


@pytest.mark.parametrize("num_channels", [1, 2])
def test_planar_samples_equal_the_raw_output_of_the_ffmpeg_tool(num_channels: int) -> None:
    """Of many frames, the last of which is shorter; as the codec gives them."""
    expression = "|".join(["sin(440*2*PI*t)", "sin(650*2*PI*t)/2"][:num_channels])
    path = clip(f"tones{num_channels}.flac", *tones(8000, 1.1, expression), "-sample_fmt", "s16", "-frame_size", "512")
    array = convert(spdl.io.decode_packets(spdl.io.demux_audio(path), "aformat=sample_fmts=fltp"))
    assert array.shape == (num_channels, 8800)
    assert (decoded_audio(path, num_channels) == array.T).all()


def test_list_puts_its_length_in_front() -> None:
    """Of videos, of images, of samples; a list of one too, and a tuple."""
    data = noise(4 * picture_bytes("rgb24", 6, 4))
    halves = [raw_video(half, "rgb24", 6, 4) for half in (data[:144], data[144:])]
    images = [halves[1].clone()[0], halves[0].clone()[1]]
    sounds = tuple(raw_audio(data[: 4 * n].reshape(-1, 2), "u8") for n in (8, 8, 8))
    array = convert(halves)
    assert array.shape == (2, 2, 4, 6, 3)
    assert (array.reshape(-1) == data).all()
    array = convert(images)
    assert array.shape == (2, 4, 6, 3)
    assert (array.reshape(-1) == np.concatenate([data[144:216], data[72:144]])).all()
    assert convert(sounds).shape == (3, 16, 2)
    assert convert([raw_video(data, "rgb24", 6, 4)]).shape == (1, 4, 4, 6, 3)


def test_result_is_put_in_storage() -> None:
    """At its start; a larger one keeps the rest."""
    data = noise(picture_bytes("gray16le", 6, 4))
    storage = np.full(50, 7, np.uint8)
    array = convert(raw_video(data, "gray16le", 6, 4), storage=storage)
    assert array.ctypes.data == storage.ctypes.data
    assert (storage[:48] == data).all()
    assert storage[48:].tolist() == [7, 7]
