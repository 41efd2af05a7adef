"""Memory of a process and its descendants, sampled from outside."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks._contest.environments import REPOSITORY
from benchmarks._contest.processes import descendants, pss_of

__all__ = ["Watcher", "memory_of_tree"]

#: A sample walks the page tables of all processes, which takes some milliseconds.
SECONDS_BETWEEN_SAMPLES = 0.02


def memory_of_tree(pid: int, without: int | None = None) -> tuple[int, int]:
    """Proportional set size, and unmapped shared memory, of a process and its descendants, in bytes.

    Args:
        without: A descendant that does not count.

    Proportional set size counts memory shared by these processes once; memory that other processes map too, such as the
    C library, counts in proportion. It does not count memory that no process maps: torch's batches, between the worker
    that has made one and the consumer that takes it, are files in memory with an open descriptor only.
    """
    pids = [each for each in (pid, *descendants(pid)) if each != without]
    open_files: dict[int, int] = {}
    for each in pids:
        open_files |= _shared_files(each)
    waiting = set(open_files)
    for each in pids if waiting else []:
        waiting -= _mapped_inodes(each)
    return sum(map(pss_of, pids)), sum(open_files[inode] for inode in waiting)


class Watcher:
    """Samples ``memory_of_tree`` of this process in another process, from entering the ``with`` block until leaving it.

    Attributes:
        peak: The maximum of both together, in bytes; 0 where the system does not report them.
        pss_peak: The maximum of the proportional set size alone.
    """

    def __init__(self) -> None:
        self.peak = self.pss_peak = 0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.migration._memory", str(os.getpid())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )
        assert self._process.stdout is not None  # it is a pipe
        self._process.stdout.readline()  # it has taken a sample
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A line, not the end of its stdin: forked workers of a loader hold the writing end too.
        told, _ = self._process.communicate("stop\n")
        if kind is None:
            self.peak, self.pss_peak = json.loads(told)


def watch(pid: int) -> None:
    """Print the peaks when a line has been read."""
    is_over = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        is_over.set()

    threading.Thread(target=wait).start()
    peak = pss_peak = 0
    while True:
        pss, waiting = memory_of_tree(pid, without=os.getpid())
        if not peak:
            print("sampled", flush=True)
        pss_peak, peak = max(pss_peak, pss), max(peak, pss + waiting, 1)
        if is_over.wait(SECONDS_BETWEEN_SAMPLES):
            break
    print(json.dumps([peak if pss_peak else 0, pss_peak]))


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


if __name__ == "__main__":
    watch(int(sys.argv[1]))
