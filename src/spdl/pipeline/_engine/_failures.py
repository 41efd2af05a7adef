"""How many failures a stage or a pipeline may spend, and how one failed item is recorded."""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl.pipeline._errors import FailureLimitError, PipelineError

from ._origin import Origin, describe

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

__all__ = ["FailureRecord", "FailureReporter", "Limit", "as_stage_failure", "log_failure", "short_repr"]

#: Writes a failed item to the log: stage, short repr of the item, source position, exception.
FailureReporter: TypeAlias = "Callable[[StageInfo, str, object, BaseException], None]"

#: A rate says nothing before it has seen some calls.
_MIN_CALLS_FOR_RATE = 100


class FailureRecord(NamedTuple):
    """One item that failed."""

    stage: str
    origin: object
    item_repr: str
    error: BaseException


class Limit:
    """A failure limit: a count (``int``) or a rate (``Fraction``); a pipeline's or a stage's own."""

    __slots__ = ("is_own", "value")

    def __init__(self, value: int | Fraction, *, is_own: bool) -> None:
        self.value = value
        self.is_own = is_own

    @property
    def is_count(self) -> bool:
        return isinstance(self.value, int)

    def exceeded(self, num_failures: int, num_calls: int) -> bool:
        if isinstance(self.value, int):
            return num_failures > self.value
        return num_calls >= _MIN_CALLS_FOR_RATE and num_failures > self.value * num_calls

    def error(self, stage: StageInfo, num_failures: int, num_calls: int) -> FailureLimitError:
        if isinstance(self.value, int):
            text = (
                f"The pipeline stage ({stage}) failed {num_failures} times, which exceeds the threshold ({self.value})."
            )
        else:
            text = (
                f"The pipeline stage ({stage}) failed {num_failures} times out of {num_calls} calls "
                f"({num_failures / num_calls:.2%}), which exceeds the threshold ({float(self.value):.2%})."
            )
        if not self.is_own:
            text += " Failures of all stages of the pipeline are counted."
        return FailureLimitError(
            text, stage=str(stage), num_failures=num_failures, num_calls=num_calls, limit=self.value
        )


def as_stage_failure(exc: BaseException, what: str) -> Exception:
    """What a stage fails with after ``what`` raised ``exc``. A group cannot hold ``SystemExit`` and the like."""
    if isinstance(exc, Exception):
        exc.add_note(f"in {what}")
        return exc
    failure = PipelineError(f"{what} raised {type(exc).__name__}, which is no ordinary exception; the stage is stopped")
    failure.__cause__ = exc
    return failure


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 4


def short_repr(value: Any) -> str:
    """At most some 80 characters; never raises, whatever the item's ``__repr__`` does."""
    try:
        text = _SHORT.repr(value)
    except Exception:  # noqa: BLE001 - the repr is the user's
        return f"<{type(value).__name__} object, its repr failed>"
    return text if len(text) <= 160 else text[:157] + "..."


def log_failure(
    report: FailureReporter, stage: StageInfo, origin: Origin, value: Any, error: BaseException, location: str
) -> FailureRecord:
    """Note on the exception where it happened, report it, and return what the ledger keeps.

    User code may run here (``__repr__``, log handlers): never call it under the engine's lock.
    """
    position = describe(origin)
    text = short_repr(value)
    error.add_note(f"in pipeline stage {stage}, source position {position}, item {text}, op defined at {location}")
    report(stage, text, position, error)
    # The ledger outlives the call: keep the lines of the traceback, let go of what its frames hold.
    traceback.clear_frames(error.__traceback__)
    return FailureRecord(str(stage), position, text, error)
