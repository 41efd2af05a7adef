"""Resource usage of a process group from Linux's ``/proc``: one reading, and the difference of two.

Source: proc(5): ``/proc/<pid>/stat``, ``smaps_rollup``, ``io``, and ``/proc/net/dev``.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spdl.pipeline._observe._resource_usage import ProcessGroupResourceUsage


@dataclass(frozen=True, slots=True)
class GroupReading:
    """Counters of a process group at one moment."""

    time: float  #: s, monotonic
    boot_ticks: float  #: clock ticks since boot
    cpu_ticks: dict[tuple[int, int], int]  #: by pid and start time, which together are unique
    rss_bytes: int
    memory: tuple[int, int] | None  #: bytes: proportional, private
    disk: tuple[int, int] | None  #: bytes: read, written
    net: tuple[int, int] | None  #: bytes: received, sent


@dataclass(frozen=True, slots=True)
class _ProcessStat:
    pid: int
    start_ticks: int
    cpu_ticks: int
    rss_pages: int


def read_group(pgid: int, *, exclude: int | None = None, root: Path = Path("/proc")) -> GroupReading | None:
    """Read the counters of a process group; ``None`` if there is no proc file system.

    Processes that end during the reading are ignored. A sum is ``None`` if it cannot be read for one living process.

    Args:
        pgid: Process group id.
        exclude: Pid of a process that is not counted.
        root: Mount point of proc(5).
    """
    if not (root / "stat").exists():
        return None
    group = [stat for stat in _group_stats(root, pgid) if stat.pid != exclude]
    return GroupReading(
        time=time.monotonic(),
        boot_ticks=time.clock_gettime(_BOOT_CLOCK) * _TICKS_PER_SECOND,
        cpu_ticks={(stat.pid, stat.start_ticks): stat.cpu_ticks for stat in group},
        rss_bytes=sum(stat.rss_pages for stat in group) * _PAGE_SIZE,
        memory=_sum_pairs(root, group, "smaps_rollup", _parse_smaps),
        disk=_sum_pairs(root, group, "io", _parse_io),
        net=_read_net(root),
    )


def usage_between(
    pid: int, pgid: int, before: GroupReading | None, now: GroupReading | None
) -> ProcessGroupResourceUsage:
    """Compute the usage between two readings; without ``before``, the differences are ``None``."""
    if now is None:
        return ProcessGroupResourceUsage(pid, pgid)
    net = None
    if before is not None and before.net is not None and now.net is not None:
        # When an interface is removed, the sums decrease.
        net = (max(0, now.net[0] - before.net[0]), max(0, now.net[1] - before.net[1]))
    return ProcessGroupResourceUsage(
        pid,
        pgid,
        cpu_percent=None if before is None else _cpu_percent(before, now),
        rss_bytes=now.rss_bytes,
        pss_bytes=now.memory and now.memory[0],
        private_bytes=now.memory and now.memory[1],
        disk_read_bytes=now.disk and now.disk[0],
        disk_write_bytes=now.disk and now.disk[1],
        num_procs=len(now.cpu_ticks),
        net_rx_bytes=net and net[0],
        net_tx_bytes=net and net[1],
    )


_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))


def _cpu_percent(before: GroupReading, now: GroupReading) -> float | None:
    elapsed = now.time - before.time
    if elapsed <= 0:
        return None
    ticks = 0
    for process, total in now.cpu_ticks.items():
        if process in before.cpu_ticks:
            ticks += total - before.cpu_ticks[process]
        elif process[1] >= before.boot_ticks:  # started since `before`; an older process has only joined the group
            ticks += total
    return 100.0 * ticks / _TICKS_PER_SECOND / elapsed


def _group_stats(root: Path, pgid: int) -> Iterator[_ProcessStat]:
    for entry in root.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue  # it has ended
        # The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
        fields = text.rpartition(")")[2].split()
        if int(fields[2]) == pgid:
            yield _ProcessStat(
                int(entry.name),
                start_ticks=int(fields[19]),
                cpu_ticks=int(fields[11]) + int(fields[12]),
                rss_pages=int(fields[21]),
            )


def _sum_pairs(
    root: Path, group: list[_ProcessStat], name: str, parse: Callable[[str], tuple[int, int]]
) -> tuple[int, int] | None:
    first = second = 0
    for stat in group:
        folder = root / str(stat.pid)
        try:
            a, b = parse((folder / name).read_text())
        except OSError:
            # Permission, an old kernel, or a process that is ending: /proc/<pid> disappears last, when it is reaped.
            if _has_ended(folder):
                continue
            return None
        first += a
        second += b
    return first, second


def _has_ended(folder: Path) -> bool:
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return True


def _parse_smaps(text: str) -> tuple[int, int]:
    sizes = _parse_named(text)
    return sizes.get("Pss", 0) * 1024, (sizes.get("Private_Clean", 0) + sizes.get("Private_Dirty", 0)) * 1024


def _parse_io(text: str) -> tuple[int, int]:
    counts = _parse_named(text)
    return counts.get("read_bytes", 0), counts.get("write_bytes", 0)


def _parse_named(text: str) -> dict[str, int]:
    """Parse lines like ``Pss:   12 kB``; skip others."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        number = value.split()[:1]
        if number and number[0].isdigit():
            found[name] = int(number[0])
    return found


def _read_net(root: Path) -> tuple[int, int] | None:
    try:
        lines = (root / "net" / "dev").read_text().splitlines()[2:]  # two lines of headings
    except OSError:
        return None
    received = sent = 0
    for line in lines:
        name, _, counts = line.partition(":")
        if name.strip() != "lo":
            fields = counts.split()
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent
