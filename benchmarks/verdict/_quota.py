"""A quota of CPU time for this process, by a control group of its own. Needs the rights of root."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["NoQuotaError", "limited"]

_MOUNTS = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


class NoQuotaError(Exception):
    """No control group with a quota can be made here."""


@contextmanager
def limited(cpus: float) -> Iterator[None]:
    """Run with that many CPU seconds per second, all threads together. Processes that it starts must have ended."""
    parent = _parent()
    group = parent / f"spdl-verdict-{os.getpid()}"
    quota = round(cpus * _PERIOD_US)
    try:
        group.mkdir()
    except OSError as error:
        raise NoQuotaError(f"no control group can be made in {parent}: {error}") from error
    try:
        try:
            if (group / "cpu.max").exists():
                (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            raise NoQuotaError(f"{group} takes no quota: {error}") from error
        yield
    finally:
        with suppress(OSError):  # the quota ends with the processes in it anyway
            (parent / "cgroup.procs").write_text(str(os.getpid()))
            group.rmdir()


def _parent() -> Path:
    """The group of this process, in the hierarchy that shares out CPU time."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError as error:
        raise NoQuotaError(f"this system has no control groups: {error}") from error
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(",") and (_MOUNTS / "cpu").exists():
            return _MOUNTS / "cpu" / path.lstrip("/")
    for line in lines:
        if line.startswith("0::") and (_MOUNTS / "cgroup.controllers").exists():
            return _MOUNTS / line[3:].lstrip("/")
    raise NoQuotaError("no hierarchy of control groups that shares out CPU time is mounted")
