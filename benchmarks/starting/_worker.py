"""One contestant in one training process: ``python -m benchmarks.starting._worker NAME``."""

import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

from benchmarks._contest.worker import serve

#: Settings of every loader.
NUM_WORKERS = 2
BATCH = 4
NUM_BATCHES = 16


def make_loader(name: str) -> Iterable[Any]:
    """A loader whose workers end with each epoch."""
    import torch

    from spdl.dataloader import get_pytorch_dataloader

    from ._slow_dataset import Squares

    dataset: Any = Squares(BATCH * NUM_BATCHES)
    if name == "spdl":
        return get_pytorch_dataloader(
            dataset, BATCH, num_workers=NUM_WORKERS, workers="process", multiprocessing_context="forkserver"
        )
    method = {"torch_fork": "fork", "torch_forkserver": "forkserver"}[name]
    return torch.utils.data.DataLoader(dataset, BATCH, num_workers=NUM_WORKERS, multiprocessing_context=method)


class Trainer:
    """A consumer that does nothing with its batches."""

    def __init__(self, name: str) -> None:
        self._loader = make_loader(name)

    def digest(self) -> list[list[int]]:
        """The batches of an epoch."""
        return [batch.tolist() for batch in self._loader]

    def epoch(self) -> float:
        """Seconds of an epoch, from before its workers are started until they have ended."""
        start = time.perf_counter()
        for _ in self._loader:
            pass
        return time.perf_counter() - start

    def describe(self) -> dict[str, str]:
        """The versions of the packages."""
        return {package: metadata.version(package) for package in ("torch", "numpy")}


def _commands() -> dict[str, Callable[..., Any]]:
    trainer = Trainer(sys.argv[1])
    return {"digest": trainer.digest, "epoch": trainer.epoch, "describe": trainer.describe}


if __name__ == "__main__":
    serve(_commands)
