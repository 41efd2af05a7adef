"""Ray Data: the batches are made in ``map_batches`` and read by ``iter_torch_batches``; ``way`` is what decodes."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import metadata
from typing import Any

import numpy as np

from benchmarks.ray._work import BATCH, fill, load, load_with_pillow


def versions() -> dict[str, str]:
    return {package: metadata.version(package) for package in ("ray", "pyarrow", "torch", "pillow")}


class _Batches:
    def __init__(self, way: str, work: str, chunks: Sequence[Sequence[str]]) -> None:
        import ray

        ray.data.DataContext.get_current().enable_progress_bars = False
        make = fill if work == "fill" else load if way == "spdl" else load_with_pillow
        paths = [path for chunk in chunks for path in chunk]
        self._dataset: Any = ray.data.from_items([{"path": path} for path in paths], override_num_blocks=4).map_batches(
            lambda rows: {"picture": make([str(path) for path in rows["path"]])}, batch_size=BATCH
        )

    def __iter__(self) -> Iterator[Any]:
        for batch in self._dataset.iter_torch_batches(batch_size=BATCH):
            yield np.asarray(batch["picture"])


def open_batches(stack: ExitStack, way: str, work: str, chunks: Sequence[Sequence[str]]) -> _Batches | None:
    return _Batches(way, work, chunks)
