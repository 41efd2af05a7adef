"""Pillow, with the plugin pillow-heif for HEIC."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

__all__ = ["pixels_of", "upright_pixels_of"]

Pixels = NDArray[np.uint8]


def pixels_of(data: bytes, mode: str = "RGB") -> Pixels:
    """The first picture as it is stored."""
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert(mode))


def upright_pixels_of(data: bytes) -> Pixels:
    """The first picture as its EXIF data or XMP says that it is shown."""
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
