"""The number of CPUs that this process may use."""

import os

__all__ = ["cpu_limit", "usable_cpus"]

__all__ = ["usable_cpus"]


def usable_cpus() -> int:
    """Return the number of CPUs in the affinity mask, limited by the container's quota.

    The quota is that of cgroup v2 (``cpu.max``) or v1 (``cpu.cfs_quota_us``).
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _container_quota()
    return max(1, min(cpus, int(quota + 0.5))) if quota is not None else cpus


def cpu_limit() -> float:
    """Return how much CPU time this process may use per second: ``usable_cpus``, with the fraction of the quota."""
    cpus = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    quota = _container_quota()
    return min(cpus, quota) if quota is not None else cpus


def _container_quota() -> float | None:
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            limit, period = file.read().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") as file:
            quota = int(file.read())
        with open("/sys/fs/cgroup/cpu/cpu.cfs_period_us") as file:
            return quota / int(file.read()) if quota > 0 else None
    except (OSError, ValueError):
        return None
