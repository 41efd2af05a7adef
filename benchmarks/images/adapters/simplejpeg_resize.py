"""simplejpeg over libjpeg-turbo: decoded at half, a quarter or an eighth if large enough, then OpenCV's resize."""

from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import simplejpeg

from benchmarks.images._work import Photo, Work

from ._canvas import least_size, one_by_one, transformed
from .opencv_resize import resize


def versions() -> dict[str, str]:
    return {"simplejpeg": metadata.version("simplejpeg")}


def _load(work: Work, photo: Photo) -> Any:
    data = Path(photo.path).read_bytes()
    height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    least_width, least_height = least_size(work, photo, width, height)
    # It supports seven eighths too, but that takes longer than full size.
    factor = 2 if 2 * least_width <= width and 2 * least_height <= height else 1
    small = {"min_height": least_height, "min_width": least_width, "min_factor": 2} if factor == 2 else {}
    pixels = simplejpeg.decode_jpeg(data, "RGB", **small)
    return transformed(pixels, work, photo, resize, (width, height))


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]]:
    return one_by_one(work, photos, _load)
