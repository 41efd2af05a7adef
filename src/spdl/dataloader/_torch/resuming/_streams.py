"""``Stream``: one pass over an iterable dataset, from the position of a loaded state, which records its states."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Literal

from spdl.dataloader._torch._fetching import IterableFetcher
from spdl.resume._values import Residue, is_stateful

from ._progress import Recorded, Stater, StreamStart, end_of, finish, load_state, start_of
from ._random import depends_on_global, global_kept

#: Where a dataset is loaded. A worker process has random generators of its own; elsewhere, the loader sets torch's.
Place = Literal["inline", "thread", "process"]


class Stream:
    """One pass over an iterable dataset. Batches are numbered from the start of the epoch.

    Args:
        dataset: The dataset. If it, or its iterator, has ``state_dict``, its state is recorded.
        batch_size: Size of a batch; ``None``: samples are not batched.
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
        *,
        place: Place,
    ) -> None:
        recorded = start.recorded
        self._place = place
        # The loader sets torch's global generator to where it was when the state was saved. Threads draw ahead of the
        # consumer, so at that time it was too far for a dataset that draws its samples from it.
        #: Whether the generator is where the dataset needs it: nothing was taken, or it is a part of the state.
        self.has_set_generator = place == "thread" and start.taken == 0
        #: What loading has left in the dataset, to be removed after the pass.
        self.residue: Residue | None = None
        if recorded is not None and recorded.where == "before":
            with global_kept() if start.is_between and place != "process" else nullcontext():
                _go_through(dataset, recorded)
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
                self.residue = Residue(dataset)
                load_state(dataset, own, "the dataset")
                self.residue.note_loaded()
            self._fetcher = fetcher = IterableFetcher(dataset, batch_size, drop_last)
            if recorded is not None and recorded.where == "iterator":
                load_state(fetcher.samples, recorded.state, "the iterator of the dataset")
        if recorded is not None and recorded.has_ended:
            next(fetcher.samples, None)  # so that the dataset also reaches its end
            fetcher.end()
        self._dataset = dataset
        self._stater = stater = Stater.find(fetcher.samples, dataset=dataset)
        if place == "thread" and start.recorded is not None and stater is not None:
            self.has_set_generator |= depends_on_global(partial(stater.record, 0))
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
                self.end = self._record_end()
            raise
        except BaseException:
            self._number += 1
            raise
        self._number = number = self._number + 1
        stater = self._stater
        if stater is None or number % self._snapshot_every:
            return samples, None
        return samples, stater.record(number, has_ended=self._fetcher.has_ended)

    def _record_end(self) -> Recorded | None:
        stater = self._stater
        if stater is None or stater.where != "iterator" or self._place != "process":
            return end_of(self._dataset)
        # The iterator may have set generators of the worker, from which the next pass draws.
        last = stater.record(0)
        return Recorded(0, "before", last.beside, beside=last.state)

    def close(self) -> None:
        """Close the dataset's iterator if it has ``close()``."""
        self._fetcher.close()
        self._leave()

    def _leave(self) -> None:
        if self.residue is not None:
            self.residue.clear()


def _go_through(dataset: Any, recorded: Recorded) -> None:
    """Bring the dataset to where it was after a pass."""
    if recorded.state is not None:
        finish(dataset, recorded.state, "the dataset")
    if recorded.beside is not None:
        load_state(iter(dataset), recorded.beside, "the iterator of the dataset")


class DatasetStates:
    """Records the state of a map-style dataset after each batch; there may be none.

    Its batches cannot be loaded again to get to a later state, so ``snapshot_every`` does not count.

    Raises:
        ResumeError: The state cannot be loaded.
    """

    def __init__(self, dataset: Any, start: StreamStart, *, place: Place) -> None:
        recorded = start.recorded
        self.residue: Residue | None = None
        self.has_set_generator = False  # no matter: it is loaded in the thread that sets it
        if recorded is not None:
            with global_kept() if start.is_between and place != "process" else nullcontext():
                load_state(dataset, recorded.state, "the dataset")
        #: State before the first batch, if it is not the one that was loaded.
        self.first = start_of(dataset) if recorded is None or start.is_between else None
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
