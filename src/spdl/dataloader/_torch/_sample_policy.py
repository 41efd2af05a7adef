"""``SamplePolicy``: retry or replace samples that cannot be loaded. Imports little of spdl.

A replacement is chosen by a hash of the index of the sample that failed (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", 2014), so that it is the same in every run, with any kind and number of workers.
"""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
