"""CPU time of processes that somebody else started. Linux only: elsewhere it is not known."""

import os
import time
from pathlib import Path

__all__ = ["cpu_seconds_of", "descendants"]


def descendants(of: int | None = None) -> list[int]:
    """Processes that a process, by default this one, started, and those that they started, at any depth.

    Empty where /proc is not there.
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
    """What all threads of these processes have used so far, dead ones included, to the nanosecond; 0 for those gone."""
    total = 0.0
    for pid in pids:
        try:
            # The clock of a process, include/linux/posix-timers_types.h: its number inverted, 3 bits for the kind; 2 is
            # what the scheduler has counted.
            total += time.clock_gettime((~pid << 3) | 2)
        except (OSError, AttributeError):
            continue
    return total
