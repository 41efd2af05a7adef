"""Step 3: files to a batch by one native call, which all of the threads share.

As many threads as workers, in all: one call at a time, and its threads decode the pictures of one batch together. So
the first batch is there as soon as it can be, and later ones are made as fast as by several calls at once.
"""

from collections.abc import Iterable
from importlib import metadata
from typing import Any

import torch

from benchmarks.migration._cases import SIZE
from benchmarks.migration._photos import Photos
from spdl.io import ImageTransform, load_image_batch, to_torch
from spdl.pipeline import Pipeline, PipelineBuilder

from ._running import Running

# Pillow does not turn pictures upright unless it is told to.
TRANSFORM = ImageTransform(SIZE, layout="NCHW", orient=False)


def versions() -> dict[str, str]:
    return {"spdl": metadata.version("spdl")}


def make(photos: Photos, num_workers: int, batch_size: int | None) -> Iterable[Any]:
    if batch_size is None:
        raise ValueError("whole batches are loaded: batch_size must be a number, got None")

    def load(indices: list[int]) -> tuple[Any, Any]:
        paths, labels = zip(*map(photos.sample, indices), strict=True)
        images = load_image_batch(paths, transform=TRANSFORM, num_threads=num_workers)
        return to_torch(images), torch.tensor(labels)

    def build() -> Pipeline[Any]:
        return (
            PipelineBuilder()
            .add_source(range(len(photos)))
            .aggregate(batch_size)
            .pipe(load)
            .add_sink(1)
            .build(num_threads=1)
        )

    return Running(build)
