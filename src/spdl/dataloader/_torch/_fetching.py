"""Load the samples of a batch by index, retry or replace them, and collate them, for every kind of worker.

A replacement is chosen by a hash of the index of the sample that failed (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", 2014), so that it is the same in every run, with any kind and number of workers.
Imports little of spdl.
"""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from operator import index as as_int
from typing import Any, Final, Protocol

from spdl._failure_log import log_failed
from spdl._random import absorb, words_of
from spdl._reports import add_note, note_attempts, shown

_LOG = logging.getLogger("spdl.dataloader")

#: Maximum number of replacements that are tried for one sample.
MOST_REPLACEMENTS: Final = 10

#: Uses the system's generator, which has no state, so that the random numbers of users do not change.
_JITTER: Final = random.SystemRandom()


class Attempts(Protocol):
    """When to try a call again: ``spdl.pipeline.defs.Retry``."""

    @property
    def attempts(self) -> int: ...

    def covers(self, error: BaseException, /) -> bool: ...

    def delay_before(self, attempt: int, random: Callable[[], float], /) -> float: ...


@dataclass(frozen=True, slots=True)
class SamplePolicy:
    """Retries and replacements for samples of a map-style dataset.

    Attributes:
        retry: When to try again; ``None``: never.
        replaces: Whether a sample that fails is replaced by another one.
        seen: Failures so far, by kind, for the log.
    """

    retry: Attempts | None
    replaces: bool
    seen: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

    def sample(self, dataset: Any, index: Any) -> Any:
        """Return ``dataset[index]``, or a replacement.

        Raises:
            Exception: The dataset raised it; all replacements have failed too.
        """
        return self._load(dataset.__getitem__, dataset, index)

    def samples(self, dataset: Any, indices: Any) -> Any:
        """Return the result of ``dataset.__getitems__`` if it exists, else a list of samples.

        If one call loads all samples and fails, each sample is loaded, and if necessary replaced, separately.
        """
        getitems = getattr(dataset, "__getitems__", None)
        if not getitems:
            return [self.sample(dataset, index) for index in indices]
        try:
            return self._try(getitems, indices)
        except Exception:
            if not self.replaces:
                raise

        def get(index: Any) -> Any:
            (sample,) = getitems([index])
            return sample

        return [self._load(get, dataset, index) for index in indices]

    def _load(self, get: Callable[[Any], Any], dataset: Any, index: Any) -> Any:
        try:
            return self._try(get, index)
        except Exception as exc:
            if not self.replaces:
                raise
            error = exc
        for number, other in enumerate(_others(error, index, len(dataset))):
            if number == MOST_REPLACEMENTS:
                break
            try:
                sample = self._try(get, other)
            except Exception as exc:  # noqa: BLE001 - the error of the original sample is raised
                self._log("sample %d, in place of %d, failed too", other, index, exc)
                continue
            self._log("sample %d failed, and sample %d is in its place", index, other, error)
            return sample
        add_note(error, f"the samples tried in place of sample {shown(index)} failed too")
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame

    def _log(self, text: str, first: Any, second: Any, error: BaseException) -> None:
        log_failed(_LOG, self.seen, "sample", text, first, second, error=error, level=logging.WARNING)

    def _try(self, get: Callable[[Any], Any], key: Any) -> Any:
        retry = self.retry
        if retry is None:
            return get(key)
        attempt = 1
        while True:
            try:
                return get(key)
            except Exception as exc:
                if attempt >= retry.attempts or not retry.covers(exc):
                    note_attempts(exc, attempt, retry.attempts)
                    raise
            attempt += 1
            time.sleep(retry.delay_before(attempt, _JITTER.random))


def _others(error: Exception, index: Any, length: int) -> Iterator[int]:
    """Indices of other samples, each once.

    Raises:
        Exception: ``error``: the index is not an integer, or there are no other samples.
    """
    try:
        failed = as_int(index)
    except TypeError:
        add_note(error, f"there is no sample in its place: on_error='replace' needs int indices, got {shown(index)}")
        raise error from None
    state = 0
    for word in words_of(failed):
        state = absorb(state, word)
    tried, number = {failed % length}, 0
    while len(tried) < length:
        other = absorb(state, number) % length
        number += 1
        if other not in tried:
            tried.add(other)
            yield other


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
    dataset: Any, indices: Any, is_batched: bool, collate_fn: Callable[[Any], Any], policy: SamplePolicy | None = None
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
