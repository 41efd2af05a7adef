"""This checkout: one call of ``load_image_batch`` per batch."""

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from PIL import Image

import spdl.io
from benchmarks._contest.ours import spdl_version
from benchmarks.images._work import FLIP, LOWER, MEAN, RATIO, SCALE, SHORTER_SIDE, SIZE, STD, Photo, Work
from spdl.io import CenterCrop, Crop, ImageTransform, RandomResizedCrop, ShorterSide, sample_seeds
from spdl.io.lib import _core

from ._canvas import empty_batch, in_batches

SEED = 1


def versions() -> dict[str, str]:
    return {
        "spdl": spdl_version(),
        "libjpeg-turbo": _core.libjpeg_turbo_version(),
        "kernels": _core.instruction_sets()[-1],
    }


def _transform(work: Work) -> ImageTransform:
    pixels: dict[str, Any] = {"dtype": work.dtype, "exact": work.exact}
    if work.dtype == "float32":
        pixels |= {"mean": MEAN, "std": STD, "layout": "NCHW"}
    if work.transform == "eval":
        return ImageTransform(SIZE, resize=ShorterSide(SHORTER_SIDE), crop=CenterCrop(), **pixels)
    if work.transform == "whole":
        return ImageTransform(SIZE, **pixels)
    if work.transform == "centre":
        return ImageTransform(SIZE, crop=CenterCrop(), **pixels)
    return ImageTransform(SIZE, crop=RandomResizedCrop(scale=SCALE, ratio=RATIO), flip=FLIP, **pixels)


def draw(paths: list[str]) -> list[dict[str, Any]]:
    """The crop and flip that the training transform draws for each photograph, as fields of ``Photo``."""
    work = Work("train", "uint8", 0, len(paths))
    seeds = sample_seeds(SEED, 0, range(len(paths)))
    batch = spdl.io.load_image_batch(paths, transform=_transform(work), seeds=seeds)
    return [
        {"index": index, "path": path, "crop": applied.crop, "flip": applied.flip, "size": applied.source_size}
        for index, (path, applied) in enumerate(zip(paths, batch.applied, strict=True))
        if applied is not None  # it never is: an image that fails is an error
    ]


def prepare(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]] | None:
    if work.transform == "fit":
        return None if work.reuse else _fit(work, photos)
    if work.transform == "lower":
        return _lower(work, photos)
    transform, num_threads = _transform(work), 0 if work.num_threads == 1 else work.num_threads
    memory = empty_batch(work, work.batch) if work.reuse else None

    def batches() -> Iterator[Any]:
        for part in in_batches(work, photos):
            seeds = sample_seeds(SEED, 0, [photo.index for photo in part]) if work.transform == "train" else None
            paths, out = [photo.path for photo in part], None if memory is None else memory[: len(part)]
            yield spdl.io.to_numpy(
                spdl.io.load_image_batch(paths, transform=transform, num_threads=num_threads, seeds=seeds, out=out)
            )

    return batches


def _fit(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]]:
    """The form of the call that takes no transform. Two threads take a batch each."""
    pool = ThreadPoolExecutor(work.num_threads) if work.num_threads > 1 else None

    def load(part: Sequence[Photo]) -> Any:
        paths = [photo.path for photo in part]
        return spdl.io.to_numpy(spdl.io.load_image_batch(paths, width=SIZE, height=SIZE))

    return lambda: (map if pool is None else pool.map)(load, in_batches(work, photos))


def files_of(work: Work, photos: Sequence[Photo]) -> list[bytes]:
    """The files in memory; those of ``lower`` encoded again, with or without restart markers."""
    if work.transform != "lower":
        return [Path(photo.path).read_bytes() for photo in photos]
    files = []
    for photo in photos:
        stream = io.BytesIO()
        with Image.open(photo.path) as picture:
            picture.save(stream, "JPEG", quality=92, subsampling="4:2:0", restart_marker_rows=work.restart_rows)
        files.append(stream.getvalue())
    return files


def _lower(work: Work, photos: Sequence[Photo]) -> Callable[[], Iterator[Any]]:
    files = files_of(work, photos)
    width, height = _core.decode_planes(files[0])[0]
    crop = Crop(height - LOWER, (width - LOWER) // 2, LOWER, LOWER)
    transform = ImageTransform(SIZE, crop=crop, exact=work.exact, orient=False)

    def batches() -> Iterator[Any]:
        yield spdl.io.to_numpy(spdl.io.load_image_batch(files, transform=transform))

    return batches
