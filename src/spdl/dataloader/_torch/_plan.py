"""``Plan``: what a loader has to do, with all arguments resolved and checked. Does not import torch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ._arguments import ResolvedArguments

__all__ = ["Plan", "Run"]


@dataclass(kw_only=True)
class Plan(ResolvedArguments):
    """One loader's work in one epoch. Never changed: ``dataclasses.replace`` makes another.

    Attributes:
        prefetch_factor: Number of batches that each worker may be ahead.
        is_iterable: Whether the dataset is iterable (``iter(dataset)``) or map-style (``dataset[index]``).
        indices: The batch sampler, or the sampler if samples are not batched; ``None`` for iterable datasets.
        pin: Function that puts a batch in page-locked memory; called in this process. ``None``: not wanted, or not
            possible.
    """

    prefetch_factor: int
    is_iterable: bool
    indices: Iterable[Any] | None
    pin: Callable[[Any], Any] | None

    @property
    def is_batched(self) -> bool:
        """Whether ``collate_fn`` gets lists of samples, or one sample at a time."""
        return self.batch_sampler is not None

    @property
    def drops_failures(self) -> bool:
        """Whether a batch that fails is logged and dropped, as in SPDL 0.8; otherwise its exception is raised."""
        return self.workers is None


class Run(Protocol):
    """What does the work of one plan. Kept by the loader as long as its workers are to live."""

    def iterate(self) -> Iterator[Any]:
        """Begin an epoch, in the consumer's thread.

        Random numbers are drawn here, in torch's order: the base seed, then what the sampler needs for the first index
        batches. The iterator goes on after an exception of the dataset, as torch's does; it has ended when it raises
        ``StopIteration``, when its ``close()`` is called, if it has one, or when it is collected.
        """

    def close(self) -> None:
        """End all workers and wait for them. Idempotent."""
