"""Step 1, a change of one line: the same dataset and the same arguments for another loader."""

from collections.abc import Iterable
from typing import Any

from benchmarks._contest.ours import spdl_version
from benchmarks.migration._datasets import PhotoDataset
from benchmarks.migration._photos import Photos
from spdl.dataloader import get_pytorch_dataloader


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def make(photos: Photos, num_workers: int, batch_size: int | None) -> Iterable[Any]:
    return get_pytorch_dataloader(
        PhotoDataset(photos), batch_size=batch_size, num_workers=num_workers, workers="thread"
    )
