"""Measures one pipeline while it runs: samples its threads, and reads CPU times.

A native thread samples the threads of the pipeline about 20 times a second, or less often if that would take more than
0.1 % of a CPU. It does not need the GIL and blocks no other thread. It ends with the pipeline.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spdl.pipeline._cpus import limit_with
from spdl.pipeline._observe._machine import CpuReading, read_cpu
from spdl.pipeline._observe._measured import Measured, StageSamples

if TYPE_CHECKING:
    from spdl.pipeline._observe._probe import ThreadBoard
    from spdl.pipeline._observe._stats import PipelineStats

#: Mean time between two samples, in seconds; longer if sampling would take more than this share of a CPU.
_PERIOD = 0.05
_MOST_SHARE = 0.001


class Sampling:
    """One measurement of a pipeline, from the construction until ``end``. Thread-safe.

    Args:
        since: Counters of the pipeline at this moment.
        publish: Makes the threads record what they work for; returns an object with ``settle`` and ``end``.
    """

    def __init__(self, since: PipelineStats, publish: Callable[[ThreadBoard], Any]) -> None:
        self._lock = threading.Lock()
        self.since = since
        self._num_stages = len(since.stages)
        self._has_gil = has_gil()
        self._sampler = self._make_sampler()
        self._published: Any = None if self._sampler is None else publish(self._sampler)
        self._began = read_cpu()
        self._newest: Measured | None = None
        self._result: Measured | None = None

    def _make_sampler(self) -> Any:
        """Return a native sampler. ``None``: this system does not show what threads do."""
        if sys.platform != "linux":
            return None
        # Imported late: most pipelines are not observed, and the extension is not needed otherwise.
        from spdl._processes._memory import Sampler

        try:
            return Sampler(self._num_stages + 1, _PERIOD, self._has_gil, _MOST_SHARE)
        except OSError:
            return None

    def read(self, max_age: float = 0.0) -> Measured:
        """Return what was measured so far, or until at most ``max_age`` seconds ago."""
        with self._lock:
            if self._result is not None:
                return self._result
            newest = self._newest
            if newest is None or time.monotonic() - self._began.time - newest.seconds > max_age:
                newest = self._newest = self._read()
            return newest

    def end(self) -> None:
        """Stop measuring. Idempotent; what was measured can still be read."""
        with self._lock:
            if self._result is not None:
                return
            self._result = self._read()
            if self._published is not None:
                self._published.end()
            if self._sampler is not None:
                self._sampler.close()
            self._published = self._sampler = None

    def _read(self) -> Measured:
        now, began = read_cpu(), self._began
        num_periods, num_throttled = _periods_between(began, now)
        measured = Measured(
            seconds=now.time - began.time,
            own_cpu=now.own - began.own,
            machine_cpu=_machine_between(began, now),
            cpu_limit=limit_with(now.quota),
            machine_cpus=os.cpu_count() or 1,
            has_gil=self._has_gil,
            num_periods=num_periods,
            num_throttled=num_throttled,
        )
        if self._sampler is None:
            return measured
        self._published.settle()
        num_looks, gil_held, gil_elsewhere, pool_cpu, found = self._sampler.read()
        *stages, loop = (StageSamples(*each) for each in found)
        costs = zip(stages, self._published.costs(), strict=True)
        stages = [_with_costs(samples, *its) for samples, its in costs]
        return replace(
            measured,
            num_looks=num_looks,
            gil_held=gil_held,
            gil_elsewhere=gil_elsewhere,
            pool_cpu=pool_cpu,
            knows_gil=self._sampler.knows_gil,
            knows_holder=self._sampler.knows_holder,
            stages=tuple(stages),
            loop=loop,
        )


def has_gil() -> bool:
    """Whether threads of this interpreter share a GIL."""
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return is_enabled is None or is_enabled()


def _with_costs(
    samples: StageSamples, num_alone: int, cpu_alone: float, num_beside: int, cpu_beside: float
) -> StageSamples:
    """Add the calls whose cost the engine has measured: those of its own threads."""
    return replace(
        samples,
        num_alone=samples.num_alone + num_alone,
        cpu_alone=samples.cpu_alone + cpu_alone,
        num_beside=samples.num_beside + num_beside,
        cpu_beside=samples.cpu_beside + cpu_beside,
    )


def _machine_between(began: CpuReading, now: CpuReading) -> float | None:
    return None if began.machine is None or now.machine is None else now.machine - began.machine


def _periods_between(began: CpuReading, now: CpuReading) -> tuple[int, int]:
    """Return the number of quota periods, and of those in which it was used up. 0 if the process changed its group."""
    if began.quota is None or now.quota is None:
        return 0, 0
    num_periods = now.quota.num_periods - began.quota.num_periods
    num_throttled = now.quota.num_throttled - began.quota.num_throttled
    return (num_periods, num_throttled) if 0 <= num_throttled <= num_periods else (0, 0)
