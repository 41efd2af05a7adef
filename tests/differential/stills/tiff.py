"""TIFF: depth, kind of samples, layout, compression, byte order, tiles and orientation."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spdl.io.utils import get_native_info
from tests.differential.cells import Draw, NotMadeError, law
from tests.differential.judges import pillow, tifffile
from tests.differential.stills.loading import check_refused, check_rgb, rgb, stored, turned

COMPRESSIONS: Final = ("none", "lzw", "zlib", "packbits", "zstd", "lzma")
ORACLES: Final = ("tifffile", "imagecodecs")
LEVELS: Final = ("uint8", "uint16")
OTHERS: Final = ("uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def _require_libtiff() -> None:
    if all(library.name != "libtiff" for library in get_native_info().libraries):
        raise NotMadeError("this build has no libtiff")


def _size(draw: Draw) -> tuple[int, int]:
    return draw.random.randint(1, 70), draw.random.randint(1, 70)


def _samples(draw: Draw, dtype: str, *shape: int) -> NDArray[Any]:
    """Values of the whole range, in runs, so that compressions find something."""
    generator = np.random.default_rng(draw.random.randrange(2**32))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return (generator.standard_normal(shape) * 100).astype(kind)
    limits = np.iinfo(kind)
    values = generator.integers(limits.min, limits.max, shape, kind, endpoint=True)
    return np.where(generator.random(shape) < 0.5, kind.type(limits.max // 3), values).astype(kind)


def _options(draw: Draw, compression: str, dtype: str) -> dict[str, Any]:
    """Options of tifffile: byte order, strips or tiles, classic or BigTIFF, predictor,"""
    options: dict[str, Any] = {
        "byteorder": draw.random.choice("<>"),
        "bigtiff": draw.random.random() < 0.3,
        "compression": None if compression == "none" else compression,
        "metadata": None,
    }
    if draw.random.random() < 0.5:
        options["tile"] = (16 * draw.random.randint(1, 3), 16 * draw.random.randint(1, 3))
    else:
        options["rowsperstrip"] = draw.random.randint(1, 40)
    if compression in ("lzw", "zlib", "zstd", "lzma") and np.dtype(dtype).itemsize < 8:
        options["predictor"] = draw.random.random() < 0.5
    draw.note(f"{dtype} {options}")
    return options


def _write(draw: Draw, array: NDArray[Any], options: dict[str, Any], num_channels: int) -> bytes:
    """With gray, RGB, RGBA or gray and alpha, contiguous or in planes."""
    options = dict(options, photometric="rgb" if num_channels >= 3 else "minisblack")
    if num_channels in (2, 4):
        options["extrasamples"] = ["unassalpha"]
    if num_channels == 1:
        return tifffile.write(array[..., 0], **options)
    options["planarconfig"] = draw.random.choice(["contig", "separate"])
    draw.note(f"{array.shape} {options['planarconfig']}")
    is_planar = options["planarconfig"] == "separate"
    return tifffile.write(np.moveaxis(array, -1, 0) if is_planar else array, **options)


@law("still", "samples are stored ones", [f"tiff/{dtype}/{c}" for dtype in LEVELS for c in COMPRESSIONS], *ORACLES)
def _levels(draw: Draw, form: str) -> None:
    _require_libtiff()
    _, dtype, compression = form.split("/")
    channels = draw.random.choice([1, 2, 3, 4])
    array = _samples(draw, dtype, *_size(draw), channels)
    data = _write(draw, array, _options(draw, compression, dtype), channels)
    judged = tifffile.read(data)
    assert judged.size == array.size
    made = stored(data)
    assert made.dtype == array.dtype
    assert np.array_equal(made.reshape(array.shape), array)
    colours = array[..., :3] if channels >= 3 else np.repeat(array[..., :1], 3, 2)
    # To the nearest level of 8 bits.
    levels = colours if dtype == "uint8" else (colours.astype(np.int64) * 255 + 32767) // 65535
    check_rgb(data, levels.astype(np.uint8))


@law("still", "samples are stored ones", [f"tiff/{dtype}" for dtype in OTHERS], *ORACLES)
def _others(draw: Draw, form: str) -> None:
    _require_libtiff()
    dtype = form.split("/")[1]
    channels = draw.random.choice([1, 2, 3, 4])
    array = _samples(draw, dtype, *_size(draw), channels)
    data = _write(draw, array, _options(draw, draw.random.choice(COMPRESSIONS), dtype), channels)
    orientation = draw.random.randint(1, 8)
    made = stored(data)
    assert made.dtype == array.dtype
    assert np.array_equal(made, array)
    check_refused(data, f"{8 * array.itemsize} bits")
    options = {"extratags": [(274, 3, 1, orientation, True)], "photometric": "minisblack", "metadata": None}
    upright = stored(tifffile.write(array[..., 0], **options), orient=True)
    assert np.array_equal(upright[..., 0], turned(array[..., 0], orientation)), orientation


@law("still", "samples are stored ones", ["tiff/channels"], *ORACLES)
def _channels(draw: Draw, form: str) -> None:
    _require_libtiff()
    array = _samples(draw, draw.random.choice(LEVELS), *_size(draw), draw.random.randint(5, 9))
    options = _options(draw, "zlib", str(array.dtype))
    data = tifffile.write(array, photometric="minisblack", planarconfig="contig", **options)
    assert np.array_equal(stored(data), array)
    check_refused(data, "channels that are no colours")


@law("still", "pixels", [f"tiff/{bits} bits" for bits in (1, 2, 4, 10, 12, 14)], *ORACLES)
def _packed(draw: Draw, form: str) -> None:
    """Depths that are packed: by imagecodecs, with strips of whole bytes."""
    _require_libtiff()
    bits = int(form.split("/")[1].split()[0])
    height, width = _size(draw)
    most = (1 << bits) - 1
    values = np.random.default_rng(draw.random.randrange(2**32)).integers(0, most + 1, (height, width), np.uint16)
    inverted = draw.random.random() < 0.3
    if bits == 1:
        array, options = values.astype(bool), {}
    else:
        array, options = values.astype(np.uint8 if bits < 8 else np.uint16), {"bitspersample": bits}
    meaning = "miniswhite" if inverted else "minisblack"
    # tifffile 2026.3 writes packed samples of big-endian files with their bytes swapped, and reads them so, too.
    order = draw.random.choice("<>") if bits < 8 else "<"
    draw.note(f"{values.shape} {meaning} {order}")
    data = tifffile.write(array, photometric=meaning, byteorder=order, metadata=None, **options)
    shown = most - values if inverted else values
    if bits in (10, 12, 14):
        assert np.array_equal(stored(data).reshape(height, width), shown)
    levels = np.rint(shown.astype(np.float64) * 255 / most).astype(np.uint8)
    check_rgb(data, np.repeat(levels[..., None], 3, 2))


def _picture(draw: Draw, mode: str) -> Image.Image:
    height, width = _size(draw)
    picture = Image.fromarray(_samples(draw, "uint8", height, width, 4), "RGBA")
    if mode == "P":
        return picture.convert("RGB").quantize(draw.random.randint(2, 256))
    return picture if mode == "RGBA" else picture.convert(mode)


@law("still", "pixels", [f"tiff/Pillow/{mode}" for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")])
def _of_pillow(draw: Draw, form: str) -> None:
    mode = form.split("/")[2]
    picture = _picture(draw, mode)
    names = ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"]
    compression = draw.random.choice([*names, "group3", "group4"] if mode == "1" else names)
    orientation = draw.random.randint(1, 8)
    draw.note(f"{picture.size} {compression} {orientation}")
    data = pillow.write(picture, "TIFF", compression=compression, tiffinfo={274: orientation})
    judged = np.asarray(picture.convert("RGB"))
    check_rgb(data, judged, 1 if mode == "YCbCr" else 0)
    if mode != "YCbCr":
        assert np.array_equal(rgb(data, orient=True), turned(judged, orientation))


@law("still", "pixels", ["tiff/JPEG"])
def _jpeg(draw: Draw, form: str) -> None:
    _require_libtiff()
    picture = _picture(draw, draw.random.choice(["L", "RGB", "CMYK"]))
    data = pillow.write(picture, "TIFF", compression="jpeg", quality=draw.random.randint(30, 95))
    check_rgb(data, pillow.pixels_of(data), 2)


@law("still", "pixels", ["tiff/CMYK"], *ORACLES)
def _inks(draw: Draw, form: str) -> None:
    _require_libtiff()
    dtype = draw.random.choice(LEVELS)
    array = _samples(draw, dtype, *_size(draw), 4)
    is_planar = draw.random.random() < 0.5
    options = dict(_options(draw, draw.random.choice(COMPRESSIONS), dtype), photometric="separated")
    options["planarconfig"] = "separate" if is_planar else "contig"
    data = tifffile.write(np.moveaxis(array, -1, 0) if is_planar else array, **options)
    most = np.iinfo(dtype).max
    inks = array.astype(np.float64) / most
    expected = np.rint((1 - inks[..., :3]) * (1 - inks[..., 3:]) * 255).astype(np.uint8)
    check_rgb(data, expected, 1)
