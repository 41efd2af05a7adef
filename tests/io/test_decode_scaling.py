"""The short way for plain scaling and formats gives the same bits as a filter graph.

``null`` is a filter that does nothing, and makes a description go through a graph of libavfilter.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from spdl.io import decode_config, decode_packets, demux_video, to_numpy
from spdl.io.utils import get_ffmpeg_log_level, set_ffmpeg_log_level
from tests.support.media import clip, h264, pictures

FORMATS = (
    "yuv420p yuv422p yuv444p yuvj420p yuvj444p nv12 yuv420p10le yuv444p10le yuv422p16le gray gray16le gray10le rgb24"
    " bgr24 rgba bgra gbrp gbrp10le gbrap yuva420p rgb48le pal8 yuv411p yuyv422 uyvy422 p010le ya8 monow rgb565le bgr0"
)  # fmt: skip
COLOURS: tuple[dict[str, str], ...] = (
    {},
    {"colorspace": "bt709"},
    {"color_range": "pc"},
    {"color_range": "tv", "colorspace": "bt2020nc"},
    {"colorspace": "smpte240m", "color_range": "pc"},
    {"colorspace": "ycgco"},
)
DESCRIPTIONS = (
    "format=pix_fmts=rgb24",
    "scale=w=32:h=24:flags=bicubic,format=pix_fmts=rgb24",
    "scale=w=90:h=70:flags=bilinear,format=pix_fmts=gray",
    "scale=w=31:h=0:flags=lanczos+accurate_rnd,format=pix_fmts=yuv444p",
    "scale=w=30:h=20:flags=area,format=pix_fmts=yuv420p",
    "scale=40:0,format=rgba",
)


@functools.cache
def raw(pix_fmt: str, size: str) -> Path:
    """Two noisy pictures of that format."""
    source = pictures(size=size, duration=0.08)
    return clip("raw.nut", *source, "-vf", f"noise=alls=20,format={pix_fmt}", "-c:v", "rawvideo")


def pictures_of(path: Path, description: str, options: dict[str, str]) -> NDArray[Any]:
    config = decode_config(decoder_options=options)
    return to_numpy(spdl.io.convert_frames(decode_packets(demux_video(path), description, config)))


@pytest.mark.parametrize("pix_fmt", FORMATS.split())
def test_same_bits_for_every_format_range_and_matrix(pix_fmt: str) -> None:
    """Of even and odd sizes; each description with two of the colours."""
    cases = [
        (which, COLOURS[(which * 2 + more) % len(COLOURS)]) for which in range(len(DESCRIPTIONS)) for more in (0, 1)
    ]
    for size in ("66x50", "33x17"):
        for which, options in cases:
            direct = pictures_of(raw(pix_fmt, size), DESCRIPTIONS[which], options)
            graph = pictures_of(raw(pix_fmt, size), DESCRIPTIONS[which] + ",null", options)
            assert direct.tobytes() == graph.tobytes(), (size, options, DESCRIPTIONS[which])


def test_matrix_and_range_matter() -> None:
    """What is compared above differs between the cases."""
    found = {pictures_of(raw("yuv420p", "66x50"), DESCRIPTIONS[0], options).tobytes() for options in COLOURS}
    assert len(found) == len(COLOURS) - 1  # libswscale knows no YCgCo, and takes it as untold


@pytest.mark.parametrize("flags", ["+ildct+ilme", "-ildct"])
def test_same_bits_for_interlaced_pictures(flags: str) -> None:
    """By default neither way treats fields apart."""
    path = clip("fields.mp4", *pictures(duration=0.4), "-c:v", "mpeg2video", "-flags", flags)
    direct = pictures_of(path, DESCRIPTIONS[1], {})
    assert (direct == pictures_of(path, DESCRIPTIONS[1] + ",null", {})).all()


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_no_graph_is_made_for_a_known_kind_of_picture(description: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The first one of a kind is compared with a graph's, whatever the version of FFmpeg, and the others need none."""
    before = get_ffmpeg_log_level()
    pictures_of(raw("yuv420p", "66x50"), description, {})
    set_ffmpeg_log_level(40)  # of FFmpeg's details
    try:
        pictures_of(raw("yuv420p", "66x50"), description, {})
        direct = capfd.readouterr().err
        pictures_of(raw("yuv420p", "66x50"), description + ",null", {})
    finally:
        set_ffmpeg_log_level(before)
    assert "pixfmt:" not in direct
    assert "pixfmt:" in capfd.readouterr().err


def test_pictures_that_fit_already_are_not_copied() -> None:
    """As in a graph: what has size and format is passed on as it is."""
    native = decode_packets(demux_video(h264()), None)
    same = decode_packets(demux_video(h264()), "format=pix_fmts=yuv420p")
    assert (to_numpy(spdl.io.convert_frames(native)) == to_numpy(spdl.io.convert_frames(same))).all()


def test_times_and_metadata_pass() -> None:
    """As through a graph."""
    direct = decode_packets(demux_video(h264(), timestamp=(0.5, 1)), DESCRIPTIONS[1])
    graph = decode_packets(demux_video(h264(), timestamp=(0.5, 1)), DESCRIPTIONS[1] + ",null")
    assert direct.get_pts() == graph.get_pts()
    assert direct.time_base == graph.time_base
    assert np.allclose(direct.get_timestamps(), np.arange(13, 25) / 25)
