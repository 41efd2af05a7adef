"""One pass over a loader of ``get_pytorch_dataloader``, and the counts of one that is not run by a pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from weakref import WeakMethod

from spdl.pipeline import PipelineStats, StageInfo, StageStats

from .resuming._progress import Mark, Progress

if TYPE_CHECKING:
    from ._tolerance import Tolerance


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


T = TypeVar("T")


class Epoch(Iterator[T]):
    """One pass over the loader: the result of ``iter(loader)``.

    Args:
        batches: The batches; exceptions may come in between.
        progress: What was taken of them, for the state of the loader.
        counts: Counts them, if no pipeline does.
        tolerance: Drops those that fail; ``None``: their exceptions are raised.
        reported: Length of the iterable dataset, if it was asked for.
        too_long: Makes the text of the warning if the epoch is longer, from this length and the number taken.
    """

    def __init__(
        self,
        batches: Iterator[T],
        progress: Progress,
        counts: EpochCounts | None,
        tolerance: Tolerance | None,
        reported: int | None,
        too_long: Callable[[int, int], str],
    ) -> None:
        self._batches: Iterator[T] | None = batches
        self._progress = progress
        self._counts = counts
        self._tolerance = tolerance
        self._reported_length = reported
        self._too_long = too_long
        self._num_taken = 0

    def __next__(self) -> T:
        tolerance = self._tolerance
        if self._batches is None:
            if tolerance is not None and tolerance.failure is not None:
                raise tolerance.failure
            raise StopIteration
        try:
            take = next if self._counts is None else self._counts.take
            batch: T = take(self._batches) if tolerance is None else tolerance.next(take, self._batches)
        except StopIteration:
            self._progress.has_ended = True
            raise
        except Exception:
            if tolerance is not None and tolerance.failure is not None:
                self.close()
            raise
        self._num_taken += 1
        if self._reported_length is not None and self._num_taken > self._reported_length:
            warnings.warn(self._too_long(self._reported_length, self._num_taken), stacklevel=2)
        return batch

    def hold(self) -> None:
        """See ``Holding``."""
        self._progress.committed = self._progress.mark()

    def token(self) -> Mark:
        """See ``Holding``."""
        return self._progress.mark()

    def commit(self, token: Mark) -> None:
        """See ``Holding``."""
        self._progress.committed = token

    def close(self) -> None:
        """End the epoch and the workers that were started for it."""
        batches, self._batches = self._batches, None
        if self._counts is not None:
            self._counts.end()
        close = getattr(batches, "close", None)
        if callable(close):
            close()

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("an iterator over a loader cannot be pickled; pickle the loader")
