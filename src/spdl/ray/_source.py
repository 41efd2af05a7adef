"""``RaySource``: a Ray Dataset as the source of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spdl._numbers import as_int


class RaySource:
    """The rows or batches of a Ray Dataset as a source of a pipeline. Each iteration is one epoch of the data.

    Ray executes the dataset when it is iterated. To share one dataset between the ranks of a training run, pass each
    rank its own iterator: one of ``dataset.streaming_split(num_ranks, equal=True)``, or the result of
    ``ray.train.get_dataset_shard``. All iterators of a split must be read in step, epoch by epoch.

    A pipeline with this source cannot save its position, because Ray does not guarantee an order.

    Args:
        dataset: A ``ray.data.Dataset``, or a ``ray.data.DataIterator``.
        batch_size: Number of rows in a batch; ``None``: single rows, as dicts.
        options: Arguments of Ray's ``iter_batches`` (``batch_format=``, ``prefetch_batches=``, ``drop_last=``) or
            ``iter_rows``.

    Raises:
        TypeError: ``dataset`` has no method to iterate over rows or batches.
        ValueError: ``batch_size`` is less than 1.
    """

    def __init__(self, dataset: Any, *, batch_size: int | None = None, **options: Any) -> None:
        method = "iter_rows" if batch_size is None else "iter_batches"
        if isinstance(dataset, type) or not callable(getattr(dataset, method, None)):
            raise TypeError(
                f"dataset must be a Dataset or a DataIterator of Ray, got {dataset!r}: it has no {method}()"
            )
        if batch_size is not None:
            batch_size = as_int("batch_size", batch_size)
            if batch_size < 1:
                raise ValueError(f"batch_size must be >= 1 or None, got {batch_size}")
            options = {"batch_size": batch_size} | options
        self._iterate = getattr(dataset, method)
        self._options = options

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterate(**self._options))
