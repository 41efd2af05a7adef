"""``EpochCounts``: the counts of an epoch that is not run by a pipeline, and the statistics made from them."""

from collections.abc import Callable
from time import perf_counter
from typing import Any
from weakref import WeakMethod

from spdl.pipeline import PipelineStats, StageInfo, StageStats


class EpochCounts:
    """Counts of one epoch. Written in the consumer's thread, read from any.

    Args:
        num_workers: Number of worker processes; 0: the consumer loads the batches itself.
        num_in_flight: Method that returns the number of batches being loaded, and of those that wait for the consumer.
        capacity: Maximum number of batches in flight.
    """

    def __init__(
        self, num_workers: int, num_in_flight: Callable[[], tuple[int, int]] | None = None, capacity: int = 0
    ) -> None:
        self._num_workers = num_workers
        self._num_in_flight = None if num_in_flight is None else WeakMethod(num_in_flight)
        self._capacity = capacity
        self._began = perf_counter()
        self._ended: float | None = None
        self._num_taken = 0
        self._num_failures = 0
        self._waited = 0.0

    def take(self, batches: Any) -> Any:
        """Return the next batch, and count it."""
        began = perf_counter()
        try:
            batch = next(batches)
            self._num_taken += 1
            return batch
        except StopIteration:
            self.end()
            raise
        except Exception:
            self._num_failures += 1
            raise
        finally:
            self._waited += perf_counter() - began

    def end(self) -> None:
        if self._ended is None:
            self._ended = perf_counter()

    def stats(self) -> PipelineStats:
        elapsed = (perf_counter() if self._ended is None else self._ended) - self._began
        count = None if self._num_in_flight is None or self._ended is not None else self._num_in_flight()
        num_loading, num_ready = (0, 0) if count is None else count()
        num_calls = self._num_taken + self._num_failures
        # Without workers, the consumer's waiting time is loading time. The loading time in worker processes is unknown.
        in_line = {"num_success": num_calls, "busy": self._waited, "wall_time": self._waited}
        load = StageStats(
            info=StageInfo(0, "0", "load", self._num_workers if self._num_workers > 1 else None),
            elapsed=elapsed,
            num_calls=num_calls + num_ready,
            num_failures=self._num_failures,
            num_in_flight=num_loading,
            num_emitted=self._num_taken + num_ready,
            queue_len=num_ready,
            queue_capacity=self._capacity,
            **({} if self._num_workers else in_line),  # type: ignore[arg-type] # none of them is a tuple
        )
        sink = StageStats(info=StageInfo(0, "1", "sink"), elapsed=elapsed, num_emitted=self._num_taken)
        state = "running" if self._ended is None else "ended"
        return PipelineStats(
            elapsed=elapsed,
            state=state,  # type: ignore[arg-type] # a literal
            num_threads=0,
            num_items=self._num_taken,
            consumer_wait=self._waited,
            stages=(load, sink),
        )


def empty_stats() -> PipelineStats:
    """The statistics before the first epoch."""
    return PipelineStats(elapsed=0.0, state="new", num_threads=0, num_items=0, consumer_wait=0.0, stages=())
