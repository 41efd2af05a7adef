"""``Plan``: the resolved arguments of a loader for one epoch; ``Run``: executes a plan. Does not import torch."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._arguments import ResolvedArguments
from ._sample_policy import SamplePolicy
from .resuming._progress import Progress


@dataclass(kw_only=True)
class Plan(ResolvedArguments):
    """Everything that an epoch of a loader needs. Treated as immutable: ``dataclasses.replace`` makes a changed copy.

    Attributes:
        prefetch_factor: Number of batches that each worker may prefetch.
        is_iterable: Whether the dataset is iterable (``iter(dataset)``) or map-style (``dataset[index]``).
        indices: The batch sampler, or the sampler if samples are not batched; ``None`` for iterable datasets.
        pin: Function that puts a batch in page-locked memory; called in this process. ``None``: not requested, or not
            possible.
        failures_seen: How often batches and samples have failed, by kind, for the log: shared by all epochs of the
            loader.
    """

    prefetch_factor: int
    is_iterable: bool
    indices: Iterable[Any] | None
    pin: Callable[[Any], Any] | None
    failures_seen: Counter[str] = field(default_factory=Counter)

    @property
    def is_batched(self) -> bool:
        """Whether ``collate_fn`` gets lists of samples, or one sample at a time."""
        return self.batch_sampler is not None

    @property
    def sample_policy(self) -> SamplePolicy | None:
        """Policy for samples that fail; ``None``: none."""
        replaces = self.on_error == "replace"
        return SamplePolicy(self.retry, replaces, self.failures_seen) if replaces or self.retry is not None else None

    @property
    def drops_failures(self) -> bool:
        """Whether a batch that fails is logged and dropped, as in SPDL 0.8; otherwise its exception is raised.

        With ``max_failures`` it is also raised, and the loader decides.
        """
        return self.workers is None and self.max_failures is None


class Run(Protocol):
    """Executes one plan. The loader keeps it as long as its workers are needed."""

    def iterate(self, progress: Progress | None = None) -> Iterator[Any]:
        """Begin an epoch, in the consumer's thread.

        Args:
            progress: Where the epoch begins; updated during the epoch. ``None``: at the beginning.

        Random numbers are drawn here in torch's order: first the base seed, then those that the sampler needs for the
        first index batches. The iterator continues after an exception of the dataset, as torch's does. It ends when it
        raises ``StopIteration``, when its ``close()`` is called, if it has one, or when it is collected.
        """

    def close(self) -> None:
        """Stop all workers and wait for them. Idempotent."""
