"""``Plan``: what a loader has to do, with all arguments resolved and checked. Imports nothing of ours, nor torch."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any, Protocol

__all__ = ["Plan", "Run"]


@dataclass(frozen=True, slots=True)
class Plan:
    """One loader's work, in terms that do not depend on where it is done.

    Attributes:
        dataset: The user's. Map-style: ``dataset[index]``; iterable: ``iter(dataset)``.
        is_iterable: Which of the two it is.
        indices: The batch sampler, or the sampler if samples are not batched; ``None`` for iterable datasets.
        is_batched: Whether ``collate_fn`` gets lists of samples, or one sample at a time.
        batch_size: For iterable datasets: how many samples go together; ``None`` if not batched.
        drop_last: For iterable datasets: whether an incomplete batch is discarded.
        collate_fn: Makes a batch of samples, or converts a sample.
        num_workers: How many threads or processes; 0: the consumer's own thread.
        prefetch_factor: How many batches each worker may be ahead.
        in_order: Whether batches come in the order of their indices.
        timeout: Seconds to wait for a batch; 0: as long as it takes.
        worker_init_fn: Called in each worker process with its number.
        mp_context: How worker processes start.
        generator: Where the base seed is drawn from; ``None``: torch's global generator.
        persistent: Whether workers outlive an epoch.
        pin: Puts a batch in page-locked memory; called in this process. ``None``: not wanted, or not possible.
        init_concurrency: How many worker processes load the dataset at once; ``None``: all.
        drop_failures: Whether a batch that fails is logged and dropped (processes only); otherwise it is raised.
    """

    dataset: Any
    is_iterable: bool
    indices: Iterable[Any] | None
    is_batched: bool
    batch_size: int | None
    drop_last: bool
    collate_fn: Callable[[Any], Any]
    num_workers: int
    prefetch_factor: int
    in_order: bool
    timeout: float
    worker_init_fn: Callable[[int], None] | None
    mp_context: str | BaseContext | None
    generator: Any
    persistent: bool
    pin: Callable[[Any], Any] | None
    init_concurrency: int | None
    drop_failures: bool


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
