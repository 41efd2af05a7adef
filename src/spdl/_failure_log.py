"""How failures of users' functions are logged: one line each, the first of a kind with its traceback, then counts.

A kind is a place (a stage, a loader, images of batches), a class of exceptions, and the line that raised. All that logs
failures of items goes through ``log_failed``: the engine, loaders and their workers, hooks, reports, batches of media.
"""

import logging
import os
import threading
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from spdl._reports import log, name_of, printable, shown, text_of

_VARIABLE = "SPDL_PIPELINE_COMPACT_LOG"


Style: TypeAlias = Literal["compact", "full", "first"]

#: From so many failures of a kind on, a line has only their number, at 10, 20, 50, 100 and so on, then at each 1000.
_FEW: Final = 10

_EVERY: Final = 1000

#: Largest number of kinds that are told apart. Further ones count as one.
_MOST_KINDS: Final = 256


@dataclass
class _Setting:
    """Process-wide state: a program sets the log style once for all pipelines."""

    compact: bool | None = None


_SETTING = _Setting()


class _Counting:
    """Lets threads count together: those of a stage, or the user's."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def forked(self) -> None:
        """In a forked process, whose parent may have been counting."""
        self.lock = threading.Lock()


_COUNTING: Final = _Counting()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_COUNTING.forked)


def set_compact_log(value: bool | None) -> None:
    """Set the log style of item errors for this process.

    Args:
        value: ``True``: one line for each, with the location that raised. ``False``: each with its traceback.
            ``None``: what the environment variable ``SPDL_PIPELINE_COMPACT_LOG`` says: ``1``, ``true``, ``yes`` or
            ``on`` for one line each, ``0``, ``false``, ``no`` or ``off`` for tracebacks. If it is not set: one line,
            the first failure of a kind (stage, class and line that raised) with its traceback, and from the tenth on
            only their number, at 10, 20, 50, 100 and so on, then at each thousandth.

    Raises:
        TypeError: ``value`` is neither a bool nor ``None``.
    """
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"compact_log must be a bool or None, got {value!r}")
    _SETTING.compact = value


def is_compact_log() -> bool:
    """Return whether item errors are logged in one line."""
    return _style() == "compact"


def _style() -> Style:
    given = os.environ.get(_VARIABLE, "").strip().lower()
    if _SETTING.compact is not None:
        return "compact" if _SETTING.compact else "full"
    if given in ("1", "true", "yes", "on"):
        return "compact"
    return "full" if given in ("0", "false", "no", "off") else "first"


def log_failed(
    logger: logging.Logger,
    seen: "Counter[str]",
    where: str,
    text: str,
    *args: object,
    error: BaseException,
    level: int = logging.ERROR,
) -> None:
    """Log a failure, in the style that is set.

    Args:
        logger: The logger.
        seen: Failures so far, by kind. Of a pipeline, of a loader for all of its epochs, or of the process.
        where: What failed, such as the name of a stage.
        text: The message without the error, with places for ``args``.
        *args: Values for the message.
        error: The error.
        level: Level of the record.
    """
    style = _style()
    if style != "first":
        if style == "compact":
            log(logger, level, f"{text}: %s", *args, describe_error(error))
        else:
            log(logger, level, text, *args, exc_info=error)
        return
    kind = f"{where}: {name_of(error)} at {raised_at(error)}"
    with _COUNTING.lock:
        if kind not in seen and len(seen) >= _MOST_KINDS:
            kind = f"{where}: others"
        seen[kind] += 1
        number = seen[kind]
    if number == 1:  # its class and place are in the traceback
        log(logger, level, f"{text}: %s", *args, _first_line(error) or name_of(error), exc_info=error)
    elif number < _FEW:
        log(logger, level, f"{text}: %s", *args, _in_a_line(error))
    elif _is_due(number):
        log(logger, level, f"{text}: %s; %d failures like this so far", *args, _in_a_line(error), number)


def _is_due(number: int) -> bool:
    if number >= _EVERY:
        return number % _EVERY == 0
    while number % 10 == 0:
        number //= 10
    return number in (1, 2, 5)


def describe_error(exc: BaseException) -> str:
    """Describe an exception and where it was raised, in one line: ``ValueError: bad size (decode.py:12:resize)``."""
    text, where = _in_a_line(exc), raised_at(exc)
    return text if where is None else f"{text} ({where})"


def _in_a_line(exc: BaseException) -> str:
    first_line = _first_line(exc)
    return name_of(exc) + (f": {first_line}" if first_line else "")


def _first_line(exc: BaseException) -> str:
    text, _, rest = text_of(exc).partition("\n")
    return printable(text) + (" …" if rest else "")


def raised_at(exc: BaseException) -> str | None:
    """Return ``<file>:<line>:<function>`` of an exception's innermost frame; ``None`` if it was never raised."""
    tb: TracebackType | None = object.__getattribute__(exc, "__traceback__")  # the attribute may be user code
    if tb is None:
        return None
    while tb.tb_next is not None:
        tb = tb.tb_next
    code = tb.tb_frame.f_code
    return f"{code.co_filename}:{tb.tb_lineno}:{code.co_name}"


_LOG = logging.getLogger("spdl.pipeline")

#: Log lines about a failed item, by its outcome.
_OUTCOMES: Final[dict[str, str]] = {
    "dropped": "stage %s dropped item %s (source position %s)",
    "substituted": "stage %s failed on item %s (source position %s); a substitute replaces its output",
    "raised": "stage %s failed on item %s (source position %s), which fails the pipeline",
}


def log_failed_item(seen: "Counter[str]", failure: Any) -> None:
    """Log the failure of an item: a ``Failure`` of the engine."""
    record = failure.record
    where = shown(failure.stage, str).split(":")[-1]  # without the numbers of the pipeline and of the stage
    args = (failure.stage, record.item_repr, shown(record.origin))
    log_failed(_LOG, seen, where, _OUTCOMES[record.outcome], *args, error=record.error)
