"""Failure limits of stages and pipelines, and the records of failed items."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable
from fractions import Fraction
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spdl._errors import FailureLimitError, PipelineError
from spdl._reports import add_note, name_of, short_repr, shown

from ._origin import Origin, Root, describe, roots_of

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

__all__ = ["FailureRecord", "FailureReporter", "Limit", "as_stage_failure", "log_failure", "short_repr"]

#: Writes a failed item to the log: stage, short repr of the item, source position, exception.
FailureReporter: TypeAlias = "Callable[[StageInfo, str, object, BaseException], None]"

#: Minimum number of calls before a rate is checked.
_MIN_CALLS_FOR_RATE = 100


class FailureRecord(NamedTuple):
    """A failed item."""

    stage: str
    origin: object
    item_repr: str
    error: BaseException
    roots: tuple[Root, ...] = ()  # the positions that the item comes from


class Limit:
    """A failure limit, of a stage (``is_own``) or the pipeline: a count (``int``) or a rate (``Fraction``)."""

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
    """Return the exception of a stage after ``what`` raised ``exc``: an exception group cannot hold ``SystemExit``."""
    if isinstance(exc, Exception):
        add_note(exc, f"in {what}")
        return exc
    failure = PipelineError(f"{what} raised {name_of(exc)}, which is no ordinary exception; the stage is stopped")
    failure.__cause__ = exc
    return failure


#: Maximum number of call starts in one traceback. Usually one; more for errors of a pipeline inside an op.
_MOST_RAISED: Final = 8


def log_failure(
    report: FailureReporter, stage: StageInfo, origin: Origin, value: Any, error: BaseException, location: str
) -> FailureRecord:
    """Add a note with the location to the exception, report it, and return its record.

    User code may run here (``__repr__``, log handlers): never call it under the engine's lock.
    """
    position = describe(origin)
    text = short_repr(value)
    where = f"in pipeline stage {stage}, "
    what = f"source position {shown(position)}, item {text}, op defined at {location}"
    add_note(error, where + what, in_place_of=where)
    report(stage, text, position, error)
    _clear_frames(error)
    return FailureRecord(str(stage), position, text, error, roots_of(origin))


def _clear_frames(error: BaseException) -> None:
    """Clear the frames of the traceback, because the record outlives the call.

    An exception object that is raised repeatedly extends its traceback each time. The repetitions are cut off.
    """
    first = _traceback_of(error)
    if first is None:
        return
    _clear_ended(first)
    shorter = _without_repetitions(first)
    if shorter is not first and _traceback_of(error) is first:  # else another thread has raised it meanwhile
        BaseException.with_traceback(error, shorter)  # bypasses __setattr__, which may raise (frozen dataclasses)


def _without_repetitions(first: TracebackType) -> TracebackType:
    """Return the traceback up to the start of a call that is one too many.

    A shorter one is made anew. The interpreter prints a traceback without holding references to its parts: if
    ``tb_next`` of one is changed meanwhile, on another thread, it reads memory that was freed.
    """
    code = first.tb_frame.f_code  # of the engine or an executor: it recurs at each start of a call
    kept = [first]
    num_begun = 0
    while (each := kept[-1].tb_next) is not None:
        num_begun += each.tb_frame.f_code is code
        if num_begun == _MOST_RAISED:
            break
        kept.append(each)
    else:
        return first
    shorter: TracebackType | None = None
    for each in reversed(kept):
        shorter = TracebackType(shorter, each.tb_frame, each.tb_lasti, each.tb_lineno)
    assert shorter is not None
    return shorter


def _clear_ended(first: TracebackType) -> None:
    """Clear the frames that have ended, as ``traceback.clear_frames`` does from Python 3.13 on.

    The traceback may have frames of suspended generators and coroutines: they caught the exception, and the same object
    was raised again elsewhere. Before 3.13, ``frame.clear()`` closes them. Their users lose the rest of what they would
    have given. And because ``clear`` holds no reference to a generator, another thread that drops the last one
    meanwhile frees the memory in which the generator runs.
    """
    if sys.version_info >= (3, 13):
        traceback.clear_frames(first)
        return
    each: TracebackType | None = first
    while each is not None:
        if _has_ended(each.tb_frame):
            each.tb_frame.clear()
        each = each.tb_next


def _has_ended(frame: FrameType) -> bool:
    """Whether nothing executes the frame, now or later: then the frame object owns its code and its variables."""
    code = frame.f_code
    return any(each is code for each in gc.get_referents(frame))


def _traceback_of(error: BaseException) -> TracebackType | None:
    found = object.__getattribute__(error, "__traceback__")
    return found if isinstance(found, TracebackType) else None
