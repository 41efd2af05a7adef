"""From an index, or several, to samples, to a batch: what every kind of worker does. Imports nothing of ours."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

__all__ = ["DrawnSeed", "IterableFetcher", "draw_base_seed", "fetch", "fetch_samples"]


@dataclass(frozen=True, slots=True)
class DrawnSeed:
    """Stands for a generator whose base seed has been drawn."""

    value: int


def fetch_samples(dataset: Any, indices: Any) -> Any:
    """The samples at ``indices``: what ``dataset.__getitems__`` makes of them if it has it, else a list."""
    getitems = getattr(dataset, "__getitems__", None)
    if getitems:
        return getitems(indices)
    return [dataset[index] for index in indices]


def fetch(dataset: Any, indices: Any, is_batched: bool, collate_fn: Callable[[Any], Any]) -> Any:
    """The batch for one element of the batch sampler, or the sample for one of the sampler.

    Raises:
        RuntimeError: Dataset or collate function raised ``StopIteration``, which would end the consumer's loop.
        Exception: Any other of theirs, as it is.
    """
    try:
        return collate_fn(fetch_samples(dataset, indices) if is_batched else dataset[indices])
    except StopIteration as exc:
        raise RuntimeError("the dataset or the collate function raised StopIteration") from exc


class IterableFetcher:
    """Batches, or samples, from one pass over an iterable dataset.

    Asks the dataset no further once it has ended, and goes on after an error of it, as torch does.

    Raises:
        Whatever ``iter(dataset)`` raises.
    """

    def __init__(
        self, dataset: Iterable[Any], batch_size: int | None, drop_last: bool, collate_fn: Callable[[Any], Any]
    ) -> None:
        self._samples: Iterator[Any] = iter(dataset)
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._collate_fn = collate_fn
        self._has_ended = False

    def fetch(self) -> Any:
        """The next batch, collated.

        Raises:
            StopIteration: The dataset has ended, or has too few samples left for a batch that is to be whole.
        """
        return self._collate_fn(self.take())

    def take(self) -> Any:
        """What ``collate_fn`` is to be given next; errors as those of ``fetch``."""
        if self._has_ended:
            raise StopIteration
        if self._batch_size is None:
            return next(self._samples)
        taken = list(islice(self._samples, self._batch_size))
        if len(taken) < self._batch_size:
            self._has_ended = True
            if not taken or self._drop_last:
                raise StopIteration
        return taken

    def close(self) -> None:
        """Close the dataset's iterator if it can be closed, so that what it holds is released now."""
        self._has_ended = True
        close = getattr(self._samples, "close", None)
        if callable(close):
            close()


def draw_base_seed(generator: Any) -> int:
    """A random number below 2**63 from ``generator``, or from torch's global one; as torch draws it for each ``iter``.

    Threads do not need it, but what is drawn after it would differ from torch's if it were not drawn.
    """
    if isinstance(generator, DrawnSeed):
        return generator.value
    import torch

    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
