"""OpenCV: imread, resize by area (its antialiased way), to RGB, on one thread."""

from typing import Any

import cv2

from ._canvas import fill, fit

cv2.setNumThreads(1)


def versions() -> dict[str, str]:
    return {"opencv": cv2.__version__}


def resize(pixels: Any) -> Any:
    """Antialiased, to fit."""
    return cv2.resize(pixels, fit(pixels.shape[1], pixels.shape[0]), interpolation=cv2.INTER_AREA)


def _load_one(path: str) -> Any:
    return cv2.cvtColor(resize(cv2.imread(path)), cv2.COLOR_BGR2RGB)


def load(paths: list[str]) -> Any:
    return fill(_load_one, paths)
