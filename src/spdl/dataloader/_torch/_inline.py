"""``make_run``: the run of a plan; ``InlineRun``: load every batch in the consumer's thread, on demand."""

from collections.abc import Iterator
from typing import Any

from ._arguments import Plan, Run, Workers
from ._fetching import draw_base_seed, fetch
from .resuming._progress import Progress
from .resuming._random import global_kept
from .resuming._streams import DatasetStates, Stream


def make_run(workers: Workers | None, plan: Plan) -> Run:
    """Return what executes a plan with this kind of workers."""
    if plan.num_workers == 0:
        return InlineRun(plan)
    if workers == "thread":
        from .threads._threads import ThreadRun

        return ThreadRun(plan)
    from .processes._processes import ProcessRun

    return ProcessRun(plan)


class InlineRun:
    """See ``Run``."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def iterate(self, progress: Progress | None = None) -> Iterator[Any]:
        plan = self._plan
        progress = progress or Progress()
        if plan.is_iterable:
            draw_base_seed(plan.generator)
            return _StreamedBatches(plan, progress)
        assert plan.indices is not None
        indices = iter(plan.indices)
        draw_base_seed(plan.generator)
        return _IndexedBatches(plan, progress, indices)

    def close(self) -> None:
        pass


# The iterators of an epoch are not generators, which would end with the first exception of the dataset.


class _IndexedBatches(Iterator[Any]):
    """Batches of a map-style dataset."""

    __slots__ = ("_indices", "_plan", "_position", "_progress", "_states")

    def __init__(self, plan: Plan, progress: Progress, indices: Iterator[Any]) -> None:
        self._plan = plan
        self._progress = progress
        self._indices = indices
        self._position = 0
        with global_kept():  # the loader sets it
            self._states = DatasetStates(plan.dataset, progress.start_of(0), place="inline")
        if self._states:
            progress.open_streams(1)
            progress.follow(self._states)

    def __next__(self) -> Any:
        plan = self._plan
        try:
            indices = next(self._indices)
        except StopIteration:
            if self._states:
                self._progress.note_end(0, self._states.end())
            raise
        position = self._position
        self._position = position + 1
        try:
            batch = fetch(plan.dataset, indices, plan.is_batched, plan.collate_fn, plan.sample_policy)
        except Exception:
            self._count(position)
            raise
        self._count(position)
        return batch if plan.pin is None else plan.pin(batch)

    def _count(self, position: int) -> None:
        self._progress.take(position)
        if self._states:
            self._progress.take_from(0, self._states.after_batch())


class _StreamedBatches(Iterator[Any]):
    """Batches of an iterable dataset."""

    __slots__ = ("_plan", "_progress", "_stream")

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
        self._stream = Stream(
            plan.dataset, plan.batch_size, plan.drop_last, progress.start_of(0), progress.snapshot_every, place="inline"
        )
        progress.open_streams(1)
        progress.follow(self._stream)

    def __next__(self) -> Any:
        plan = self._plan
        try:
            samples, recorded = self._stream.take()
        except StopIteration:
            self._progress.note_end(0, self._stream.end)
            raise
        except Exception:
            self._progress.take_from(0)
            raise
        self._progress.take_from(0, recorded)
        batch = plan.collate_fn(samples)
        return batch if plan.pin is None else plan.pin(batch)
