"""A process with its own Ray. An adapter has ``versions()`` and ``open_batches(stack, way, work, chunks)``."""

import logging
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any

from benchmarks._contest.environments import REPOSITORY
from benchmarks._contest.session import Session, Task

from ._work import BATCH, NUM_BYTES, digest

_STORE = 400 << 20
#: Batches on their way while nobody reads: two transfers of each of two actors, and two in the sink.
_NUM_WAITING = 6
#: Batches at the start of a pass that are not timed: more than there may be of the next epoch.
_NUM_SKIPPED = 8


def open(adapter: Any, task: Task) -> Session | None:
    return _Reader(adapter, task)


class _Reader(Session):
    def __init__(self, adapter: Any, task: Task) -> None:
        self._adapter, self._case = adapter, task.case
        self._way = task.settings["way"]
        self._work = "photos" if task.case == "photos" else "fill"
        paths: Sequence[str] = task.data["paths"]
        self._chunks = [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]
        self._chunks *= max(1, task.data["num_batches"] // len(self._chunks))
        self._stack = ExitStack()
        self._batches: Iterable[Any] | None = None
        if self._way != "processes":
            import ray

            path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
            os.environ["PYTHONPATH"] = path  # of the actors
            ray.init(
                "local", num_cpus=2, include_dashboard=False, object_store_memory=_STORE, logging_level=logging.ERROR
            )

    def _open(self) -> Iterable[Any]:
        if self._batches is None:
            self._batches = self._adapter.open_batches(self._stack, self._way, self._work, self._chunks)
        assert self._batches is not None
        return self._batches

    def _close(self) -> None:
        self._batches = None
        self._stack.close()

    def outputs(self) -> Mapping[str, Any]:
        return {"means": sorted(mean for batch in self._open() for mean in digest(batch))}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        if self._case != "first":
            self._read()
        return {"num_batches": len(self._chunks)}

    def _read(self) -> float:
        """Seconds of a batch, without those that may have been made before they were asked for."""
        start, num_batches = 0.0, 0
        for _ in self._open():
            num_batches += 1
            if num_batches == _NUM_SKIPPED:
                start = time.perf_counter()
        wall = time.perf_counter() - start
        if num_batches != len(self._chunks):
            raise ValueError(f"{num_batches} batches arrived, not {len(self._chunks)}")
        return wall / (num_batches - _NUM_SKIPPED)

    def measure(self) -> Mapping[str, float]:
        if self._case == "first":
            start = time.perf_counter()
            for _ in islice(iter(self._open()), 1):
                break
            first = time.perf_counter() - start
            self._close()
            return {"first_ms": 1e3 * first}
        return {"wall_us": 1e6 * self._read()}

    def finish(self) -> Mapping[str, float]:
        if self._case != "fill" or self._way != "actors-far":
            return {}
        batches = iter(self._open())
        held = next(batches)
        sizes = [-1.0, _store_used()]
        while sizes[-1] != sizes[-2]:
            time.sleep(3)  # Ray tells it now and then
            sizes.append(_store_used())
        for _ in batches:
            pass
        return {"store_ratio": sizes[-1] / (held.nbytes + _NUM_WAITING * NUM_BYTES)}

    def close(self) -> None:
        self._close()
        if self._way != "processes":
            import ray

            ray.shutdown()


def _store_used() -> float:
    """Bytes in the object store, as Ray says."""
    from ray._private.internal_api import memory_summary  # type: ignore[import-not-found, unused-ignore]

    summary: Any = memory_summary
    found = re.search(r"Plasma memory usage (\d+) MiB", summary(stats_only=True))
    assert found is not None
    return float(found.group(1)) * (1 << 20)
