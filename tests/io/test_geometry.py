"""Where pictures of any shape are placed, against FFmpeg's own filters."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels, encode, make_jpeg

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "placements.json").read_text())


def white(width: int, height: int, **options: object) -> bytes:
    """A white JPEG."""
    return encode(Image.new("RGB", (width, height), (255, 255, 255)), **options)


def box_of(image: Pixels) -> list[int]:
    """Left, top, width and height of what is not black."""
    ys, xs = np.nonzero(image.max(axis=-1))
    return [int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1]


def load_one(data: bytes, width: int, height: int, pix_fmt: str = "rgb24", orient: bool = False) -> Pixels:
    buffer = spdl.io.load_image_batch([data], width=width, height=height, pix_fmt=pix_fmt, orient=orient)
    pixels: Pixels = spdl.io.to_numpy(buffer)[0]
    return pixels


@pytest.mark.parametrize("start", range(4))
@pytest.mark.parametrize("pix_fmt", ["rgb24", "gray"])
def test_placement_is_that_of_ffmpeg(start: int, pix_fmt: str) -> None:
    """Each size on each canvas: the same corner and the same size as FFmpeg's scale and pad give."""
    rows = GOLDEN["rows"][start::4]
    assert len(rows) > 50
    for width, height, canvas_width, canvas_height, *expected in rows:
        image = load_one(white(width, height), canvas_width, canvas_height, pix_fmt)
        assert box_of(image) == expected, (width, height, canvas_width, canvas_height)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize(("width", "height"), [(33, 17), (17, 33), (1, 1), (1, 40), (40, 1), (8, 8), (9, 9)])
def test_flat_picture_stays_flat_to_its_edges(width: int, height: int, subsampling: str) -> None:
    """Edges get no darker, whatever the size has to do with that of a block."""
    image = load_one(white(width, height, subsampling=subsampling), 50, 50)
    left, top, fitted_width, fitted_height = box_of(image)
    assert (image[top : top + fitted_height, left : left + fitted_width] == 255).all()


@pytest.mark.parametrize(("width", "height"), [(65_500, 1), (1, 65_500)])
def test_a_long_picture_fills_a_long_canvas(width: int, height: int) -> None:
    """Though the side that it would need to fill the other way has more pixels than fit into 32 bits."""
    canvas = (3, 33_000) if width > height else (33_000, 3)
    image = load_one(white(width, height), *canvas)
    assert box_of(image) == ([0, 16_499, 3, 1] if width > height else [16_499, 0, 1, 3])


@pytest.mark.parametrize(("width", "height"), [(2000, 1), (1, 2000), (3000, 2), (65_000, 1)])
def test_extreme_shapes_keep_a_pixel(width: int, height: int) -> None:
    """A side that would round to nothing is one pixel, in the middle."""
    image = load_one(white(width, height), 64, 64)
    left, top, fitted_width, fitted_height = box_of(image)
    assert (fitted_width, fitted_height) == ((64, 1) if width > height else (1, 64))
    assert (left, top) == ((0, 31) if width > height else (31, 0))


def test_one_pixel_fills_the_canvas() -> None:
    """The smallest picture can be enlarged."""
    image = load_one(encode(Image.new("RGB", (1, 1), (200, 100, 50)), quality=100), 16, 16)
    assert np.abs(image.astype(int) - [200, 100, 50]).max() <= 3


ORIENTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def with_orientation(value: int, *, big_endian: bool = False) -> bytes:
    """A JPEG with that orientation in its EXIF data."""
    # Mark, 42 and where the directory is; one entry: tag 274, of type 3 (short), one of it, its value; no more.
    tiff = struct.pack(
        ">2sHLHHHLHHL" if big_endian else "<2sHLHHHLHHL",
        b"MM" if big_endian else b"II",
        42,
        8,
        1,
        274,
        3,
        1,
        value,
        0,
        0,
    )
    return make_jpeg(60, 40, exif=b"Exif\0\0" + tiff)


@pytest.mark.parametrize("big_endian", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("value", [1, *ORIENTATIONS])
def test_orientation_turns_the_picture_upright(value: int, big_endian: bool) -> None:
    """Each of the eight: as Pillow's turn of the picture that is loaded without."""
    data = with_orientation(value, big_endian=big_endian)
    swaps = value >= 5
    plain = load_one(data, 45, 30)
    turned = load_one(data, *((30, 45) if swaps else (45, 30)), orient=True)
    expected = Image.fromarray(plain)
    if value in ORIENTATIONS:
        expected = expected.transpose(ORIENTATIONS[value])
    assert (turned == np.asarray(expected)).all()


def test_orientation_is_applied_before_fitting() -> None:
    """A landscape picture that lies on its side is fitted as the portrait that it is."""
    image = load_one(with_orientation(6), 40, 40, orient=True)
    assert box_of(image) == [6, 0, 27, 40]


def test_orientation_works_for_gray() -> None:
    """With one channel as with three."""
    data = with_orientation(8)
    plain = load_one(data, 45, 30, "gray")[..., 0]
    turned = load_one(data, 30, 45, "gray", orient=True)[..., 0]
    assert (turned == np.rot90(plain)).all()


@pytest.mark.parametrize("value", [0, 9, 255, 65_535])
def test_orientation_out_of_range_changes_nothing(value: int) -> None:
    """Damaged EXIF data costs nothing."""
    data = with_orientation(value)
    assert (load_one(data, 45, 30, orient=True) == load_one(data, 45, 30)).all()


@pytest.mark.parametrize("cut", range(0, 44, 3))
def test_damaged_exif_changes_nothing(cut: int) -> None:
    """Data that ends early, points outside or repeats itself is read as if it were not there."""
    good = with_orientation(6)
    at = good.index(b"Exif\0\0")
    data = good[: at + min(cut, 32)] + b"\xee" * (32 - min(cut, 32)) + good[at + 32 :]
    assert load_one(data, 45, 30, orient=True).shape == (30, 45, 3)
