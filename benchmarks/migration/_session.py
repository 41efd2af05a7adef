"""Sessions of this benchmark: a cell, its memory, and an epoch of ``workers="thread"``, ``"process"`` or ``"auto"``.

A worker imports the peer and then only forks: each measurement runs in a fresh child. Memory is an exception, because a
child shares it with the parent: there, the worker does the work itself, once.
"""

import gc
import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest.processes import cpu_seconds_of, descendants
from benchmarks._contest.session import Session, Task

from ._forked import in_child
from ._memory import Watcher, memory_of_tree
from ._photos import Photos

#: The minimum time between the first batch and the timed part.
WARM_UP_SECONDS = 0.25


def open(adapter: Any, task: Task) -> Session:
    data = task.data
    if "dataset" in data:
        return Epoch(data["dataset"], task.settings["mode"], data["paths"], data["num_samples"])
    kind = Memory if data["is_memory"] else Throughput
    return kind(adapter, data["paths"], data["batch"], data["workers"], data["num_checked"])


class Throughput(Session):
    """A loader in a cell.

    Args:
        num_checked: The minimum number of samples that are compared.
    """

    def __init__(self, adapter: Any, paths: list[str], batch: int, workers: int, num_checked: int) -> None:
        self._adapter, self._paths, self._batch, self._workers = adapter, paths, batch, workers
        self._num_checked = num_checked
        self._seconds = 0.0

    def outputs(self) -> Mapping[str, Any]:
        """The first samples; the rest of the loader is discarded."""
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "samples.npz")
            in_child(lambda: self._save(path))
            with np.load(path) as arrays:
                return {name: arrays[name] for name in arrays.files}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        self._seconds = seconds
        return {}

    def measure(self) -> Mapping[str, float]:
        """Microseconds per image, ``wall_us`` and ``cpu_us`` (of all processes), and ``first_s``: see ``timed``."""
        turn = in_child(lambda: timed(self._loader(), self._batch or 1, self._workers, self._seconds))
        an_image = 1e6 / turn["images"]
        return {"wall_us": turn["wall"] * an_image, "cpu_us": turn["cpu"] * an_image, "first_s": turn["first"]}

    def _loader(self) -> Iterable[Any]:
        loader: Iterable[Any] = self._adapter.make(Photos.of(self._paths), self._workers, self._batch or None)
        return loader

    def _save(self, to: str) -> None:
        images: list[Any] = []
        labels: list[Any] = []
        sizes = []
        for each, of_each in self._loader():
            images.extend(each.numpy() if self._batch else [each.numpy()])
            labels.extend(of_each.tolist() if self._batch else [of_each])
            sizes.append(len(of_each) if self._batch else 0)
            if len(labels) >= self._num_checked:
                break
        np.savez(to, images=np.stack(images), labels=np.array(labels), sizes=np.array(sizes))


class Memory(Throughput):
    """The memory of a loader in a cell, in a process that does nothing else."""

    def measure(self) -> Mapping[str, float]:
        """Bytes.

        Returns:
            ``before``: with everything imported. ``peak`` and ``pss_peak``: while it iterates; see ``Watcher``.
        """
        before, _ = memory_of_tree(os.getpid())
        with Watcher() as watcher:
            self._iterate()
        return {"before": before, "peak": watcher.peak, "pss_peak": watcher.pss_peak}

    def outputs(self) -> Mapping[str, Any]:
        return {}

    def _iterate(self) -> None:
        """Iterate, then let the loader fill its buffers, as it does with a busy consumer."""
        start = time.perf_counter()
        batches = iter(self._loader())
        taken = 0
        while taken <= self._workers or time.perf_counter() - start < self._seconds:
            held = next(batches)
            taken += 1
        # torch's loader prefetches two batches for each worker, others fewer.
        time.sleep(2 * self._workers * (time.perf_counter() - start) / taken)
        del held


class Epoch(Session):
    """An epoch by one value of ``workers``."""

    def __init__(self, dataset: str, mode: str, paths: list[str], num_samples: int) -> None:
        self._arguments = dataset, mode, paths, num_samples, 2

    def measure(self) -> Mapping[str, float | str]:
        """Seconds from making the loader to the end of the epoch, and the reason for the choice of ``"auto"``."""
        epoch = in_child(lambda: timed_epoch(*self._arguments))
        return {"wall_s": epoch["wall"], "choice": epoch["choice"]}


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
