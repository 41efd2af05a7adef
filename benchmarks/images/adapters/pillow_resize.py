"""Pillow, or Pillow-SIMD, as most people write it and torchvision does: open, convert, crop, resize, crop."""

from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from PIL import Image, features

from benchmarks.images._work import SIZE, Photo, Work

from ._canvas import fit, middle, one_by_one, shorter_side, source_box


def versions() -> dict[str, str]:
    [name] = set(metadata.packages_distributions()["PIL"])
    return {name.lower(): metadata.version(name), "libjpeg-turbo": str(features.version("libjpeg_turbo"))}


def _load(work: Work, photo: Photo) -> Any:
    with Image.open(photo.path) as picture:
        pixels = picture.convert("RGB")
    if work.transform == "fit":
        return np.asarray(pixels.resize(fit(*pixels.size), Image.Resampling.BICUBIC))
    if work.transform == "eval":
        size = shorter_side(*pixels.size)
        left, top = middle(*size)
        scaled = pixels.resize(size, Image.Resampling.BILINEAR)
        return np.asarray(scaled.crop((left, top, left + SIZE, top + SIZE)))
    if work.transform == "whole":
        return np.asarray(pixels.resize((SIZE, SIZE), Image.Resampling.BILINEAR))
    if work.transform == "centre":
        left, top = middle(*pixels.size)
        return np.asarray(pixels.crop((left, top, left + SIZE, top + SIZE)))
    top, left, height, width = source_box(work, *pixels.size) if work.transform == "lower" else photo.crop
    part = pixels.crop((left, top, left + width, top + height))
    return np.asarray(part.resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]]:
    return one_by_one(work, photos, _load)
