"""SPDL's loader with worker processes, forked from a template process that has imported the dataset's module."""

from collections.abc import Callable
from typing import Any

from spdl.dataloader import get_pytorch_dataloader

from ._epoch import BATCH, NUM_WORKERS, epoch_of, make_dataset
from ._epoch import outputs as outputs
from ._epoch import versions as versions


def prepare(case: str, data: dict[str, Any]) -> Callable[[], list[Any]]:
    loader: Any = get_pytorch_dataloader(
        make_dataset(), BATCH, num_workers=NUM_WORKERS, workers="process", multiprocessing_context="forkserver"
    )
    return epoch_of(loader)
