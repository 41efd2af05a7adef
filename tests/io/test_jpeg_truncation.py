"""JPEGs that are cut off near their end: an error, or the whole picture; on every way from bytes to pixels."""

from collections.abc import Callable
from typing import Any

import pytest

import spdl.io
from tests.io.pictures import make_jpeg

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "4:4:4": {"subsampling": "4:4:4"},
    "coarse": {"quality": 10},
    "gray": {"mode": "L"},
    "CMYK": {"mode": "CMYK"},
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_blocks": 2},
}
WAYS: dict[str, Callable[[bytes], Any]] = {
    "image": spdl.io.load_image,
    "batch": lambda data: spdl.io.load_image_batch([data], width=64, height=48),
    "filter": lambda data: spdl.io.load_image(data, filter_desc=spdl.io.get_video_filter_desc()),
    "configuration": lambda data: spdl.io.load_image(data, decode_config=spdl.io.decode_config()),
    "video": spdl.io.load_video,
    "packets": lambda data: spdl.io.convert_frames(spdl.io.decode_packets(spdl.io.demux_image(data))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_cut_is_an_error_or_costs_no_pixel(way: str, kind: str) -> None:
    """By 1 to 399 bytes."""
    data = make_jpeg(64, 48, **KINDS[kind])
    load = WAYS[way]
    whole = spdl.io.to_numpy(load(data))
    for cut in (*range(1, 20), *range(20, min(400, len(data)), 37)):
        try:
            pixels = spdl.io.to_numpy(load(data[:-cut]))
        except spdl.io.MediaError:
            continue
        assert (pixels == whole).all(), cut
        assert cut < 3, "pixels are missing, or might be"


@pytest.mark.parametrize("way", ["image", "batch"])
def test_a_missing_end_marker_alone_costs_nothing(way: str) -> None:
    """Of the way without FFmpeg, which counts rows and not markers."""
    data = make_jpeg(64, 48)
    assert (spdl.io.to_numpy(WAYS[way](data[:-2])) == spdl.io.to_numpy(WAYS[way](data))).all()


def test_tolerance_takes_what_is_there() -> None:
    """Through FFmpeg, whoever asks for it gets the rows that came."""
    data = make_jpeg(64, 48)
    config = spdl.io.decode_config(tolerate_errors=True)
    assert spdl.io.load_image(data[:-50], decode_config=config).shape == (48, 64, 3)


def test_an_end_marker_may_have_bytes_behind_it_and_fill_bytes_before() -> None:
    """Neither is a cut."""
    data = make_jpeg(64, 48)
    for way in WAYS.values():
        assert way(data + b"trailer" * 20).shape[-3:] == (48, 64, 3)
        assert way(data[:-2] + b"\xff\xff\xff\xd9").shape[-3:] == (48, 64, 3)
