"""Saving: a file holds what the array held, judged by Pillow, OpenCV and tifffile, or the format is refused."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from tests.differential.cells import Draw, law
from tests.differential.judges import tifffile
from tests.differential.stills.pictures import draw_pixels, draw_size

#: Pixel format -> channels and bytes of a sample.
LAYOUTS: Final = {
    "gray": (1, 1),
    "ya8": (2, 1),
    "rgb24": (3, 1),
    "rgba": (4, 1),
    "gray16": (1, 2),
    "ya16": (2, 2),
    "rgb48": (3, 2),
    "rgba64": (4, 2),
}
#: What each format without loss keeps; all others of LAYOUTS are refused.
KEPT: Final[dict[str, tuple[str, ...]]] = {
    "png": tuple(LAYOUTS),
    "tiff": tuple(LAYOUTS),
    "pam": tuple(LAYOUTS),
    "ppm": ("gray", "rgb24", "gray16", "rgb48"),
    "pgm": ("gray", "gray16"),
    "bmp": ("gray", "rgb24"),
    "tga": ("gray", "ya8", "rgb24", "rgba"),
}
#: What formats with loss take, and how many levels their mean is off at most.
LOSSY: Final = {
    ("jpg", "gray"): 1.5,
    ("jpg", "rgb24"): 2.5,
    ("webp", "rgb24"): 6.0,
    ("webp", "rgba"): 6.0,
    ("jp2", "gray"): 2.0,
    ("jp2", "rgb24"): 2.0,
}


def _array(draw: Draw, layout: str) -> NDArray[Any]:
    channels, size = LAYOUTS[layout]
    height, width = draw_size(draw)
    rng = np.random.default_rng(draw.random.getrandbits(32))
    shape = (height, width) if channels == 1 else (height, width, channels)
    return rng.integers(0, 256**size, shape).astype(np.uint8 if size == 1 else np.uint16)


def _judged(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """What another reader gives: tifffile, OpenCV for 16 bits, else Pillow."""
    if path.suffix == ".tiff":
        return tifffile.read(path.read_bytes())
    if dtype == np.uint8:
        with Image.open(path) as picture:
            return np.asarray(picture.convert("RGB") if picture.mode == "P" else picture)
    import cv2

    array: Any = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    return np.asarray(array if array.ndim == 2 else array[..., [2, 1, 0, 3][: array.shape[2]]])


def _colours(array: NDArray[Any]) -> NDArray[Any]:
    """RGB, as ``load_image`` gives it."""
    planes = array[..., None] if array.ndim == 2 else array
    colours = planes[..., :3] if planes.shape[2] >= 3 else np.repeat(planes[..., :1], 3, 2)
    return colours if array.dtype == np.uint8 else (colours.astype(np.int64) * 255 + 32767) // 65535


@law("still", "saved without loss", [f"{name}/{layout}" for name, kept in KEPT.items() for layout in kept])
def saved_files_hold_the_array(draw: Draw, form: str) -> None:
    """Both as other readers and as ``load_image`` read them."""
    name, layout = form.split("/")
    array = _array(draw, layout)
    path = draw.folder / f"picture.{name}"
    draw.note(f"{array.shape} {array.dtype}")
    spdl.io.save_image(path, array, layout)
    assert np.array_equal(spdl.io.to_numpy(spdl.io.load_image(path)), _colours(array))
    if name in ("png", "tiff", "pam"):
        stored = spdl.io.to_numpy(spdl.io.load_image(path, filter_desc=None))
        assert np.array_equal(stored.reshape(array.shape), array)


@law(
    "still",
    "saved for other readers",
    [f"{name}/{layout}" for name in ("png", "tiff", "ppm", "pgm", "bmp", "tga") for layout in KEPT[name]],
    "cv2",
    "tifffile",
    "imagecodecs",
)
def other_readers_give_the_array(draw: Draw, form: str) -> None:
    """Gray with 16 bits and alpha in PNG has no reader of its own: OpenCV gives it as four channels."""
    name, layout = form.split("/")
    array = _array(draw, layout)
    path = draw.folder / f"picture.{name}"
    draw.note(f"{array.shape} {array.dtype}")
    spdl.io.save_image(path, array, layout)
    judged = _judged(path, array.dtype)
    if judged.shape != array.shape:  # gray as colours
        planes = array[..., None] if array.ndim == 2 else array
        gray = [0, 0, 0, 1][: judged.shape[2]] if planes.shape[2] < 3 else list(range(judged.shape[2]))
        assert np.array_equal(judged, planes[..., gray])
        return
    assert judged.dtype == array.dtype
    assert np.array_equal(judged, array)


@law("still", "saved with loss", [f"{name}/{layout}" for name, layout in LOSSY])
def lossy_files_are_near_the_array(draw: Draw, form: str) -> None:
    """A gray JPEG has one component."""
    name, layout = form.split("/")
    height, width = draw_size(draw)
    pixels = draw_pixels(draw, height + 8, width + 8)
    array = pixels[..., 0] if layout == "gray" else pixels
    if layout == "rgba":
        array = np.concatenate([pixels, np.full_like(pixels[..., :1], 255)], 2)
    path = draw.folder / f"picture.{name}"
    draw.note(array.shape)
    spdl.io.save_image(path, array, layout)
    with Image.open(path) as picture:
        if layout == "gray":
            assert picture.mode == "L"
        judged = np.asarray(picture.convert("RGB")).astype(int)
    assert np.abs(judged - _colours(array)).mean() <= LOSSY[name, layout]
    assert np.abs(spdl.io.to_numpy(spdl.io.load_image(path)).astype(int) - judged).mean() <= 3


_REFUSED: Final = [
    *(f"{name}/{layout}" for name, kept in KEPT.items() for layout in LAYOUTS if layout not in kept),
    *(f"{name}/{layout}" for name in ("jpg", "webp", "gif") for layout in LAYOUTS if LAYOUTS[layout][1] == 2),
    *("jpg/rgba", "jpg/ya8", "gif/rgba", "gif/ya8", "pfm/gray", "exr/rgb24"),
]


@law("still", "refused where something would be lost", ["save_image"])
def what_a_format_cannot_hold_is_refused(draw: Draw, form: str) -> None:
    """With the file, the format of the pixels and the way out; nothing is written."""
    for each in draw.random.sample(_REFUSED, 8):
        name, layout = each.split("/")
        draw.note(each)
        path = draw.folder / f"picture.{name}"
        with pytest.raises(spdl.io.EncodeError, match=rf"picture\.{name}: .* holds .*{layout}.*; convert it first"):
            spdl.io.save_image(path, _array(draw, layout), layout)
        assert not path.exists()
