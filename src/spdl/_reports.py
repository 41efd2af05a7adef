"""Reporting that cannot fail: notes on exceptions, log records, and ``str`` or ``repr`` of users' objects.

Code that reports an error must still finish its work: count an item, close a channel, raise the user's exception. But
users' objects may fail: an exception may reject notes (a frozen dataclass does), ``__str__`` and ``__repr__`` may
raise, log handlers and filters too, and any of them may raise ``SystemExit``. Their texts may have any length, and
characters that write to a terminal what they like. So every note, every log record and every ``str`` or ``repr`` of a
user's object goes through this module.

Exceptions raised during reporting are dropped, with one exception: a ``BaseException`` that is not an ``Exception``
propagates in the main thread, where it comes from Ctrl-C or a signal handler, unless the process ignores Ctrl-C, as
worker processes do.
"""

from __future__ import annotations

import gc
import reprlib
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from types import FrameType

#: Maximum number of notes on an exception. The same object may be raised many times.
_MOST_NOTES: Final = 64


def add_note(exc: BaseException, text: str, *, in_place_of: str | None = None) -> None:
    """Add a note, as ``BaseException.add_note`` does, but to any exception and without running user code.

    A note that already exists is not repeated, so that an exception object raised for every item does not grow.

    Args:
        exc: Exception to annotate. The note is added even if its class breaks ``add_note`` or ``__setattr__``, but not
            if its ``__notes__`` is not a list.
        text: Text of the note.
        in_place_of: Prefix of an older note to replace, such as the same note about another item.
    """
    try:
        attributes: dict[str, Any] = object.__getattribute__(exc, "__dict__")
        notes = attributes.get("__notes__")
        if notes is None:
            attributes["__notes__"] = [text]
        elif isinstance(notes, list):
            _add_to(notes, text, in_place_of)
    except Exception:  # noqa: BLE001 - a user-defined list, or one that another thread modifies
        return


def _add_to(notes: list[Any], text: str, in_place_of: str | None) -> None:
    # Calls the methods of ``list`` itself: a subclass may override them.
    for index, note in enumerate(list.__iter__(notes)):
        if type(note) is str and (note == text or (in_place_of is not None and note.startswith(in_place_of))):
            list.__setitem__(notes, index, text)
            return
    if list.__len__(notes) < _MOST_NOTES:
        list.append(notes, text)


#: Attribute of an exception: how often the call was tried.
_ATTEMPTS: Final = "_spdl_attempts"


def note_attempts(exc: BaseException, number: int, limit: int | None = None) -> None:
    """Record on an exception that it ended the last of ``number`` attempts. With a limit, also add a note."""
    try:
        attributes: dict[str, Any] = object.__getattribute__(exc, "__dict__")
        attributes[_ATTEMPTS] = number
    except Exception:  # noqa: BLE001 - see the module docstring
        return
    if number > 1 and limit is not None:
        add_note(exc, f"attempt {number} of {limit}; those before failed too")


def attempts_of(exc: BaseException) -> int:
    """Return how often a call was tried before it failed with ``exc``."""
    try:
        number = object.__getattribute__(exc, "__dict__").get(_ATTEMPTS)
    except Exception:  # noqa: BLE001 - see the module docstring
        return 1
    return number if type(number) is int else 1


def cause_of(exc: BaseException) -> BaseException | None:
    """Return ``exc.__cause__``, bypassing overrides of the class."""
    cause = object.__getattribute__(exc, "__cause__")
    return cause if isinstance(cause, BaseException) else None


def notes_of(exc: BaseException) -> list[str]:
    """Return the notes of an exception as text; empty if its ``__notes__`` is not a list or tuple."""
    try:
        notes = getattr(exc, "__notes__", None)
        return [text_of(note) for note in notes] if isinstance(notes, list | tuple) else []
    except BaseException as failure:  # noqa: BLE001 - see the module docstring
        _reraise_interrupt(failure)
        return []


#: Longest text of a user's object, and its largest number of lines.
_MOST_CHARACTERS: Final = 2000
_MOST_LINES: Final = 40


def printable(text: str) -> str:
    """Return the text in one line, with escapes for characters that a terminal or UTF-8 cannot show as they are.

    These are control characters, such as those that begin an ANSI escape sequence, line breaks, marks that change the
    direction of text, and surrogates.
    """
    if text.isprintable():
        return text
    return "".join(_escaped(each) for each in text)


