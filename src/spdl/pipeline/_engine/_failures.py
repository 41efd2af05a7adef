"""Failed items: reporting them, and the records that the engine keeps about them."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from spdl._errors import NoSuccessError, PipelineError
from spdl._reports import add_note, attempts_of, cause_of, describe_exception, name_of, short_repr, shown
from spdl.pipeline._records import FailureOutcome

from ._origin import Origin, Root, plain_origin, roots_of

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

__all__ = [
    "Failure",
    "FailureRecord",
    "FailureReporter",
    "Outcome",
    "as_stage_failure",
    "chain",
    "log_failure",
    "no_success",
    "short_repr",
]

Outcome: TypeAlias = FailureOutcome
#: Reports a failed item. Runs user code (log handlers, callbacks), so never under the lock.
FailureReporter: TypeAlias = "Callable[[Failure], None]"


class FailureRecord(NamedTuple):
    """A failed item, in the form that is kept."""

    stage: str
    origin: object
    item_repr: str
    error: BaseException
    attempts: int = 1
    seconds: float = 0.0
    outcome: Outcome = "dropped"
    roots: tuple[Root, ...] = ()  # the positions that the item comes from


class Failure(NamedTuple):
    """A failed item, in the form that is reported: it also refers to objects that must not be kept."""

    stage: StageInfo | str
    origin: Origin  # of this pipeline
    item: Any
    record: FailureRecord
    worker: str  # the thread or the process that ran the call


_CAUSE: Final[Any] = vars(BaseException)["__cause__"]


def as_stage_failure(exc: BaseException, what: str) -> Exception:
    """Return the exception of a stage after ``what`` raised ``exc``: an exception group cannot hold ``SystemExit``."""
    if isinstance(exc, Exception):
        add_note(exc, f"in {what}")
        return exc
    failure = PipelineError(f"{what} raised {name_of(exc)}, which is not an Exception; the stage is stopped")
    failure.__cause__ = exc
    return failure


#: Maximum number of call starts in one traceback. Usually one; more for errors of a pipeline inside an op.
_MOST_RAISED: Final = 8


def chain(error: Exception, cause: Exception) -> None:
    """Make ``cause`` the cause of ``error``, unless it has one."""
    if error is not cause and cause_of(error) is None:
        _CAUSE.__set__(error, cause)  # bypasses __setattr__, which may raise


def no_success(stage: StageInfo, num_failures: int, newest: FailureRecord | None) -> NoSuccessError:
    """Return the error of a stage whose calls have all failed."""
    text = f"all {num_failures} calls of stage {stage} failed, and nothing came out of it"
    if num_failures == 1:
        text = f"the only call of stage {stage} failed, and nothing came out of it"
    if newest is not None:
        text += f"; the newest error: {describe_exception(newest.error)}, on item {newest.item_repr}"
    error = NoSuccessError(text, stage=str(stage), num_failures=num_failures)
    error.__cause__ = None if newest is None else newest.error
    return error


def log_failure(
    report: FailureReporter,
    stage: StageInfo,
    origin: Origin,
    item: Any,
    error: BaseException,
    location: str,
    *,
    seconds: float = 0.0,
    outcome: Outcome = "dropped",
) -> FailureRecord:
    """Add a note with the location to the exception, report it, and return its record.

    User code may run here (``__repr__``, log handlers): never call it under the engine's lock.
    """
    position = plain_origin(origin)
    text = short_repr(item)
    where = f"in pipeline stage {stage}, "
    what = f"source position {shown(position)}, item {text}, op defined at {location}"
    add_note(error, where + what, in_place_of=where)
    record = FailureRecord(str(stage), position, text, error, attempts_of(error), seconds, outcome, roots_of(origin))
    report(Failure(stage, origin, item, record, threading.current_thread().name))
    _clear_frames(error)
    return record


def _clear_frames(error: BaseException) -> None:
    """Clear the frames of the traceback, because the record outlives the call.

    An exception object that is raised repeatedly extends its traceback each time. The repetitions are cut off.
    """
    first = _traceback_of(error)
    if first is None:
        return
    _clear_ended(first)
    shorter = _without_repetitions(first)
    if shorter is not first and _traceback_of(error) is first:  # otherwise another thread has raised it again
        BaseException.with_traceback(error, shorter)  # bypasses __setattr__, which may raise (frozen dataclasses)


def _without_repetitions(first: TracebackType) -> TracebackType:
    """Return the traceback, cut before the call start that exceeds the limit.

    A shorter traceback is a new object. The interpreter prints a traceback without holding references to its parts: if
    another thread changes a ``tb_next`` at that time, the interpreter reads freed memory.
    """
    code = first.tb_frame.f_code  # a function of the engine or an executor, which appears at each start of a call
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
    was raised again elsewhere. Before 3.13, ``frame.clear()`` closes them, and their users lose the remaining values.
    Also, ``clear`` holds no reference to a generator: if another thread drops the last reference at that time, the
    memory in which the generator runs is freed.
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
    """Return whether nothing executes the frame, now or later: the frame object then owns its code and variables."""
    code = frame.f_code
    return any(each is code for each in gc.get_referents(frame))


def _traceback_of(error: BaseException) -> TracebackType | None:
    found = object.__getattribute__(error, "__traceback__")
    return found if isinstance(found, TracebackType) else None


E = TypeVar("E", bound=BaseException)


def release_frames(error: E) -> E:
    """Replace the tracebacks of ``error`` and of its causes by a note with the same text. Never raises.

    A traceback keeps its frames alive, with their callers and local variables. If the engine keeps an exception that
    was raised on the consumer's thread, these include the consumer's variables and so the pipeline itself. The pipeline
    would then never be collected, because the engine lives as long as the pipeline.
    """
    text = None
    with suppress(BaseException):  # the exception's methods are user code
        text = "".join(traceback.format_exception(error)).rstrip()
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        BaseException.with_traceback(each, None)  # bypasses __setattr__, which may raise (frozen dataclasses)
        todo += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            todo += each.exceptions
    if text is not None:
        add_note(error, text)
    return error
