"""Load the samples of a batch by index and collate them, for every kind of worker. Imports little of spdl."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

from ._sample_policy import SamplePolicy


@dataclass(frozen=True, slots=True)
class DrawnSeed:
    """Used in place of a generator whose base seed has already been drawn."""

    value: int


def fetch_sample(dataset: Any, index: Any, policy: SamplePolicy | None = None) -> Any:
    """The sample at ``index``; ``policy`` says what to do if it fails."""
    return dataset[index] if policy is None else policy.sample(dataset, index)


def fetch_samples(dataset: Any, indices: Any, policy: SamplePolicy | None = None) -> Any:
    """The samples at ``indices``: the result of ``dataset.__getitems__`` if it exists, else a list."""
    if policy is not None:
        return policy.samples(dataset, indices)
    getitems = getattr(dataset, "__getitems__", None)
    return getitems(indices) if getitems else [dataset[index] for index in indices]


def fetch(
    dataset: Any,
    indices: Any,
    is_batched: bool,
    collate_fn: Callable[[Any], Any],
    policy: SamplePolicy | None = None,
) -> Any:
    """The batch for one element of the batch sampler, or the sample for one of the sampler.

    Raises:
        RuntimeError: Dataset or collate function raised ``StopIteration``, which would end the consumer's loop.
        Exception: Dataset or collate function raised it.
    """
    try:
        fetched = fetch_samples(dataset, indices, policy) if is_batched else fetch_sample(dataset, indices, policy)
        return collate_fn(fetched)
    except StopIteration as exc:
        raise RuntimeError("the dataset or the collate function raised StopIteration") from exc


class IterableFetcher:
    """Batches, or samples, from one pass over an iterable dataset.

    As in torch, the dataset is not asked again after its end, and iteration continues after its exceptions.

    Raises:
        Exception: ``iter(dataset)`` raised it.
    """

    def __init__(self, dataset: Iterable[Any], batch_size: int | None, drop_last: bool) -> None:
        self._samples: Iterator[Any] = iter(dataset)
        # islice() calls iter() on its argument, and a dataset that is its own iterator may begin again.
        self._nexts = map(next, repeat(self._samples))
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._has_ended = False

    def take(self) -> Any:
        """The next samples, not collated: a list, or one sample if not batched.

        Raises:
            StopIteration: The dataset has ended, or with ``drop_last`` has too few samples left for a whole batch.
        """
        if self._has_ended:
            raise StopIteration
        if self._batch_size is None:
            return next(self._samples)
        taken = list(islice(self._nexts, self._batch_size))
        if len(taken) < self._batch_size:
            self._has_ended = True
            if not taken or self._drop_last:
                raise StopIteration
        return taken

    @property
    def samples(self) -> Iterator[Any]:
        """The dataset's iterator."""
        return self._samples

    @property
    def has_ended(self) -> bool:
        """Whether the dataset has ended, or has too few samples left for a whole batch."""
        return self._has_ended

    def end(self) -> None:
        """Stop: return no more samples."""
        self._has_ended = True

    def close(self) -> None:
        """Close the dataset's iterator if it has ``close()``, so that it releases its resources now."""
        self._has_ended = True
        close = getattr(self._samples, "close", None)
        if callable(close):
            close()


def draw_base_seed(generator: Any) -> int:
    """A random number below 2**63 from ``generator`` or torch's global one, drawn as torch draws it for each ``iter``.

    Threads do not need the seed, but without drawing it all later random numbers would differ from torch's.
    """
    if isinstance(generator, DrawnSeed):
        return generator.value
    import torch

    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
