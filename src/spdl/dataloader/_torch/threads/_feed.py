"""``Feed``: what the consumer's thread passes to the source of a pipeline."""

import threading
from contextlib import nullcontext
from queue import Empty, SimpleQueue
from typing import Any

__all__ = ["Endless", "Feed"]


class Feed:
    """A queue without a limit. Thread-safe.

    The consumer's thread puts something in for each batch that it takes. So a source that waits here waits for the
    consumer, and the statistics of its pipeline say so.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()

    def put(self, value: Any) -> None:
        self._queue.put(value)

    def is_empty(self) -> bool:
        return self._queue.empty()

    def get(self) -> Any:
        """Remove the oldest value, and wait for one if there is none. Called by the source, on its thread."""
        try:
            return self._queue.get_nowait()
        except Empty:
            waiting = getattr(threading.current_thread(), "waiting_for_consumer", nullcontext)
        with waiting():
            return self._queue.get()


class Endless(Feed):
    """Always has ``True``: no batch is waited for. For diagnostic mode, in which nobody takes batches."""

    def get(self) -> bool:
        return True