def clean(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return the text as it may be shown: as ``printable`` does, but with its lines, and cut if it is long."""
    text = _as_str(text)
    if len(text) <= most and text.isprintable():
        return text
    num_more = len(text) - most
    lines = text[:most].split("\n")
    rest = f"... ({num_more} more characters)" if num_more > 0 else ""
    if len(lines) > _MOST_LINES:
        rest = f"\n... ({text.count(chr(10)) + 1 - _MOST_LINES} more lines)"
    kept = "\n".join("".join(each if each == "\t" else _escaped(each) for each in line) for line in lines[:_MOST_LINES])
    return kept + rest


def _as_str(text: str) -> str:
    """Return the text without the methods of a subclass."""
    return text if type(text) is str else "".join(str.__iter__(text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode()


def text_of(value: object) -> str:
    """Return ``clean(str(value))``, or a placeholder if that raises."""
    return clean(_safely(str, value))


def shown(value: object, show: Callable[[Any], str] = repr) -> str:
    """Return ``clean(show(value))``, by default of its repr, or a placeholder if that raises."""
    return clean(_safely(show, value))


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 4


def short_repr(value: Any) -> str:
    """Return a repr of about 80 characters, or a placeholder if the value's ``__repr__`` raises."""
    text = printable(_safely(_SHORT.repr, value)[:_MOST_CHARACTERS])
    return text if len(text) <= 160 else text[:157] + "..."


def _safely(convert: Callable[[Any], str], value: object) -> str:
    try:
        return _as_str(convert(value))
    except BaseException as failure:  # noqa: BLE001 - see the module docstring
        _reraise_interrupt(failure)
        what = "str" if convert is str else "repr"
        return f"<{name_of(value)} object, its {what} failed with {name_of(failure)}>"


def name_of(value: object) -> str:
    """Return the name of the class of ``value``."""
    try:
        return printable(str(type(value).__name__)[:_MOST_CHARACTERS])
    except BaseException as failure:  # noqa: BLE001 - a custom metaclass
        _reraise_interrupt(failure)
        return "?"


def describe_exception(exc: BaseException) -> str:
    """Return ``ValueError: bad size``, or only the class name if there is no message."""
    text = text_of(exc)
    return f"{name_of(exc)}: {text}" if text else name_of(exc)


def log(
    logger: logging.Logger, level: int, message: str, *args: object, exc_info: BaseException | bool | None = None
) -> None:
    """Log as ``logger.log`` does. If a handler or filter raises, report it on stderr, as ``logging`` itself does.

    The traceback is cleaned and cut, as texts of users' objects are.
    """
    try:
        if not isinstance(exc_info, BaseException):
            logger.log(level, message, *args, exc_info=exc_info, stacklevel=2)
        elif logger.isEnabledFor(level):
            # As ``Logger._log`` does, which has no way to give the record a text of the traceback.
            name, line, function, _ = logger.findCaller(stacklevel=2)
            what = (type(exc_info), exc_info, object.__getattribute__(exc_info, "__traceback__"))
            record = logger.makeRecord(logger.name, level, name, line, message, args, what, function)
            text, is_changed = traceback_of(exc_info)
            if is_changed:  # otherwise, formatters may show it as they like
                record.exc_text = text
            logger.handle(record)
    except BaseException as failure:  # noqa: BLE001 - see the module docstring
        _reraise_interrupt(failure)
        _report_on_stderr(failure, message, args)


#: Largest number of lines of a traceback with its causes: half of them from its begin, half from its end.
_MOST_TRACEBACK_LINES: Final = 200


def traceback_of(exc: BaseException) -> tuple[str, bool]:
    """Return the traceback of an exception with its causes, and whether a text in it had to be cleaned or cut."""
    import traceback

    try:
        found = traceback.TracebackException.from_exception(exc, compact=True)
        is_changed = _clean_texts(found)
        text = "".join(found.format())
    except BaseException as failure:  # noqa: BLE001 - a chain of causes that is too deep, or a class without sense
        _reraise_interrupt(failure)
        return f"{describe_exception(exc)} (its traceback cannot be shown: {name_of(failure)})", True
    lines = text.splitlines()
    if len(lines) > _MOST_TRACEBACK_LINES:
        half = _MOST_TRACEBACK_LINES // 2
        lines[half:-half] = [f"... ({len(lines) - 2 * half} more lines)"]
        is_changed = True
    kept = [line if line.isprintable() else clean(line) for line in lines]
    return "\n".join(kept), is_changed or kept != lines


def _clean_texts(found: Any) -> bool:
    """Clean the texts of all exceptions of a chain, before they are put together."""
    is_changed = False
    todo, seen = [found], set()
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        todo += [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or ())]
        text = getattr(each, "_str", None)
        if isinstance(text, str) and (type(text) is not str or clean(text) != text):
            each._str, is_changed = clean(text), True
        notes = getattr(each, "__notes__", None)
        if isinstance(notes, list | tuple) and any(clean(text_of(note)) != note for note in notes):
            each.__notes__, is_changed = [text_of(note) for note in notes[:_MOST_NOTES]], True
    return is_changed


def _report_on_stderr(failure: BaseException, message: str, args: tuple[object, ...]) -> None:
    import logging

    if not logging.raiseExceptions or sys.stderr is None:
        return
    try:
        text = message % args if args else message
    except BaseException:  # noqa: BLE001 - see the module docstring
        text = message
    try:
        sys.stderr.write(f"spdl: a handler or filter of the log raised {describe_exception(failure)}; {text}\n")
    except BaseException:  # noqa: BLE001 - see the module docstring
        return


def _reraise_interrupt(failure: BaseException) -> None:
    if isinstance(failure, Exception) or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        raise failure


def frames_of_threads() -> dict[int, FrameType]:
    """Return ``sys._current_frames()``, without the garbage collector.

    Up to CPython 3.11.7, and in early versions of 3.12, a collection inside of that call waits for a lock that the call
    holds, so that the whole process hangs (https://github.com/python/cpython/issues/106883).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()
