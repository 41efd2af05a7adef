"""Pillow, with the plugin pillow-heif for HEIC. Not to be believed for 16 bits in colour, or WhiteIsZero of 16 bits."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

__all__ = ["pixels_of", "upright_pixels_of", "write"]

Pixels = NDArray[np.uint8]


def pixels_of(data: bytes, mode: str = "RGB") -> Pixels:
    """The first picture as it is stored."""
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert(mode))


def upright_pixels_of(data: bytes) -> Pixels:
    """The first picture as its EXIF data or XMP says that it is shown."""
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))


def write(picture: Image.Image, format: str, **options: Any) -> bytes:
    """The picture as a file of that format, with the options of ``Image.save``."""
    stream = io.BytesIO()
    picture.save(stream, format, **options)
    return stream.getvalue()
