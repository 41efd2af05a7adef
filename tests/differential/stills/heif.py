"""HEIC: pixels, grids, turns and alpha, judged by arithmetic and by pillow-heif."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from spdl.io import _native
from tests.differential.cells import Draw, KnownExceptionError, NotMadeError, law
from tests.differential.judges.pillow import pixels_of
from tests.differential.stills.pictures import Pixels, draw_pixels, loaded
from tests.support.heif_files import Coded, HeifFile, encode, ycbcr_to_rgb

# libheif expands limited range by 256/219, and rounds once more for depths above 8.
CLOSE = 2.5


def _planes(draw: Draw, height: int, width: int, bits: int, is_full: bool) -> list[NDArray[np.int64]]:
    levels = draw_pixels(draw, height, width).astype(np.float64) / 255
    scale = 2 ** (bits - 8)
    low, high = (0, 2**bits - 1) if is_full else (16 * scale, 235 * scale)
    luma = low + (high - low) * (0.15 + 0.7 * levels[..., 0])
    chroma = [(128 + 50 * (levels[..., i] - 0.5)) * scale for i in (1, 2)]
    return [np.round(plane).astype(np.int64) for plane in (luma, *chroma)]


def _require_libheif() -> None:
    if _native.media.libheif_version() is None:
        raise NotMadeError("this build has no libheif")


def _close(data: bytes, expected: Pixels, *, close: float = CLOSE) -> None:
    height, width = expected.shape[:2]
    for orient in (False, True):
        for way, pixels in loaded(data, height, width, orient=orient).items():
            assert pixels.shape == expected.shape, way
            worst = np.abs(pixels - expected).max()
            assert worst <= close, f"{way}: {worst} levels"


def _picture(draw: Draw, form: str) -> tuple[list[NDArray[np.int64]], Coded, Pixels, int, bool]:
    """Planes, what they are coded to, the levels of RGB, the matrix and whether the range is full."""
    bits, chroma = int(form.split("/")[1]), form.split("/")[2]
    height, width = 2 * draw.random.randint(16, 40), 2 * draw.random.randint(16, 40)
    matrix, is_full = draw.random.choice([1, 6, 9]), draw.random.random() < 0.5
    planes = _planes(draw, height, width, bits, is_full)
    draw.note(f"{width}x{height}, {bits} bits, {chroma}, matrix {matrix}, full range {is_full}")
    if chroma == "gray":
        low, high = (0, 2**bits - 1) if is_full else (16 << bits - 8, 235 << bits - 8)
        gray = (planes[0] - low) / (high - low) * 255
        expected = np.repeat(gray[..., None], 3, -1)
        coded = encode(planes[:1], bits=bits)
    else:
        across, down = {"444": (1, 1), "422": (2, 1), "420": (2, 2)}[chroma]
        expected = ycbcr_to_rgb(planes, bits=bits, matrix=matrix, is_full=is_full)
        coded = encode([planes[0], *(plane[::down, ::across] for plane in planes[1:])], bits=bits)
    return planes, coded, expected, matrix, is_full


FORMS = [f"heic/{bits}/{chroma}" for bits in (8, 10, 12) for chroma in ("444", "420", "gray")] + ["heic/8/422"]


@law("still", "pixels", FORMS)
def pixels_are_those_of_the_formula(draw: Draw, form: str) -> None:
    """With turns, a mirror and a crop in between."""
    _require_libheif()
    _, coded, expected, matrix, is_full = _picture(draw, form)
    file = HeifFile()
    properties = [file.add_colours(matrix, is_full=is_full)]
    height, width = expected.shape[:2]
    if draw.random.random() < 0.4:
        top, left = draw.random.randint(0, 9), draw.random.randint(0, 9)
        crop = (top, left, height - top - draw.random.randint(0, 9), width - left - draw.random.randint(0, 9))
        properties.append(file.add_crop(width, height, crop))
        expected = expected[top : top + crop[2], left : left + crop[3]]
        draw.note(f"crop {crop}")
    if turns := draw.random.randint(0, 3):
        properties.append(file.add_turns(turns))
        expected = np.rot90(expected, turns)
    if (mirror := draw.random.choice([None, True, False])) is not None:
        properties.append(file.add_mirror(is_sideways=mirror))
        expected = expected[:, ::-1] if mirror else expected[::-1]
    draw.note(f"turns {turns}, mirror {mirror}")
    soft = 0 if form.endswith(("444", "gray")) else 6
    _close(file.to_bytes(file.add(coded, *properties)), expected, close=CLOSE + soft)


@law("still", "grid", ["heic/8/444", "heic/10/444"])
def tiles_are_put_together(draw: Draw, form: str) -> None:
    """Of any number, cut at the right and at the bottom."""
    _require_libheif()
    bits, side = int(form.split("/")[1]), 64
    rows, columns = draw.random.choice([(1, 2), (2, 1), (2, 2), (1, 3)])
    matrix = draw.random.choice([1, 6])
    planes = _planes(draw, rows * side, columns * side, bits, is_full=True)
    height, width = rows * side - draw.random.randint(0, 30), columns * side - draw.random.randint(0, 30)
    draw.note(f"{rows}x{columns} tiles, {width}x{height}")
    tiles = [
        encode([plane[y : y + side, x : x + side] for plane in planes], bits=bits, signalled=(matrix, True))
        for y in range(0, rows * side, side)
        for x in range(0, columns * side, side)
    ]
    file = HeifFile()
    turns = draw.random.randint(0, 3)
    grid = file.add_grid(tiles, rows, columns, width, height, file.add_turns(turns))
    expected = ycbcr_to_rgb(planes, bits=bits, matrix=matrix, is_full=True)[:height, :width]
    _close(file.to_bytes(grid), np.rot90(expected, turns))


@law("still", "pillow-heif", ["heic/RGB", "heic/RGBA", "heic/L", "heic/LA"], "pillow_heif")
def files_of_pillow_heif_are_read_as_it_reads_them(draw: Draw, form: str) -> None:
    """Of each mode and subsampling, with EXIF orientation that is put into properties, or is not."""
    import pillow_heif

    _require_libheif()
    pillow_heif.register_heif_opener()
    mode = form.split("/")[1]
    height, width = draw.random.randint(17, 70), draw.random.randint(17, 70)
    picture = Image.fromarray(draw_pixels(draw, height, width)).convert(mode)
    if mode.endswith("A"):
        picture.putalpha(Image.fromarray(draw_pixels(draw, height, width)[..., 0]))
    options: dict[str, Any] = {
        "quality": draw.random.randint(60, 100),
        "chroma": draw.random.choice([420, 422, 444]),
    }
    if draw.random.random() < 0.7:
        exif = Image.Exif()
        exif[274] = draw.random.randint(1, 8)
        options["exif"] = exif.tobytes()
    stream = io.BytesIO()
    picture.save(stream, "HEIF", **options)
    draw.note(f"{mode} {width}x{height} {options}")
    data = stream.getvalue()
    expected = pixels_of(data).astype(np.float64)
    is_known = False
    for orient in (False, True):
        for way, pixels in loaded(data, *expected.shape[:2], orient=orient).items():
            assert pixels.shape == expected.shape, way
            mean = np.abs(pixels - expected).mean()
            is_turned = "exif" in options and options["chroma"] != 444
            is_known = is_known or (is_turned and 1 < mean <= 4)
            assert mean <= 1 or is_known, f"{way}: mean {mean}"
    if mode.endswith("A"):
        transform = spdl.io.ImageTransform(expected.shape[:2], color="rgba", interpolation="nearest")
        alpha = spdl.io.to_numpy(spdl.io.load_image_batch([data], transform=transform))[0][..., 3]
        assert np.abs(alpha.astype(int) - pixels_of(data, "RGBA")[..., 3]).max() <= 1
    if is_known:
        raise KnownExceptionError(200)
