"""Steps 1 and 2: the dataset as it is, called by threads; then batches by ``aggregate`` and ``default_collate``."""

from collections.abc import Iterable
from typing import Any

from torch.utils.data import default_collate

from benchmarks._contest.ours import spdl_version
from benchmarks.migration._datasets import PhotoDataset
from benchmarks.migration._photos import Photos
from spdl.pipeline import Pipeline, PipelineBuilder

from ._running import Running


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def make(photos: Photos, num_workers: int, batch_size: int | None) -> Iterable[Any]:
    dataset = PhotoDataset(photos)

    def build() -> Pipeline[Any]:
        builder = (
            PipelineBuilder()
            .add_source(range(len(dataset)))
            .pipe(dataset.__getitem__, concurrency=num_workers, output_order="input")
        )
        if batch_size is not None:
            builder.aggregate(batch_size).pipe(default_collate)
        return builder.add_sink(1).build(num_threads=num_workers)

    return Running(build)
