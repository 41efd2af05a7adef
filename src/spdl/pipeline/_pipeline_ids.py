"""Numbers of pipelines: one process never uses one twice, and a child goes on from where its parent was."""

import threading

__all__ = ["PIPELINE_IDS"]


class _PipelineIds:
    """State of the process by its nature: the numbers tell pipelines apart in its log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0  # guarded by the lock

    def take(self) -> int:
        """A number that no pipeline of this process has."""
        with self._lock:
            taken = self._next
            self._next += 1
        return taken

    def peek(self) -> int:
        """The number that the next pipeline gets."""
        with self._lock:
            return self._next

    def go_on_from(self, number: int) -> None:
        """Use no number below this one from now on."""
        with self._lock:
            self._next = max(self._next, number)


PIPELINE_IDS = _PipelineIds()
