"""One pass over a loader of ``get_pytorch_dataloader``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ._torch._epoch_stats import EpochCounts
from ._torch._warnings import longer_than_reported
from ._torch.resuming._progress import Mark, Progress

if TYPE_CHECKING:
    from ._pytorch import PyTorchDataLoader
    from ._torch._tolerance import Tolerance

T = TypeVar("T")


class Epoch(Iterator[T]):
    """One pass over the loader: the result of ``iter(loader)``."""

    def __init__(self, batches: Iterator[T], loader: PyTorchDataLoader[T], progress: Progress) -> None:
        self._batches: Iterator[T] | None = batches
        self._progress = progress
        self._dataset = loader.dataset
        self._reported_length = loader._reported_length
        self._num_taken = 0
        workers = loader.workers if loader.workers != "auto" or loader.choice is None else loader.choice.workers
        self._is_in_processes = workers == "process" and loader.num_workers > 0
        self._counts: EpochCounts | None = None
        loader._observer = None
        if (observer_of := getattr(batches, "observer", None)) is not None:
            loader._observer = observer = observer_of()
            loader._read_stats = observer.stats
            if loader._is_measured:
                observer.measure()
        else:
            in_flight = getattr(batches, "num_in_flight", None)
            capacity = 0 if in_flight is None else (loader.prefetch_factor or 2) * loader.num_workers
            self._counts = EpochCounts(loader.num_workers, in_flight, capacity)
            loader._read_stats = self._counts.stats
        self._tolerance = None if loader.max_failures is None else _tolerance_of(loader)

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
            text = longer_than_reported(
                self._dataset, self._reported_length, self._num_taken, in_processes=self._is_in_processes
            )
            warnings.warn(text, stacklevel=2)
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


def _tolerance_of(loader: PyTorchDataLoader[Any]) -> Tolerance:
    from ._torch._tolerance import Tolerance  # imports the engine, which few loaders need

    assert loader.max_failures is not None
    return Tolerance(
        loader.max_failures, f"get_pytorch_dataloader({type(loader.dataset).__name__})", loader._failures_seen
    )
