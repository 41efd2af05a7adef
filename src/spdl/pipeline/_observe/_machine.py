"""CPU time of this process with its children, and of the whole machine, at one moment.

Source: proc(5), ``/proc/stat`` and ``/proc/<pid>/stat``; ``/proc/<pid>/task/<tid>/children`` lists children. Where
there is no such file system, only children that have ended count, and the machine is unknown.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spdl.pipeline._cpus import CpuQuota, read_quota

__all__ = ["CpuReading", "read_cpu"]

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class CpuReading(NamedTuple):
    """CPU time used so far, in seconds."""

    time: float  #: monotonic
    own: float  #: of this process and its descendants
    machine: float | None  #: of all processes; ``None``: unknown
    quota: CpuQuota | None = None


def read_cpu(root: Path = Path("/proc")) -> CpuReading:
    """Read the CPU time of this process, its descendants, and all processes.

    Args:
        root: Mount point of proc(5).
    """
    times = os.times()
    own = time.process_time() + times.children_user + times.children_system
    if sys.platform == "linux":
        own += sum(_cpu_of(root / str(pid)) for pid in _descendants(root, os.getpid()))
    return CpuReading(time.monotonic(), own, _machine(root), read_quota())


def _machine(root: Path) -> float | None:
    try:
        with open(root / "stat") as file:
            fields = [int(field) for field in file.readline().split()[1:]]
    except (OSError, ValueError):
        return None
    # user nice system idle iowait irq softirq steal; the guest times that follow are part of user and nice.
    return (sum(fields[:3]) + sum(fields[5:8])) / _TICKS_PER_SECOND


def _descendants(root: Path, pid: int) -> Iterator[int]:
    todo = [pid]
    while todo:
        folder = root / str(todo.pop()) / "task"
        try:
            threads = os.listdir(folder)
        except OSError:
            continue
        for thread in threads:
            try:
                found = [int(child) for child in (folder / thread / "children").read_text().split()]
            except OSError:
                continue
            todo += found
            yield from found


def _cpu_of(folder: Path) -> float:
    """CPU time of a living process and of its children that have ended."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
