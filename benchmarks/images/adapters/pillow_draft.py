"""Pillow with ``draft``, and resize of a part: the decoder scales down first, as far as the target allows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.images._work import SIZE, Photo, Work

from ._canvas import fit, least_size, middle, one_by_one, shorter_side
from .pillow_resize import versions as versions


def _load(work: Work, photo: Photo) -> Any:
    with Image.open(photo.path) as picture:
        width, height = picture.size
        picture.draft("RGB", least_size(work, photo, width, height))
        pixels = picture.convert("RGB")
    across, down = pixels.width / width, pixels.height / height
    if work.transform == "fit":
        return np.asarray(pixels.resize(fit(width, height), Image.Resampling.BICUBIC))
    if work.transform == "eval":
        scaled_width, scaled_height = shorter_side(width, height)
        left, top = middle(scaled_width, scaled_height)
        across, down = pixels.width / scaled_width, pixels.height / scaled_height
        box = (left * across, top * down, (left + SIZE) * across, (top + SIZE) * down)
    else:
        top, left, crop_height, crop_width = photo.crop
        right, bottom = min(pixels.width, (left + crop_width) * across), min(pixels.height, (top + crop_height) * down)
        box = (left * across, top * down, right, bottom)
    return np.asarray(pixels.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box))


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]]:
    return one_by_one(work, photos, _load)
