"""Pillow as most people write it: open, convert, resize (bicubic, antialiased), copy into the batch."""

from typing import Any

import numpy as np
from PIL import Image, features
from PIL import __version__ as _version

from ._canvas import fill, fit


def versions() -> dict[str, str]:
    return {"pillow": _version, "libjpeg-turbo": str(features.version("libjpeg_turbo"))}


def _load_one(path: str) -> Any:
    with Image.open(path) as picture:
        pixels = picture.convert("RGB")
    return np.asarray(pixels.resize(fit(*pixels.size), Image.Resampling.BICUBIC))


def load(paths: list[str]) -> Any:
    return fill(_load_one, paths)
