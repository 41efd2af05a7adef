"""Memory of a process and its descendants, sampled from outside."""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks._contest.processes import descendants

__all__ = ["Watcher", "memory_of_tree"]

#: A sample walks the page tables of all processes, which takes some milliseconds.
SECONDS_BETWEEN_SAMPLES = 0.02


def memory_of_tree(pid: int) -> tuple[int, int]:
    """Proportional set size, and unmapped shared memory, of a process and its descendants, in bytes.

    Proportional set size counts memory shared by these processes once; memory that other processes map too, such as the
    C library, counts in proportion. It does not count memory that no process maps: torch's batches, between the worker
    that has made one and the consumer that takes it, are files in memory with an open descriptor only.
    """
    pids = [pid, *descendants(pid)]
    open_files: dict[int, int] = {}
    for each in pids:
        open_files |= _shared_files(each)
    waiting = set(open_files)
    for each in pids if waiting else []:
        waiting -= _mapped_inodes(each)
    return sum(map(_pss, pids)), sum(open_files[inode] for inode in waiting)


class Watcher:
    """Samples ``memory_of_tree`` in a thread, from entering the ``with`` block until leaving it.

    Attributes:
        peak: The maximum of both together, in bytes; 0 where the system does not report them.
        pss_peak: The maximum of the proportional set size alone.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak = self.pss_peak = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            pss, waiting = memory_of_tree(self._pid)
            self.pss_peak, self.peak = max(self.pss_peak, pss), max(self.peak, pss + waiting)
            if self._is_over.wait(SECONDS_BETWEEN_SAMPLES):
                return


def _pss(pid: int) -> int:
    """proc(5), ``/proc/<pid>/smaps_rollup``. 0 for a process that has ended, and where there is no such file."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


# The places of named and of unnamed shared memory: shm_overview(7), memfd_create(2).
_SHARED = ("/dev/shm/", "/memfd:")


def _shared_files(pid: int) -> dict[int, int]:
    """Bytes of the shared memory that a process has open, by inode."""
    found = {}
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:  # it has just ended
        return {}
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}").startswith(_SHARED):
                status = os.stat(f"{folder}/{name}")
                found[status.st_ino] = status.st_blocks * 512
        except OSError:  # closed meanwhile
            continue
    return found


def _mapped_inodes(pid: int) -> set[int]:
    """Inodes of the shared memory that a process maps."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    # proc_pid_maps(5): address, permissions, offset, device, inode, path.
    fields = (line.split(maxsplit=5) for line in lines)
    return {int(each[4]) for each in fields if len(each) == 6 and each[5].startswith(_SHARED)}
