"""One way in one training process: ``python -m benchmarks.placement._worker WAY``."""

import gc
import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks._contest.processes import descendants
from benchmarks._contest.worker import serve

from ._work import Batches, open_way, training_step


class Trainer:
    """A consumer of batches, with the pipeline that it opened last."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._stack = ExitStack()
        self._pipeline: Iterable[Any] | None = None

    def open(self, case: str, paths: list[str], num_batches: int) -> None:
        self.close()
        self._pipeline = open_way(self._stack, self._way, case, Batches(tuple(paths), num_batches))

    def close(self) -> None:
        self._pipeline = None
        self._stack.close()
        gc.collect()

    def digest(self) -> list[int]:
        """Checksums of the batches of an epoch, sorted, because the order of batches made at once is undefined."""
        return sorted(zlib.crc32(np.ascontiguousarray(batch)) for batch in self._batches())

    def time(self, is_training: bool, num_ahead: int) -> dict[str, float]:
        """Time an epoch, except for its first ``num_ahead`` batches, which were prefetched.

        Returns:
            Seconds, CPU seconds of this process, seconds of the training steps, if there are any, and the part of
            those in which they neither ran nor waited for a core, because they waited for the GIL.
        """
        stepping = without_python = cpu = wall = 0.0
        for number, _ in enumerate(self._batches(), start=1):
            if number == num_ahead:
                cpu, wall = time.process_time(), time.perf_counter()
            elif is_training and number > num_ahead:
                start, ran, waited = time.perf_counter(), time.thread_time(), _seconds_waited_for_a_core()
                training_step()
                took = time.perf_counter() - start
                stepping += took
                without_python += took - (time.thread_time() - ran) - (_seconds_waited_for_a_core() - waited)
        return {
            "wall": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
            "stepping": stepping,
            "without_python": max(0.0, without_python),
        }

    def step(self) -> float:
        """Seconds of a training step with nothing else running: the median of several."""

        def timed() -> float:
            start = time.perf_counter()
            training_step()
            return time.perf_counter() - start

        return median(timed() for _ in range(30))

    def memory(self, num_batches: int) -> int:
        """Bytes of this process and its descendants in the middle of an epoch; shared memory counts once."""
        size = 0
        for number, _ in enumerate(self._batches()):
            if number == num_batches // 2:
                size = sum(map(_pss, [os.getpid(), *descendants()]))
        return size

    def _batches(self) -> Iterable[Any]:
        assert self._pipeline is not None  # it is called after ``open`` only
        return self._pipeline


def _seconds_waited_for_a_core() -> float:
    """Seconds of this thread since its start; 0 where the system does not report them."""
    try:
        # Linux, Documentation/scheduler/sched-stats.rst: nanoseconds run, nanoseconds waited to run, time slices.
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _pss(pid: int) -> int:
    """Proportional set size in bytes: proc(5), ``/proc/<pid>/smaps_rollup``. 0 where it cannot be read."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


def versions() -> dict[str, str]:
    return {"spdl": metadata.version("spdl"), "numpy": np.__version__}


def main(way: str) -> None:
    multiprocessing.set_start_method("forkserver")

    def make() -> dict[str, Callable[..., Any]]:
        trainer = Trainer(way)
        return {
            "describe": versions,
            "open": trainer.open,
            "close": trainer.close,
            "digest": trainer.digest,
            "time": trainer.time,
            "step": trainer.step,
            "memory": trainer.memory,
        }

    serve(make)


if __name__ == "__main__":
    main(sys.argv[1])
