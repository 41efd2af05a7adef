"""Pipeline numbers: unique in a process; a child process continues where its parent was."""

import threading


class _PipelineIds:
    """Process-wide counter: the numbers distinguish pipelines in the log of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0  # guarded by the lock

    def take(self) -> int:
        """Return a number that no pipeline of this process has."""
        with self._lock:
            taken = self._next
            self._next += 1
        return taken

    def peek(self) -> int:
        """Return the number that the next pipeline will get."""
        with self._lock:
            return self._next

    def go_on_from(self, number: int) -> None:
        """Use no number below ``number`` from now on."""
        with self._lock:
            self._next = max(self._next, number)


PIPELINE_IDS = _PipelineIds()
