"""A training process with its pipeline in one place."""

import multiprocessing
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any

import numpy as np

from benchmarks._contest.processes import descendants, pss_of, seconds_waited_for_a_core
from benchmarks._contest.session import Session, Task

from ._work import BATCH, Batches, open_way, training_step


def open(adapter: Any, task: Task) -> "Trainer":
    # A process that runs threads must not be forked.
    multiprocessing.set_start_method("forkserver", force=True)
    return Trainer(task.settings["way"], task.case, task.data["paths"], task.data["num_ahead"], task.data["num_timed"])


class Trainer(Session):
    """A consumer of batches.

    Args:
        num_ahead: The number of batches at the start of an epoch that are not timed, because they were prefetched.
        num_timed: The number of batches after these.
    """

    def __init__(self, way: str, case: str, paths: list[str], num_ahead: int, num_timed: int) -> None:
        self._num_ahead, self._num_timed = num_ahead, num_timed
        self._stack = ExitStack()
        source = Batches(tuple(paths), num_ahead + num_timed)
        self._pipeline: Iterable[Any] | None = open_way(self._stack, way, case, source)

    def outputs(self) -> Mapping[str, Any]:
        """Checksums of the batches of an epoch, sorted, because the order of batches made at once is undefined."""
        return {
            "checksums": np.array(sorted(zlib.crc32(np.ascontiguousarray(batch).data) for batch in self._batches()))
        }

    def measure(self) -> Mapping[str, float]:
        """Two epochs, of a consumer that does nothing with its batches and of one that trains.

        Returns:
            Microseconds per sample: ``wall_us`` and ``cpu_us`` (of this process) of the first, ``training_us`` of the
            second. Microseconds per step: ``alone_us`` with nothing beside it, ``step_us`` beside the loader, and
            ``waiting_us``, the part of it in which it neither ran nor waited for a core, because it waited for the GIL.
        """
        # By now its pipeline has filled its buffers for the next epoch and is idle.
        alone = median(_seconds_of_a_step() for _ in range(30))
        idle, training = self._epoch(is_training=False), self._epoch(is_training=True)
        a_sample, a_step = 1e6 / (self._num_timed * BATCH), 1e6 / self._num_timed
        return {
            "wall_us": idle["wall"] * a_sample,
            "cpu_us": idle["cpu"] * a_sample,
            "training_us": training["wall"] * a_sample,
            "alone_us": alone * 1e6,
            "step_us": training["stepping"] * a_step,
            "waiting_us": training["waiting"] * a_step,
        }

    def finish(self) -> Mapping[str, float]:
        """Bytes of this process and its descendants in the middle of an epoch; shared memory counts once."""
        size = 0
        for number, _ in enumerate(self._batches()):
            if number == (self._num_ahead + self._num_timed) // 2:
                size = sum(map(pss_of, [os.getpid(), *descendants()]))
        return {"pss": size}

    def close(self) -> None:
        self._pipeline = None
        self._stack.close()

    def _epoch(self, is_training: bool) -> dict[str, float]:
        stepping = waiting = cpu = wall = 0.0
        for number, _ in enumerate(self._batches(), start=1):
            if number == self._num_ahead:
                cpu, wall = time.process_time(), time.perf_counter()
            elif is_training and number > self._num_ahead:
                start, ran, waited = time.perf_counter(), time.thread_time(), seconds_waited_for_a_core()
                training_step()
                took = time.perf_counter() - start
                stepping += took
                waiting += took - (time.thread_time() - ran) - (seconds_waited_for_a_core() - waited)
        return {
            "wall": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
            "stepping": stepping,
            "waiting": max(0.0, waiting),
        }

    def _batches(self) -> Iterable[Any]:
        assert self._pipeline is not None  # it is called before ``close`` only
        return self._pipeline


def _seconds_of_a_step() -> float:
    start = time.perf_counter()
    training_step()
    return time.perf_counter() - start
