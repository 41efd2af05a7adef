"""``Feed``: the queue from the consumer's thread to the source of a pipeline."""

import threading
from contextlib import nullcontext
from queue import Empty, SimpleQueue
from typing import Any


class Feed:
    """An unbounded queue. Thread-safe.

    The consumer's thread puts one value in for each batch that it takes. So a source that waits here waits for the
    consumer, and the statistics of its pipeline count this time as blocked.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()

    def put(self, value: Any) -> None:
        self._queue.put(value)

    def is_empty(self) -> bool:
        return self._queue.empty()

    def get(self) -> Any:
        """Remove and return the oldest value; wait if the queue is empty. Called by the source, on its thread."""
        try:
            return self._queue.get_nowait()
        except Empty:
            waiting = getattr(threading.current_thread(), "waiting_for_consumer", nullcontext)
        with waiting():
            return self._queue.get()


class Endless(Feed):
    """A feed that always returns ``True`` at once. For diagnostic mode, in which no consumer takes batches."""

    def get(self) -> bool:
        return True
