"""OpenCV: the decoder gives half the size if that is large enough; then resize by area."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cv2

from benchmarks.images._work import Photo, Work

from ._canvas import one_by_one, transformed
from .opencv_resize import resize
from .opencv_resize import versions as versions


def _load(work: Work, photo: Photo) -> Any:
    pixels = cv2.imread(photo.path, cv2.IMREAD_REDUCED_COLOR_2)
    size = pixels.shape[1], pixels.shape[0]
    return cv2.cvtColor(transformed(pixels, work, photo, resize, size), cv2.COLOR_BGR2RGB)


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]] | None:
    return one_by_one(work, photos, _load) if work.transform == "whole" else None
