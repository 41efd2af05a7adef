"""Pillow, or Pillow-SIMD: open, convert, resize. AVIF in one thread, as all the rest."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
from PIL import Image, features

from ._pictures import SIZE, by_index, one_by_one

if features.check("avif"):
    from PIL import AvifImagePlugin

    AvifImagePlugin.DEFAULT_MAX_THREADS = 1


def versions() -> dict[str, str]:
    [name] = set(metadata.packages_distributions()["PIL"])
    libraries = {library: str(features.version(library)) for library in ("zlib", "webp", "libtiff")}
    return {name.lower(): metadata.version(name), **libraries}


def _whole(path: str) -> Any:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def _small(path: str) -> Any:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    try:
        _whole(data["paths"][0])
    except OSError:
        return None  # a build without the library of that format
    return one_by_one(data, _whole, _small)


def outputs(case: str, result: Any) -> dict[str, Any]:
    return by_index(result)
