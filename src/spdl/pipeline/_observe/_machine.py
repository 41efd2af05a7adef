"""CPU time of this process with its children and other workers, and of the whole machine, at one moment.

Source: proc(5), ``/proc/stat`` and ``/proc/<pid>/stat``; ``/proc/<pid>/task/<tid>/children`` lists children. Without
this file system, only children that have ended count, and the CPU time of the machine is unknown.
"""

import os
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from spdl._processes._elsewhere import ELSEWHERE
from spdl.pipeline._cpus import CpuQuota, read_quota

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class CpuReading(NamedTuple):
    """CPU time used so far, in seconds."""

    time: float  #: monotonic
    own: float  #: of this process, its descendants, and other workers on this machine
    machine: float | None  #: of all processes; ``None``: unknown
    quota: CpuQuota | None = None


def read_cpu(root: Path = Path("/proc")) -> CpuReading:
    """Read the CPU time of this process, its descendants, its other workers on this machine, and all processes.

    Args:
        root: Mount point of proc(5).
    """
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
        return True
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
