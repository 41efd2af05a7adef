"""Memory of a process and all that it started, watched from outside of it."""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.transport._processes import descendants

__all__ = ["Watcher", "pss_of_tree"]

#: A sample walks the page tables of all of the processes: some milliseconds.
SECONDS_BETWEEN_SAMPLES = 0.05


def pss_of_tree(pid: int) -> int:
    """Proportional set size, in bytes, of a process and its descendants: what they share counts once.

    What other processes map too, such as the C library, counts in proportion.
    """
    return sum(map(_pss, [pid, *descendants(pid)]))


class Watcher:
    """Samples ``pss_of_tree`` in a thread, from entering the ``with`` block until leaving it.

    Attributes:
        peak: The greatest sample, in bytes; 0 where the system does not tell.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.peak = 0

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
            self.peak = max(self.peak, pss_of_tree(self._pid))
            if self._is_over.wait(SECONDS_BETWEEN_SAMPLES):
                return


def _pss(pid: int) -> int:
    """proc(5), ``/proc/<pid>/smaps_rollup``. 0 for a process that has ended, and where there is no such file."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)
