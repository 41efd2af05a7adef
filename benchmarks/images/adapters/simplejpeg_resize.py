"""simplejpeg, a thin layer over libjpeg-turbo, with OpenCV's resize after it."""

from importlib import metadata
from pathlib import Path
from typing import Any

import simplejpeg

from ._canvas import fill
from .opencv_resize import resize


def versions() -> dict[str, str]:
    return {"simplejpeg": metadata.version("simplejpeg")}


def _load_one(path: str) -> Any:
    return resize(simplejpeg.decode_jpeg(Path(path).read_bytes(), "RGB"))


def load(paths: list[str]) -> Any:
    return fill(_load_one, paths)
