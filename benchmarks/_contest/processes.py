"""CPU time, waiting time and memory of processes. Linux only: they are unknown on other systems."""

import os
import time
from pathlib import Path

__all__ = ["cpu_seconds_of", "descendants", "pss_of", "seconds_waited_for_a_core"]


def descendants(of: int | None = None) -> list[int]:
    """The descendants of a process, by default of this one.

    Empty without /proc.
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # proc_pid_stat(5): the name is in parentheses and may hold anything; after it come state and parent.
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [os.getpid() if of is None else of]
    while todo:
        born = children.get(todo.pop(), [])
        found += born
        todo += born
    return found


def cpu_seconds_of(pids: list[int]) -> float:
    """CPU seconds of these processes so far, with all threads, ended ones too; 0 for ended processes."""
    total = 0.0
    for pid in pids:
        try:
            # The clock of a process, include/linux/posix-timers_types.h: its number inverted, 3 bits for the kind; 2 is
            # the time counted by the scheduler.
            total += time.clock_gettime((~pid << 3) | 2)
        except (OSError, AttributeError):
            continue
    return total


def seconds_waited_for_a_core() -> float:
    """Seconds for which this thread was ready to run and had no core; 0 where the system does not report them."""
    try:
        # Linux, Documentation/scheduler/sched-stats.rst: nanoseconds run, nanoseconds waited to run, time slices.
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def pss_of(pid: int) -> int:
    """Proportional set size in bytes: proc(5), ``/proc/<pid>/smaps_rollup``.

    0 for a process that has ended, and where there is no such file.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)
