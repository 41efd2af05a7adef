"""OpenCV: imread, resize by area (its antialiased way), to RGB, on one thread."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cv2

from benchmarks.images._work import Photo, Work

from ._canvas import one_by_one, transformed

cv2.setNumThreads(1)


def versions() -> dict[str, str]:
    return {"opencv": cv2.__version__}


def resize(pixels: Any, size: tuple[int, int]) -> Any:
    """By area if that makes it smaller, else bilinearly; ``size`` is width, height."""
    smaller = size[0] <= pixels.shape[1] and size[1] <= pixels.shape[0]
    return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)


def _load(work: Work, photo: Photo) -> Any:
    pixels = cv2.imread(photo.path)
    size = pixels.shape[1], pixels.shape[0]
    return cv2.cvtColor(transformed(pixels, work, photo, resize, size), cv2.COLOR_BGR2RGB)


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]]:
    return one_by_one(work, photos, _load)
