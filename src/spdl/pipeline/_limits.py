"""Failure limits: decide when a stage or a pipeline has had too many failures to continue."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import TYPE_CHECKING

from spdl._errors import FailureLimitError
from spdl.pipeline.defs import Rate

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline.defs import MaxFailures

#: Minimum number of calls before a share of all calls is checked.
_MIN_CALLS_FOR_SHARE = 100


class Limit:
    """A limit of a stage (``is_own``) or of the pipeline: a number of failures (``int``) or a share (``Fraction``)."""

    __slots__ = ("is_own", "value")

    def __init__(self, value: MaxFailures, *, is_own: bool) -> None:
        self.value = value
        self.is_own = is_own

    @property
    def is_count(self) -> bool:
        return isinstance(self.value, int)

    def exceeded(self, num_failures: int, num_calls: int) -> bool:
        if isinstance(self.value, int):
            return num_failures > self.value
        assert isinstance(self.value, Fraction)
        return num_calls >= _MIN_CALLS_FOR_SHARE and num_failures > self.value * num_calls

    def error(self, stage: StageInfo, num_failures: int, num_calls: int) -> FailureLimitError:
        times, threshold = self.describe(num_failures, num_calls)
        text = f"The pipeline stage ({stage}) failed {times}, which exceeds the threshold ({threshold})."
        if not self.is_own:
            text += " Failures of all stages of the pipeline are counted."
        return FailureLimitError(
            text, stage=str(stage), num_failures=num_failures, num_calls=num_calls, limit=self.value
        )

    def describe(self, num_failures: int, num_calls: int) -> tuple[str, str]:
        """Return how often calls have failed, and the limit."""
        if isinstance(self.value, int):
            return f"{num_failures} times", str(self.value)
        assert isinstance(self.value, Fraction)
        share = f"{num_failures / num_calls:.2%}"
        return f"{num_failures} times out of {num_calls} calls ({share})", f"{float(self.value):.2%}"


class RateLimit(Limit):
    """The limit of one stage over its newest calls. It costs time only when a call has failed."""

    __slots__ = ("failed_at", "most", "num_seen", "per")

    value: Rate

    def __init__(self, value: Rate) -> None:
        super().__init__(value, is_own=True)
        self.per = value.per
        self.most = value.most
        self.failed_at: deque[int] = deque()  # numbers of the failed calls in the window
        self.num_seen = 0  # number of failures of the stage at the last check

    def exceeded(self, num_failures: int, num_calls: int) -> bool:
        num_new = num_failures - self.num_seen
        if not num_new:
            return False
        self.num_seen = num_failures
        failed_at = self.failed_at
        failed_at.extend([num_calls] * num_new)
        oldest = num_calls - self.per
        while failed_at[0] <= oldest:
            failed_at.popleft()
        return len(failed_at) > self.most

    def describe(self, num_failures: int, num_calls: int) -> tuple[str, str]:
        return f"{len(self.failed_at)} times in its newest {min(num_calls, self.per)} calls", str(self.value)
