"""Netpbm's formats: levels of any maximum, bits, alpha and floats, judged by arithmetic, OpenCV and Pillow."""

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from tests.differential.cells import Draw, law
from tests.differential.stills.loading import check_refused, check_rgb, stored
from tests.differential.stills.pictures import draw_size

#: Tuple types of pam(5), by the number of samples.
_TUPLES = {1: "GRAYSCALE", 2: "GRAYSCALE_ALPHA", 3: "RGB", 4: "RGB_ALPHA"}


def _values(draw: Draw, most: int, *shape: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(draw.random.getrandbits(32))
    values: NDArray[np.int64] = rng.integers(0, most, shape, endpoint=True)
    return values


def _bytes(values: NDArray[np.int64], most: int) -> bytes:
    return values.astype(np.uint8 if most < 256 else ">u2").tobytes()


def _text(values: NDArray[np.int64], glue: str) -> bytes:
    rows = values.reshape(values.shape[0], -1)
    return "\n".join(glue.join(map(str, row)) for row in rows.tolist()).encode() + b"\n"


def _header(draw: Draw, letter: str, width: int, height: int, *more: object) -> bytes:
    """Fields with any blanks and comments between them; exactly one blank behind."""
    glue = draw.random.choice([" ", "\n", "\n# a comment\n", " \t", "  # 7 8 9\n"])
    return (f"P{letter}\n" + glue.join(map(str, (width, height, *more))) + "\n").encode()


def _levels(values: NDArray[np.int64], most: int, white: int) -> NDArray[np.int64]:
    return (2 * values * white + most) // (2 * most)


def _check(data: bytes, values: NDArray[np.int64], most: int) -> None:
    """``values``: (height, width, channels)."""
    channels = values.shape[2]
    white = 255 if most < 256 else 65535
    made = stored(data)
    assert made.dtype == (np.uint8 if most < 256 else np.uint16)
    assert np.array_equal(made.reshape(values.shape), _levels(values, most, white))
    colours = values[..., :3] if channels >= 3 else np.repeat(values[..., :1], 3, 2)
    check_rgb(data, _levels(colours, most, 255).astype(np.uint8))


@law("still", "pixels", ["PGM", "PPM", "PGM in text", "PPM in text"])
def levels_are_scaled_to_the_nearest(draw: Draw, form: str) -> None:
    """Of any largest value, of 8 and of 16 bits; Pillow has the same gray levels where it reads them."""
    height, width = draw_size(draw)
    most = draw.random.choice([1, 3, 100, 254, 255, 256, 1000, 1023, 4095, 16383, 65535, draw.random.randint(1, 65535)])
    is_text, channels = "text" in form, 3 if form.startswith("PPM") else 1
    values = _values(draw, most, height, width, channels)
    letter = str({1: 2, 3: 3}[channels] if is_text else {1: 5, 3: 6}[channels])
    draw.note(f"P{letter} {width}x{height} {most}")
    data = _header(draw, letter, width, height, most) + (_text(values, " ") if is_text else _bytes(values, most))
    _check(data, values, most)
    if most < 256 and channels == 1 and not is_text:
        with Image.open(io.BytesIO(data)) as picture:
            judged = np.asarray(picture.convert("L"))
        assert np.abs(judged - values[..., 0] * 255 / most).max() <= 0.5  # it rounds ties to even


@law("still", "pixels", ["PBM", "PBM in text"])
def bits_are_black_where_they_are_set(draw: Draw, form: str) -> None:
    """Rows end on a byte; text needs no blanks. Pillow reads both."""
    height, width = draw_size(draw)
    values = _values(draw, 1, height, width, 1)
    draw.note(f"{form} {width}x{height}")
    if form == "PBM":
        data = _header(draw, "4", width, height) + np.packbits(values[..., 0].astype(bool), axis=1).tobytes()
    else:
        data = _header(draw, "1", width, height) + _text(values, draw.random.choice(["", " "]))
    with Image.open(io.BytesIO(data)) as picture:
        assert np.array_equal(np.asarray(picture.convert("L")), 255 * (1 - values[..., 0]))
    _check(data, 1 - values, 1)


@law("still", "pixels", [f"PAM/{kind}" for kind in ("BLACKANDWHITE", *_TUPLES.values())])
def tuples_of_pam_are_gray_or_colours(draw: Draw, form: str) -> None:
    """With alpha or without, of 8 and of 16 bits, with the type of tuples or without."""
    name = form.split("/")[1]
    height, width = draw_size(draw)
    channels = 1 if name == "BLACKANDWHITE" else next(n for n, tuple in _TUPLES.items() if tuple == name)
    most = 1 if name == "BLACKANDWHITE" else draw.random.choice([3, 255, 1000, 4095, 65535])
    values = _values(draw, most, height, width, channels)
    lines = [f"WIDTH {width}", f"HEIGHT {height}", f"DEPTH {channels}", f"MAXVAL {most}", "# a comment"]
    if draw.random.random() < 0.8:
        lines.append(f"TUPLTYPE {name}")
    draw.random.shuffle(lines)
    draw.note(lines)
    _check("\n".join(["P7", *lines, "ENDHDR", ""]).encode() + _bytes(values, most), values, most)


@law("still", "samples are stored ones", ["PAM/other tuples"])
def other_tuples_are_arrays(draw: Draw, form: str) -> None:
    """Samples as they are, refused where they would have to become colours."""
    height, width = draw_size(draw)
    channels, most = draw.random.choice([4, 5, 7]), draw.random.choice([100, 255, 4095, 65535])
    values = _values(draw, most, height, width, channels)
    lines = [f"WIDTH {width}", f"HEIGHT {height}", f"DEPTH {channels}", f"MAXVAL {most}", "TUPLTYPE CMYK"]
    draw.note(lines)
    data = "\n".join(["P7", *lines, "ENDHDR", ""]).encode() + _bytes(values, most)
    made = stored(data)
    assert made.dtype == (np.uint8 if most < 256 else np.uint16)
    assert np.array_equal(made, values)
    check_refused(data, f"{channels} to a pixel, CMYK")


def _floats(draw: Draw, *shape: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(draw.random.getrandbits(32))
    values: NDArray[np.float32] = (rng.standard_normal(shape) * draw.random.choice([0.3, 1000.0])).astype(np.float32)
    values.flat[0] = draw.random.choice([0.25, np.inf, -0.0])
    return values


@law("still", "samples are stored ones", ["PFM/gray", "PFM/RGB"])
def floats_are_divided_by_the_scale(draw: Draw, form: str) -> None:
    """From the last row to the first, in both orders of bytes."""
    height, width = draw_size(draw)
    values = _floats(draw, height, width, 3 if form == "PFM/RGB" else 1)
    order, unit = draw.random.choice("<>"), draw.random.choice([1.0, 1.0, 2.0, 0.5])
    draw.note(f"{values.shape} {order} {unit}")
    scale = unit if order == ">" else -unit
    data = _header(draw, "F" if form == "PFM/RGB" else "f", width, height, scale)
    data += values[::-1].astype(order + "f4").tobytes()
    made = stored(data)
    assert made.dtype == np.float32
    assert np.array_equal(made, values / np.float32(unit))
    check_refused(data, "floating point")


@law("still", "samples are stored ones", ["PFM/half"])
def halves_are_widened(draw: Draw, form: str) -> None:
    """PHM: float32 of the same values, subnormals too."""
    height, width = draw_size(draw)
    channels, order = draw.random.choice([1, 3]), draw.random.choice("<>")
    bits = np.random.default_rng(draw.random.getrandbits(32)).integers(0, 0x7C00, (height, width, channels))
    values = bits.astype(np.uint16).view(np.float16)
    draw.note(f"{values.shape} {order}")
    data = _header(draw, "H" if channels == 3 else "h", width, height, -1.0 if order == "<" else 1.0)
    data += values[::-1].astype(order + "f2").tobytes()
    assert np.array_equal(stored(data), values.astype(np.float32))


@law("still", "as OpenCV reads it", ["PGM", "PPM", "PFM/gray", "PFM/RGB"], "cv2")
def files_of_opencv_are_read_as_it_reads_them(draw: Draw, form: str) -> None:
    """Written by it, too."""
    import cv2

    height, width = draw_size(draw)
    channels = 1 if form in ("PGM", "PFM/gray") else 3
    array: NDArray[Any]
    if form.startswith("PFM"):
        array = _floats(draw, height, width, channels)
    else:
        most = draw.random.choice([255, 65535])
        array = _values(draw, most, height, width, channels).astype(np.uint8 if most < 256 else np.uint16)
    path = draw.folder / f"picture.{form[:3].lower()}"
    assert cv2.imwrite(str(path), array)
    judged = cv2.imread(str(path), cv2.IMREAD_UNCHANGED).reshape(array.shape)[..., ::-1]
    draw.note(f"{array.shape} {array.dtype}")
    for source in (path, path.read_bytes()):
        made = spdl.io.to_numpy(spdl.io.load_image(source, filter_desc=None))
        assert np.array_equal(made.reshape(array.shape), judged)


@law("still", "refused where damaged", ["PGM", "PPM", "PAM/RGB", "PFM/RGB"])
def what_is_cut_or_too_large_is_damaged(draw: Draw, form: str) -> None:
    """A cut file ends early; a sample above the largest is damage; one byte more than needed is neither."""
    height, width = draw_size(draw)
    channels, most = 1 if form == "PGM" else 3, draw.random.choice([255, 1000])
    values = _values(draw, most, height, width, channels)
    if form == "PFM/RGB":
        data = _header(draw, "F", width, height, -1.0) + values.astype("<f4").tobytes()
    elif form == "PAM/RGB":
        lines = f"P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH 3\nMAXVAL {most}\nENDHDR\n"
        data = lines.encode() + _bytes(values, most)
    else:
        data = _header(draw, "5" if channels == 1 else "6", width, height, most) + _bytes(values, most)
    stored(data)
    stored(data + b"\0")
    path = draw.folder / "cut.pnm"
    path.write_bytes(data[: -draw.random.randint(1, height * width * channels)])
    for source in (path, path.read_bytes()):
        with pytest.raises(spdl.io.DecodeError, match="ends before a picture is complete") as caught:
            stored(source)
        assert source is not path or path.name in str(caught.value)
