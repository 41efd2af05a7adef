"""``Tolerance``: drop failed batches of an epoch, up to ``max_failures`` of ``get_pytorch_dataloader``."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from spdl._failure_log import log_failed
from spdl._reports import describe_exception, log
from spdl.dataloader._losses import Losses
from spdl.pipeline import FailureLimitError, NoSuccessError, PipelineError, PipelineFailure, StageTimeoutError
from spdl.pipeline._limits import Limit, RateLimit
from spdl.pipeline.defs import MaxFailures, Rate

_LOG = logging.getLogger("spdl.dataloader")


class Tolerance:
    """Take the batches of one epoch and drop those that fail, up to a limit.

    Errors of the workers and of the engine (``PipelineError``) do not count as failed batches: they are raised. A
    sample that took longer than ``call_timeout`` counts.

    Args:
        limit: Limit on the failures.
        loader: Loader, for messages.
        seen: Failures of earlier epochs, for the log.
    """

    def __init__(self, limit: MaxFailures, loader: str, seen: Counter[str]) -> None:
        self._given = limit
        self._limit = RateLimit(limit) if isinstance(limit, Rate) else Limit(limit, is_own=True)
        self._is_limited = not (isinstance(limit, int) and limit < 0)
        share = limit.share if isinstance(limit, Rate) else limit
        self._may_all_fail = isinstance(limit, Fraction | Rate) and share == 1
        self._loader = loader
        self._seen = seen
        self._num_calls = 0
        self._losses = Losses()
        #: The error that has ended the epoch; each later call raises it again.
        self.failure: Exception | None = None

    def next(self, take: Callable[[Iterator[Any]], Any], batches: Iterator[Any]) -> Any:
        """Return the next batch of ``take(batches)`` that has not failed.

        Raises:
            StopIteration: There are no more batches.
            FailureLimitError: More batches have failed than ``max_failures`` allows.
            PipelineFailure: The epoch has ended, and all its batches have failed.
        """
        losses = self._losses
        while True:
            try:
                batch = take(batches)
            except StopIteration:
                self._end()
                raise
            except Exception as exc:  # of the dataset, or the collate function
                if isinstance(exc, PipelineError) and not isinstance(exc, StageTimeoutError):
                    raise
                self._num_calls += 1
                losses.num_single += 1
                losses.last = exc
                self._check(exc)
                log_failed(_LOG, self._seen, "batch", "%s dropped a batch", self._loader, error=exc)
                continue
            self._num_calls += 1
            if losses.num_single and not isinstance(self._given, int):
                self._check(losses.last)
            return batch

    def _check(self, cause: BaseException | None) -> None:
        num_failures, num_calls = self._losses.num_single, self._num_calls
        if not self._is_limited or not self._limit.exceeded(num_failures, num_calls):
            return
        self.failure = FailureLimitError(
            f"{num_failures} of {num_calls} batches of {self._loader} failed, which exceeds max_failures={self._given}",
            stage=self._loader,
            num_failures=num_failures,
            num_calls=num_calls,
            limit=self._given,
        )
        raise self.failure from cause

    def _end(self) -> None:
        num_failures, error = self._losses.num_single, self._losses.last
        if not num_failures:
            return
        if num_failures == self._num_calls and not self._may_all_fail:
            assert error is not None
            failure = NoSuccessError(
                f"all {num_failures} batches of {self._loader} failed; the newest error: {describe_exception(error)}",
                stage=self._loader,
                num_failures=num_failures,
            )
            failure.__cause__ = error
            self.failure = PipelineFailure([(self._loader, failure)])
            raise self.failure
        assert error is not None
        text = "%s: %d of %d batches were dropped in this epoch, because they failed (last: %s)"
        log(_LOG, logging.WARNING, text, self._loader, num_failures, self._num_calls, describe_exception(error))
