"""One peer in one process: ``python -m benchmarks.migration._worker PEER``.

It imports the peer and then only forks: each measurement runs in a fresh child. Memory is an exception, because a child
shares it with the parent: there, this process does the work itself, once.
"""

import gc
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks._contest.processes import cpu_seconds_of, descendants
from benchmarks._contest.worker import serve

from ._cases import PEERS
from ._forked import in_child
from ._photos import Photos

#: The minimum time between the first batch and the timed part.
WARM_UP_SECONDS = 0.25


class Measured:
    """A peer and its commands. Arguments are those of a ``Cell``, and the paths of the photographs."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def save(self, paths: list[str], batch: int, workers: int, num_samples: int, to: str) -> None:
        """The first samples, as arrays; the rest of the loader is discarded."""

        def call() -> None:
            import numpy as np

            images: list[Any] = []
            labels: list[Any] = []
            sizes = []
            for each, of_each in self._loader(paths, batch, workers):
                images.extend(each.numpy() if batch else [each.numpy()])
                labels.extend(of_each.tolist() if batch else [of_each])
                sizes.append(len(of_each) if batch else 0)
                if len(labels) >= num_samples:
                    break
            np.savez(to, images=np.stack(images), labels=np.array(labels), sizes=np.array(sizes))

        in_child(call)

    def time(self, paths: list[str], batch: int, workers: int, seconds: float) -> dict[str, float]:
        """See ``timed``."""
        result: dict[str, float] = in_child(
            lambda: timed(self._loader(paths, batch, workers), batch or 1, workers, seconds)
        )
        return result

    def run(self, paths: list[str], batch: int, workers: int, seconds: float) -> None:
        """Iterate in this process, then let the loader fill its buffers, as it does with a busy consumer."""
        start = time.perf_counter()
        batches = iter(self._loader(paths, batch, workers))
        taken = 0
        while taken <= workers or time.perf_counter() - start < seconds:
            held = next(batches)
            taken += 1
        # torch's loader prefetches two batches for each worker, others fewer.
        time.sleep(2 * workers * (time.perf_counter() - start) / taken)
        del held

    def epoch(self, dataset: str, mode: str, paths: list[str], num_samples: int, workers: int) -> dict[str, Any]:
        """Seconds of one epoch, from making the loader to its end, and the reason for its choice."""
        result: dict[str, Any] = in_child(lambda: timed_epoch(dataset, mode, paths, num_samples, workers))
        return result

    def _loader(self, paths: list[str], batch: int, workers: int) -> Iterable[Any]:
        loader: Iterable[Any] = self._adapter.make(Photos.of(paths), workers, batch or None)
        return loader


def timed(loader: Iterable[Any], batch: int, workers: int, seconds: float) -> dict[str, float]:
    """Time a consumer that does nothing with the batches.

    The first batch is timed from the call of ``iter``. The throughput is timed after every worker has given a batch,
    in whole rounds of the workers, because batches come in bursts; in a round each worker makes one batch.

    Returns:
        ``first``: seconds. ``wall`` and ``cpu``: seconds, and CPU seconds of all processes, for ``images``.
    """
    gc.collect()
    start = time.perf_counter()
    batches = iter(loader)
    next(batches)
    first = time.perf_counter() - start
    taken = 1
    while taken < workers or time.perf_counter() - start - first < WARM_UP_SECONDS:
        next(batches)
        taken += 1
    pids = [os.getpid(), *descendants()]
    cpu, begin = cpu_seconds_of(pids), time.perf_counter()
    taken = 0
    while taken == 0 or taken % workers or time.perf_counter() - begin < seconds:
        next(batches)
        taken += 1
    wall = time.perf_counter() - begin
    return {"first": first, "wall": wall, "cpu": cpu_seconds_of(pids) - cpu, "images": taken * batch}


def timed_epoch(dataset: str, mode: str, paths: list[str], num_samples: int, workers: int) -> dict[str, Any]:
    from spdl.dataloader import get_pytorch_dataloader

    from ._datasets import PhotoDataset, PythonDataset

    samples = PhotoDataset(Photos.of(paths, num_samples)) if dataset == "photographs" else PythonDataset(num_samples)
    gc.collect()
    start = time.perf_counter()
    loader = get_pytorch_dataloader(samples, batch_size=32, num_workers=workers, workers=mode)
    seen = sum(len(labels) for _, labels in loader)
    wall = time.perf_counter() - start
    if seen != num_samples:
        raise RuntimeError(f"workers={mode!r} gave {seen} of {num_samples} samples of {dataset}")
    return {"wall": wall, "choice": str(loader.choice) if mode == "auto" else ""}


def main(name: str) -> None:
    def make() -> dict[str, Callable[..., Any]]:
        [module] = [peer.adapter for peer in PEERS if peer.name == name]
        adapter = importlib.import_module(f".adapters.{module}", __package__)
        measured = Measured(adapter)
        return {
            "describe": adapter.versions,
            "pid": os.getpid,
            "save": measured.save,
            "time": measured.time,
            "run": measured.run,
            "epoch": measured.epoch,
        }

    serve(make)


if __name__ == "__main__":
    main(sys.argv[1])
