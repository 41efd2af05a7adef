"""Step 3 as in the document that this benchmark reproduces: frames stay as decoded until the batch is made."""

from collections.abc import Iterable
from typing import Any

import torch

import spdl.io
from benchmarks._contest.ours import spdl_version
from benchmarks.migration._cells import SIZE
from benchmarks.migration._photos import Photos
from spdl.pipeline import Pipeline, PipelineBuilder

from ._running import Running

FILTER = spdl.io.get_video_filter_desc(scale_width=SIZE, scale_height=SIZE, scale_mode=None)


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def convert(samples: list[tuple[Any, int]]) -> tuple[Any, Any]:
    frames, labels = zip(*samples, strict=True)
    images = spdl.io.to_torch(spdl.io.convert_frames(list(frames)))
    return images.permute(0, 3, 1, 2), torch.tensor(labels)


def make(photos: Photos, num_workers: int, batch_size: int | None) -> Iterable[Any]:
    if batch_size is None:
        raise ValueError("the frames of a batch are converted together: batch_size must be a number, got None")

    def decode(index: int) -> tuple[Any, int]:
        path, label = photos.sample(index)
        return spdl.io.decode_packets(spdl.io.demux_image(path), filter_desc=FILTER), label

    def build() -> Pipeline[Any]:
        return (
            PipelineBuilder()
            .add_source(range(len(photos)))
            .pipe(decode, concurrency=num_workers, output_order="input")
            .aggregate(batch_size)
            .pipe(convert)
            .add_sink(1)
            .build(num_threads=num_workers)
        )

    return Running(build)
