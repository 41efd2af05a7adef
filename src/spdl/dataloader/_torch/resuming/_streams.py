"""``Stream``: one pass over an iterable dataset, from the position of a loaded state, which records its states."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from spdl.dataloader._torch._fetching import IterableFetcher
from spdl.resume._residue import Residue

from ._progress import Recorded, StreamStart
from ._stateful import Stater, end_of, finish, is_stateful, load_passing, load_state, start_of

__all__ = ["DatasetStates", "Stream"]


class Stream:
    """One pass over an iterable dataset. Batches are numbered from the start of the epoch.

    Args:
        dataset: The dataset. If it, or its iterator, has ``state_dict``, its state is recorded.
        batch_size: Size of a batch; ``None``: samples are not batched.
        drop_last: Whether an incomplete last batch is dropped.
        start: Where to begin.
        snapshot_every: Number of batches after which the state is recorded.

    Raises:
        ResumeError: The state cannot be loaded.
        Exception: ``iter(dataset)`` raised it, or loading the skipped batches did.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None,
        drop_last: bool,
        start: StreamStart,
        snapshot_every: int,
    ) -> None:
        recorded = start.recorded
        #: What loading has left in the dataset, to be removed after the pass.
        self.residue: Residue | None = None
        if recorded is not None and recorded.where == "before":
            finish(dataset, recorded.state, "the dataset")
            recorded = None
        #: State before the first batch: of the dataset before the pass, or of the iterator.
        self.first: Recorded | None = start_of(dataset) if recorded is None else None
        own = None
        if recorded is not None:
            own = recorded.state if recorded.where == "dataset" else recorded.beside
        if recorded is not None and recorded.has_ended and own is not None:
            finish(dataset, own, "the dataset")
            self._fetcher = fetcher = IterableFetcher((), batch_size, drop_last)
        else:
            if own is not None:
                self.residue = load_passing(dataset, own, "the dataset")
            self._fetcher = fetcher = IterableFetcher(dataset, batch_size, drop_last)
            if recorded is not None and recorded.where == "iterator":
                load_state(fetcher.samples, recorded.state, "the iterator of the dataset")
        if recorded is not None and recorded.has_ended:
            next(fetcher.samples, None)  # so that the dataset also reaches its end
            fetcher.end()
        self._dataset = dataset
        self._stater = stater = Stater.find(fetcher.samples, dataset=dataset)
        self._snapshot_every = snapshot_every
        self._number = start.taken - start.num_skipped
        if stater is not None and stater.where == "iterator" and self._number == 0:
            self.first = stater.record(0)
        #: State of the dataset after the pass.
        self.end: Recorded | None = None
        with suppress(StopIteration):
            for _ in range(start.num_skipped):
                fetcher.take()
                self._number += 1

    def take(self) -> tuple[Any, Recorded | None]:
        """The samples of the next batch, and the state after it if it is time to record one.

        Raises:
            StopIteration: The dataset has ended.
            Exception: The dataset raised it; a later call continues.
        """
        try:
            samples = self._fetcher.take()
        except StopIteration:
            self._leave()
            if self.end is None:
                self.end = end_of(self._dataset)
            raise
        except BaseException:
            self._number += 1
            raise
        self._number = number = self._number + 1
        stater = self._stater
        if stater is None or number % self._snapshot_every:
            return samples, None
        return samples, stater.record(number, has_ended=self._fetcher.has_ended)

    def close(self) -> None:
        """Close the dataset's iterator if it has ``close()``."""
        self._fetcher.close()
        self._leave()

    def _leave(self) -> None:
        if self.residue is not None:
            self.residue.clear()


class DatasetStates:
    """Records the state of a map-style dataset after each batch; there may be none.

    Its batches cannot be loaded again to get to a later state, so ``snapshot_every`` does not count.

    Raises:
        ResumeError: The state cannot be loaded.
    """

    def __init__(self, dataset: Any, start: StreamStart) -> None:
        if start.recorded is not None:
            load_state(dataset, start.recorded.state, "the dataset")
        self._stater = Stater("dataset", dataset) if is_stateful(dataset) else None
        self._dataset = dataset
        self._number = start.taken

    def __bool__(self) -> bool:
        return self._stater is not None

    def after_batch(self) -> Recorded | None:
        """Return the state if there is one."""
        self._number = number = self._number + 1
        return None if self._stater is None else self._stater.record(number)

    def end(self) -> Recorded | None:
        """The state of the dataset after the epoch."""
        return end_of(self._dataset)
