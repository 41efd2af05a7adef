"""Pillow with ``draft``: the decoder scales down first, as far as that leaves at least the target; less quality."""

from typing import Any

import numpy as np
from PIL import Image

from ._canvas import fill, fit
from .pillow_resize import versions as versions


def _load_one(path: str) -> Any:
    with Image.open(path) as picture:
        size = fit(*picture.size)
        picture.draft("RGB", size)
        pixels = picture.convert("RGB")
    return np.asarray(pixels.resize(size, Image.Resampling.BICUBIC))


def load(paths: list[str]) -> Any:
    return fill(_load_one, paths)
