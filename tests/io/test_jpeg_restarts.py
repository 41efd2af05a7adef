"""Parts of JPEGs with restart markers, which decoding starts at: the pixels of the same file without markers."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import spdl.io
from spdl.io import Crop, ImageTransform, RandomResizedCrop
from tests.io.pictures import make_jpeg
from tests.io.test_transform_quality import load
from tests.strategies.profiles import cases

KINDS: dict[str, dict[str, Any]] = {
    "444": {"subsampling": "4:4:4"},
    "422": {"subsampling": "4:2:2"},
    "420": {"subsampling": "4:2:0"},
    "gray": {"mode": "L"},
    "cmyk": {"mode": "CMYK"},
    "progressive": {"progressive": True},
}
PLAIN: dict[str, Any] = {}
ROWS: dict[str, Any] = {"restart_marker_rows": 1}
WIDTH, HEIGHT = 120, 200
LOWER = Crop(150, 20, 30, 50)
#: EXIF of nothing but the orientation, which follows.
ORIENTATION = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"
MARKER = re.compile(b"\xff[\xd0-\xd7]")


def crop(data: bytes, box: Crop, *, exact: bool, size: tuple[int, int] | None = None) -> NDArray[Any]:
    return load(data, ImageTransform(size or (box.height, box.width), crop=box, exact=exact))


def with_marker(data: bytes, index: int, marker: bytes) -> bytes:
    """The file with other bytes in the place of a restart marker."""
    found = list(MARKER.finditer(data, data.index(b"\xff\xda")))[index]
    return data[: found.start()] + marker + data[found.end() :]


@pytest.mark.slow
@cases(100)
@given(
    kind=st.sampled_from(list(KINDS)),
    width=st.integers(1, 100),
    height=st.integers(1, 200),
    interval=st.integers(1, 30),
    corners=st.tuples(*[st.floats(0, 1, exclude_max=True)] * 4),
    exact=st.booleans(),
    divisor=st.integers(1, 9),
)
def test_a_part_has_the_pixels_of_a_file_without_markers(
    kind: str,
    width: int,
    height: int,
    interval: int,
    corners: tuple[float, float, float, float],
    exact: bool,
    divisor: int,
) -> None:
    """Whatever the interval, of every size, scaled or not."""
    top, left = int(corners[0] * height), int(corners[1] * width)
    box = Crop(top, left, 1 + int(corners[2] * (height - top)), 1 + int(corners[3] * (width - left)))
    size = (-(-box.height // divisor), -(-box.width // divisor))
    plain, marked = (
        make_jpeg(width, height, **KINDS[kind], **options) for options in (PLAIN, {"restart_marker_blocks": interval})
    )
    assert (crop(marked, box, exact=exact, size=size) == crop(plain, box, exact=exact, size=size)).all()


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_can_be_the_first(kind: str, exact: bool) -> None:
    """With an interval for each row of units, and more than eight of them."""
    plain, marked = (make_jpeg(33, 150, **KINDS[kind], **options) for options in (PLAIN, ROWS))
    for top in range(150):
        box = Crop(top, 9, 1, 20)
        assert (crop(marked, box, exact=exact) == crop(plain, box, exact=exact)).all(), top


@pytest.mark.slow
def test_random_crops_of_a_batch_are_the_same() -> None:
    """Turned pictures and flips as well, one after the other in the same decoder."""
    transform = ImageTransform((20, 30), crop=RandomResizedCrop(scale=(0.02, 0.3)), flip=0.5)
    turned = [ORIENTATION + bytes([i, 0, 0]) for i in range(1, 9)]
    plain, marked = (
        [make_jpeg(WIDTH, HEIGHT, seed=i, exif=exif, **options) for i, exif in enumerate(turned)]
        for options in (PLAIN, ROWS)
    )
    seeds = np.arange(8, dtype=np.uint64)
    ours, expected = (
        spdl.io.to_numpy(spdl.io.load_image_batch(each, transform=transform, seeds=seeds)) for each in (marked, plain)
    )
    assert (ours == expected).all()


@pytest.mark.parametrize("exact", [False, True])
def test_fill_bytes_and_metadata_are_no_obstacle(exact: bool) -> None:
    """A marker may follow any number of 0xff; the header may be long."""
    plain = make_jpeg(WIDTH, HEIGHT)
    marked = make_jpeg(WIDTH, HEIGHT, restart_marker_rows=1, icc_profile=bytes(100_000), comment=b"\xff\xc0" * 50)
    for index in range(9):
        marked = with_marker(marked, index, b"\xff\xff\xff" + bytes([0xD0 + index % 8]))
    assert (crop(marked, LOWER, exact=exact) == crop(plain, LOWER, exact=exact)).all()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    "marker", [b"", b"\xff\xd7", b"\xff\xd2", b"\xff\xd9", b"\xff\xe0", b"\xff\x00"], ids=bytes.hex
)
def test_a_marker_that_is_not_as_it_should_be_is_an_error_still(marker: bytes, exact: bool) -> None:
    """Above the part and in it: all of the file is decoded then, which fails as ever."""
    marked = make_jpeg(WIDTH, HEIGHT, restart_marker_rows=1)
    for index in (3, 5, 9):
        damaged = with_marker(marked, index, marker)
        with pytest.raises(spdl.io.MediaError):
            crop(damaged, LOWER, exact=exact)


def test_markers_below_the_part_do_not_matter() -> None:
    """They are not read, as nothing is below it."""
    marked = make_jpeg(WIDTH, HEIGHT, restart_marker_rows=1)
    upper = Crop(60, 20, 30, 50)
    assert (crop(with_marker(marked, 10, b""), upper, exact=False) == crop(marked, upper, exact=False)).all()


def test_what_is_above_the_part_is_not_decoded() -> None:
    """Zeros in place of the second row's data would be an error otherwise."""
    marked = make_jpeg(WIDTH, HEIGHT, restart_marker_rows=1)
    start, end = [match.start() for match in MARKER.finditer(marked, marked.index(b"\xff\xda"))][:2]
    damaged = marked[: start + 2] + marked[end:]
    with pytest.raises(spdl.io.MediaError):
        crop(damaged, Crop(0, 0, HEIGHT, WIDTH), exact=False)
    assert (crop(damaged, LOWER, exact=False) == crop(marked, LOWER, exact=False)).all()


def test_two_frame_headers_are_no_way_to_another_height() -> None:
    """A frame header inside of metadata is none: the height that is replaced is the picture's own."""
    plain = make_jpeg(WIDTH, HEIGHT)
    marked = make_jpeg(WIDTH, HEIGHT, restart_marker_rows=1)
    frame = marked[marked.index(b"\xff\xc0") :][:19]
    hidden = marked[:2] + b"\xff\xef" + (len(frame) + 2).to_bytes(2) + frame + marked[2:]
    assert (crop(hidden, LOWER, exact=True) == crop(plain, LOWER, exact=True)).all()


def test_a_file_cut_inside_the_part_is_an_error() -> None:
    """Although its markers up to there are as they should be."""
    marked = make_jpeg(WIDTH, HEIGHT, restart_marker_rows=1)
    last = list(MARKER.finditer(marked, marked.index(b"\xff\xda")))[10]
    with pytest.raises(spdl.io.MediaError):
        crop(marked[: last.start() + 5], LOWER, exact=False)
