"""Measures one pipeline while it runs: samples its threads, and reads CPU times.

A native thread samples the threads of the pipeline about 20 times a second, or less often if that would take more than
0.1 % of a CPU. It does not need the GIL and blocks no other thread. It ends with the pipeline.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spdl._cpus import CpuQuota, limit_with, read_quota
from spdl._processes._elsewhere import ELSEWHERE
from spdl.pipeline._observe._stats import Measured, StageSamples

if TYPE_CHECKING:
    from spdl.pipeline._observe._stats import PipelineStats
    from spdl.pipeline._records import ThreadBoard

#: Mean time between two samples, in seconds; longer if sampling would take more than this share of a CPU.
_PERIOD = 0.05
_MOST_SHARE = 0.001

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class CpuReading(NamedTuple):
    """CPU time used so far, in seconds."""

    time: float  #: monotonic
    own: float  #: of this process, its descendants, and other workers on this machine
    machine: float | None  #: of all processes; ``None``: unknown
    quota: CpuQuota | None = None


class Sampling:
    """One measurement of a pipeline, from the construction until ``end``. Thread-safe.

    ``since`` are the counters at this moment; ``publish`` makes the threads record what they work for.
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
            machine_cpu=None if began.machine is None or now.machine is None else now.machine - began.machine,
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


def _periods_between(began: CpuReading, now: CpuReading) -> tuple[int, int]:
    """Return the number of quota periods, and of those in which it was used up. 0 if the process changed its group."""
    if began.quota is None or now.quota is None:
        return 0, 0
    num_periods = now.quota.num_periods - began.quota.num_periods
    num_throttled = now.quota.num_throttled - began.quota.num_throttled
    return (num_periods, num_throttled) if 0 <= num_throttled <= num_periods else (0, 0)


def read_cpu(root: Path = Path("/proc")) -> CpuReading:
    """Read the CPU time of this process, its descendants, its other workers on this machine, and all processes."""
    times = os.times()
    own = time.process_time() + times.children_user + times.children_system
    if sys.platform == "linux":
        proc = str(root)  # there is a file for each thread, and Path would take longer than reading it
        descendants = list(_descendants(proc, os.getpid())) if _has_children() else []
        own += sum(_cpu_of(f"{proc}/{pid}") for pid in descendants)
        own += _OTHERS.cpu_time(proc, descendants)
    return CpuReading(time.monotonic(), own, _machine(root), read_quota())


class _Others:
    """Workers on this machine that are not children: the system does not add up the CPU time of ended ones."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}  # CPU time at the last reading, by pid

    def cpu_time(self, proc: str, descendants: Collection[int]) -> float:
        """Return the CPU time of all such workers seen so far."""
        for worker in ELSEWHERE.workers():
            pid = worker.pid
            if worker.host is None and pid not in descendants:
                self._seen[pid] = max(self._seen.get(pid, 0.0), _cpu_of(f"{proc}/{pid}"))
        return sum(self._seen.values())


_OTHERS: Final = _Others()


def _has_children() -> bool:
    """Return whether this process has children, also ended ones: one system call instead of a file for each thread."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    except OSError:
        pass
    return True


def _machine(root: Path) -> float | None:
    try:
        with open(root / "stat") as file:
            fields = [int(field) for field in file.readline().split()[1:]]
    except (OSError, ValueError):
        return None
    # user nice system idle iowait irq softirq steal; the guest times that follow are part of user and nice.
    return (sum(fields[:3]) + sum(fields[5:8])) / _TICKS_PER_SECOND


def _descendants(proc: str, pid: int) -> Iterator[int]:
    todo = [pid]
    while todo:
        folder = f"{proc}/{todo.pop()}/task"
        try:
            threads = os.listdir(folder)
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"{folder}/{thread}/children", "rb", 0) as file:
                    found = [int(child) for child in file.read().split()]
            except OSError:
                continue
            if found:
                todo += found
                yield from found


def _cpu_of(folder: str) -> float:
    """Return the CPU time of a living process and of its children that have ended."""
    try:
        with open(f"{folder}/stat", "rb", 0) as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
