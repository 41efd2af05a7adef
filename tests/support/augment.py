"""The expected results of image transforms, from Pillow and NumPy alone, in an independent implementation.

Geometry and order of work are those of torchvision's transforms on PIL images (torchvision/transforms/functional.py,
``_functional_pil.py``, ``transforms.py``; when this was written it gave the bytes of version 0.29 in some thousand
random cases), and those of FFmpeg's ``scale`` and ``pad`` for a fitted picture: ``tests/golden/placements.json`` has
FFmpeg's own numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image, ImageOps

__all__ = [
    "FILTERS",
    "ROUNDING",
    "Applied",
    "Box",
    "Interpolation",
    "bfloat16_bits",
    "center_crop",
    "center_window",
    "draw_resized_crop",
    "fallback_crop",
    "fit_inside",
    "normalized",
    "pad_to_fit",
    "replayed",
    "resize_shorter",
    "resized_crop",
    "shorter_size",
]

Pixels: TypeAlias = NDArray[np.uint8]
Size: TypeAlias = tuple[int, int]  # height, width
Interpolation: TypeAlias = Literal["nearest", "box", "bilinear", "bicubic", "lanczos"]

FILTERS: dict[Interpolation, Image.Resampling] = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


#: Levels by which versions of Pillow may differ: before version 13 it always resampled rows first; since then it
#: resamples columns first where that leaves much less (``ImagingResampleInner``), and SPDL does the same. Not every
#: Python has wheels of version 13.
ROUNDING = 0 if int(PIL.__version__.partition(".")[0]) >= 13 else 4


class Applied(Protocol):
    """The geometry that a transform reports for one picture; sizes are ``(height, width)``."""

    @property
    def crop(self) -> tuple[int, int, int, int]: ...
    @property
    def resized(self) -> Size: ...
    @property
    def window(self) -> tuple[int, int, int, int]: ...
    @property
    def offset(self) -> tuple[int, int]: ...
    @property
    def flip(self) -> bool: ...
    @property
    def vertical_flip(self) -> bool: ...
    @property
    def size(self) -> Size: ...


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of pixels."""

    top: int
    left: int
    height: int
    width: int

    def cut(self, picture: Image.Image) -> Image.Image:
        """Crop a part of the picture; the area outside the picture is black."""
        return picture.crop((self.left, self.top, self.left + self.width, self.top + self.height))


def shorter_size(height: int, width: int, length: int) -> Size:
    """The size after ``Resize(length)`` (``_compute_resized_output_size``)."""
    short, long = min(height, width), max(height, width)
    other = int(length * long / short)
    return (length, other) if height <= width else (other, length)


def resize(picture: Image.Image, size: Size, interpolation: Interpolation) -> Image.Image:
    """The picture at that height and width."""
    return picture.resize(size[::-1], FILTERS[interpolation])


def resize_shorter(picture: Image.Image, length: int, interpolation: Interpolation = "bilinear") -> Image.Image:
    """``Resize(length)``."""
    return resize(picture, shorter_size(picture.height, picture.width, length), interpolation)


def center_window(height: int, width: int, size: Size) -> Box:
    """The rectangle of ``CenterCrop(size)`` in a picture at least as large; halves round to the even number."""
    return Box(round((height - size[0]) / 2.0), round((width - size[1]) / 2.0), *size)


def center_crop(picture: Image.Image, size: Size, fill: int | tuple[int, ...] = 0) -> Image.Image:
    """``CenterCrop(size)``, which pads a smaller picture, with the odd pixel on the right and below."""
    high, wide = max(size[0] - picture.height, 0), max(size[1] - picture.width, 0)
    if high or wide:
        border = (wide // 2, high // 2, (wide + 1) // 2, (high + 1) // 2)
        picture = ImageOps.expand(picture, border, fill)
    return center_window(picture.height, picture.width, size).cut(picture)


def resized_crop(picture: Image.Image, box: Box, size: Size, interpolation: Interpolation = "bilinear") -> Image.Image:
    """``resized_crop``: pixels outside the box have no weight."""
    return resize(box.cut(picture), size, interpolation)


def draw_resized_crop(
    rng: np.random.Generator, height: int, width: int, scale: Sequence[float], ratio: Sequence[float]
) -> Box | None:
    """One draw of ``RandomResizedCrop.get_params``, or None if none of its ten tries fits."""
    for _ in range(10):
        area = height * width * rng.uniform(scale[0], scale[1])
        aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        wide, high = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < high <= height:
            return Box(int(rng.integers(height - high + 1)), int(rng.integers(width - wide + 1)), high, wide)
    return None


def fallback_crop(height: int, width: int, ratio: Sequence[float]) -> Box:
    """The central crop that ``RandomResizedCrop.get_params`` falls back to."""
    if width / height < min(ratio):
        wide, high = width, round(width / min(ratio))
    elif width / height > max(ratio):
        wide, high = round(height * max(ratio)), height
    else:
        wide, high = width, height
    return Box((height - high) // 2, (width - wide) // 2, high, wide)


def fit_inside(height: int, width: int, size: Size) -> Box:
    """The place on a canvas of a picture that keeps its aspect ratio; sides are rounded to the nearest, halves up."""

    def scaled(side: int, numerator: int, denominator: int) -> int:
        return math.floor(Fraction(side * numerator, denominator) + Fraction(1, 2))

    high = min(max(scaled(size[1], height, width), 1), size[0])
    wide = min(max(scaled(size[0], width, height), 1), size[1])
    return Box((size[0] - high) // 2, (size[1] - wide) // 2, high, wide)


def pad_to_fit(
    picture: Image.Image,
    size: Size,
    interpolation: Interpolation = "bilinear",
    *,
    is_centered: bool = True,
    fill: int | tuple[int, ...] = 0,
) -> Image.Image:
    """The picture at the largest size that fits, on a canvas of ``fill``."""
    box = fit_inside(picture.height, picture.width, size)
    canvas = Image.new(picture.mode, size[::-1], fill)
    canvas.paste(
        resize(picture, (box.height, box.width), interpolation), (box.left, box.top) if is_centered else (0, 0)
    )
    return canvas


def replayed(
    picture: Image.Image, applied: Applied, interpolation: Interpolation = "bilinear", fill: int | tuple[int, ...] = 0
) -> Image.Image:
    """Apply a recorded geometry: crop, resample, crop again, place, mirror.

    Args:
        picture: The upright picture.
    """
    shown = resize(Box(*applied.crop).cut(picture), applied.resized, interpolation)
    canvas = Image.new(picture.mode, applied.size[::-1], fill)
    canvas.paste(Box(*applied.window).cut(shown), applied.offset[::-1])
    if applied.flip:
        canvas = canvas.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if applied.vertical_flip:
        canvas = canvas.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    return canvas


def normalized(levels: Pixels, mean: Sequence[float] = (0.0,), std: Sequence[float] = (1.0,)) -> NDArray[np.float32]:
    """``(level / 255 - mean) / std`` of the last axis: one product and one sum, each rounded to ``float32``."""
    factor = (1.0 / (255.0 * np.asarray(std, np.float64))).astype(np.float32)
    summand = (-np.asarray(mean, np.float64) / np.asarray(std, np.float64)).astype(np.float32)
    product: NDArray[np.float32] = levels.astype(np.float32) * factor
    return product + summand


def bfloat16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper half of each ``float32``, rounded to the nearest, halves to the even number (IEEE 754, 4.3.1)."""
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
