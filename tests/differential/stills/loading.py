"""What SPDL makes of a still on each entry point, for the cells to compare."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spdl.io
from spdl.io import ImageTransform

__all__ = ["check_refused", "check_rgb", "fitted", "rgb", "stored", "turned"]


def rgb(source: bytes | Path, *, orient: bool = False) -> NDArray[np.uint8]:
    """``load_image`` in RGB."""
    array: NDArray[np.uint8] = spdl.io.to_numpy(spdl.io.load_image(source, orient=orient))
    return array


def stored(source: bytes | Path, *, orient: bool = False) -> NDArray[Any]:
    """``load_image`` without a filter."""
    array: NDArray[Any] = spdl.io.to_numpy(spdl.io.load_image(source, filter_desc=None, orient=orient))
    return array


def fitted(source: bytes | Path, height: int, width: int) -> dict[str, NDArray[np.uint8]]:
    """``load_image_batch`` at the size of the picture: with a size, and with transforms of each dtype and layout."""
    made: dict[str, NDArray[np.uint8]] = {
        "fitted": spdl.io.to_numpy(spdl.io.load_image_batch([source], width=width, height=height))[0]
    }
    for dtype in ("uint8", "float32", "float16"):
        for layout in ("NHWC", "NCHW"):
            transform = ImageTransform((height, width), dtype=dtype, layout=layout, exact=True, orient=False)
            array = spdl.io.to_numpy(spdl.io.load_image_batch([source], transform=transform))[0]
            array = np.moveaxis(array, 0, -1) if layout == "NCHW" else array
            levels = array if dtype == "uint8" else np.rint(array.astype(np.float64) * 255)
            made[f"{dtype} {layout}"] = levels.astype(np.uint8)
    return made


def check_rgb(source: bytes | Path, expected: NDArray[np.uint8], most: int = 0) -> None:
    """Every entry point gives these levels, to within ``most``."""
    made = {"image": rgb(source), **fitted(source, *expected.shape[:2])}
    for way, pixels in made.items():
        assert pixels.shape == expected.shape, (way, pixels.shape, expected.shape)
        difference = int(np.abs(pixels.astype(int) - expected).max())
        assert difference <= most, (way, difference)


def check_refused(source: bytes | Path, reason: str) -> None:
    """Where 8 bits are wanted, it is refused with this reason and the way out."""
    loads: tuple[Callable[[], Any], ...] = (
        lambda: spdl.io.load_image(source),
        lambda: spdl.io.load_image_batch([source], width=8, height=8),
        lambda: spdl.io.load_image_batch([source], transform=ImageTransform(8)),
    )
    for load in loads:
        try:
            load()
        except spdl.io.BatchLoadError as exc:
            text = str(exc.failures[0].error)
        except spdl.io.DecodeError as exc:
            text = str(exc)
        else:
            raise AssertionError("it was not refused")
        assert reason in text, text
        assert "filter_desc=None" in text, text


def turned(array: NDArray[Any], orientation: int) -> NDArray[Any]:
    """The array ``(height, width, ...)``, turned upright from an orientation of EXIF (JEITA CP-3451, 4.6.4)."""
    if orientation >= 5:
        array = np.swapaxes(array, 0, 1)
        orientation = {5: 1, 6: 2, 7: 3, 8: 4}[orientation]
    return {1: array, 2: array[:, ::-1], 3: array[::-1, ::-1], 4: array[::-1]}[orientation]
