"""The number of CPUs that this process may use, and how its control groups limit it.

Sources: cgroups(7); Linux, Documentation/admin-guide/cgroup-v2.rst (``cpu.max``) and
Documentation/scheduler/sched-bwc.rst (``cpu.cfs_quota_us``), both of which describe ``cpu.stat``.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple


class CpuQuota(NamedTuple):
    """The lowest quota of the control groups that this process is in, and how often that quota was used up."""

    cpus: float  #: CPU seconds per second
    num_periods: int = 0  #: periods so far in which the group wanted a CPU; 0 if unknown
    num_throttled: int = 0  #: of these, periods in which it had to stop


def usable_cpus() -> int:
    """Return the number of CPUs in the affinity mask, limited by the quota of the control groups."""
    return max(1, int(cpu_limit() + 0.5))


def cpu_limit() -> float:
    """Return how much CPU time this process may use per second: ``usable_cpus``, but not rounded to whole CPUs."""
    return limit_with(read_quota())


def limit_with(quota: CpuQuota | None) -> float:
    """Return the same as ``cpu_limit``, with a quota that was read before."""
    cpus = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    return cpus if quota is None else min(cpus, quota.cpus)


def read_quota(root: str = "/") -> CpuQuota | None:
    """Return the lowest quota of this process' control groups, of version 2 or 1; ``None`` if none has one.

    Args:
        root: Folder that contains ``proc`` and ``sys``.
    """
    quotas = [quota for quota in map(_quota_of, _groups(root)) if quota is not None]
    return min(quotas, key=lambda quota: quota.cpus, default=None)


def _groups(root: str) -> Iterator[str]:
    """Yield the folders of the CPU control groups, from the outermost to the one of this process."""
    mounts = os.path.join(root, "sys/fs/cgroup")
    try:
        with open(os.path.join(root, "proc/self/cgroup")) as file:
            lines = file.read().splitlines()
    except (OSError, ValueError):
        lines = ["0::/", "1:cpu:/"]
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        folder = mounts
        if controllers:
            folder += "/cpu" if os.path.exists(f"{mounts}/cpu") else f"/{controllers}"
        # In a container the path may be the host's, and only the outermost folder exists.
        yield folder
        for part in path.split("/"):
            if part and part != "..":
                folder += f"/{part}"
                yield folder


def _quota_of(folder: str) -> CpuQuota | None:
    cpus = _cpus_of_version_2(folder)
    if cpus is None:
        cpus = _cpus_of_version_1(folder)
    return None if cpus is None or cpus <= 0 else CpuQuota(cpus, *_periods_of(folder))


def _cpus_of_version_2(folder: str) -> float | None:
    try:
        with open(f"{folder}/cpu.max") as file:
            limit, period = file.read().split()
        return int(limit) / int(period)  # "max" is not a number: there is no quota
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _cpus_of_version_1(folder: str) -> float | None:
    try:
        with open(f"{folder}/cpu.cfs_quota_us") as file:
            quota = int(file.read())  # -1: no quota
        with open(f"{folder}/cpu.cfs_period_us") as file:
            return quota / int(file.read())
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _periods_of(folder: str) -> tuple[int, int]:
    try:
        with open(f"{folder}/cpu.stat") as file:
            numbers = dict(line.split()[:2] for line in file)
        return int(numbers.get("nr_periods", 0)), int(numbers.get("nr_throttled", 0))
    except (OSError, ValueError):
        return 0, 0
