"""Step 3: files to a batch with one native call, in which all threads work together.

The total number of threads is the number of workers: one call at a time, whose threads share the pictures of a batch.
So the first batch is ready as early as possible, and later ones are as fast as with several calls at once.
"""

from collections.abc import Iterable
from typing import Any

import torch

from benchmarks._contest.ours import spdl_version
from benchmarks.migration._cells import SIZE
from benchmarks.migration._photos import Photos
from spdl.io import ImageTransform, load_image_batch, to_torch
from spdl.pipeline import Pipeline, PipelineBuilder

from ._running import Running

# Pillow does not apply the orientation by default.
TRANSFORM = ImageTransform(SIZE, layout="NCHW", orient=False)


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def make(photos: Photos, num_workers: int, batch_size: int | None) -> Iterable[Any]:
    if batch_size is None:
        raise ValueError("this step loads whole batches: batch_size must be a number, got None")

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
