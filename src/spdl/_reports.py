"""Reporting that cannot fail: notes on exceptions, log records, and what the user's objects say of themselves.

Whoever reports has something to finish: to count an item, to close a channel, to raise the user's exception. What it
reports about is the user's: an exception may refuse notes (a frozen dataclass does), ``__str__`` and ``__repr__`` may
raise, a log handler or filter too, and any of them may raise ``SystemExit``. So every note, every log record and every
``str`` or ``repr`` of an object of the user's goes through here. Imports nothing of ours.

What is raised meanwhile is dropped, with one exception: what is no ``Exception`` goes on from the main thread, where
it is a Ctrl-C or comes from a signal handler; but not where Ctrl-C is ignored, as in worker processes.
"""

from __future__ import annotations

import reprlib
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

__all__ = ["add_note", "cause_of", "describe_exception", "log", "name_of", "notes_of", "short_repr", "shown", "text_of"]

#: Notes that an exception may have for another one to be added. One object may be raised again and again.
_MOST_NOTES: Final = 64


def add_note(exc: BaseException, text: str, *, in_place_of: str | None = None) -> None:
    """Add a note, as ``BaseException.add_note`` does, but to any exception and without running code of the user's.

    A note that is there already is not repeated, so that an exception object which is raised for every item does not
    grow with the number of items.

    Args:
        exc: What the note is for. A class that keeps ``add_note`` or ``__setattr__`` from working gets it too; one
            whose ``__notes__`` is no list does not.
        text: The note.
        in_place_of: A note of ours that begins with this says the same of another item; it is replaced.
    """
    try:
        attributes: dict[str, Any] = object.__getattribute__(exc, "__dict__")
        notes = attributes.get("__notes__")
        if notes is None:
            attributes["__notes__"] = [text]
        elif isinstance(notes, list):
            _add_to(notes, text, in_place_of)
    except Exception:  # noqa: BLE001 - a list of the user's own, or one that another thread changes
        return


def _add_to(notes: list[Any], text: str, in_place_of: str | None) -> None:
    # By the methods of ``list``: a subclass has some of the user's.
    for index, note in enumerate(list.__iter__(notes)):
        if type(note) is str and (note == text or (in_place_of is not None and note.startswith(in_place_of))):
            list.__setitem__(notes, index, text)
            return
    if list.__len__(notes) < _MOST_NOTES:
        list.append(notes, text)


def cause_of(exc: BaseException) -> BaseException | None:
    """``exc.__cause__``, whatever its class makes of that."""
    cause = object.__getattribute__(exc, "__cause__")
    return cause if isinstance(cause, BaseException) else None


def notes_of(exc: BaseException) -> list[str]:
    """The notes of an exception, as text; none if its ``__notes__`` is nothing of the kind."""
    try:
        notes = getattr(exc, "__notes__", None)
        return [text_of(note) for note in notes] if isinstance(notes, list | tuple) else []
    except BaseException as failure:  # noqa: BLE001 - see the module
        _keep_interrupt(failure)
        return []


def text_of(value: object) -> str:
    """``str(value)``, or words in its place."""
    return _said(str, value)


def shown(value: object, show: Callable[[Any], str] = repr) -> str:
    """``repr(value)``, or ``show(value)``, or words in its place."""
    return _said(show, value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 4


def short_repr(value: Any) -> str:
    """At most some 80 characters; never raises, whatever the item's ``__repr__`` does."""
    text = shown(value, _SHORT.repr)
    return text if len(text) <= 160 else text[:157] + "..."


def _said(say: Callable[[Any], str], value: object) -> str:
    try:
        return say(value)
    except BaseException as failure:  # noqa: BLE001 - see the module
        _keep_interrupt(failure)
        what = "str" if say is str else "repr"
        return f"<{name_of(value)} object, its {what} failed with {name_of(failure)}>"


def name_of(value: object) -> str:
    """Name of the class of ``value``."""
    try:
        return str(type(value).__name__)
    except BaseException as failure:  # noqa: BLE001 - a metaclass of the user's
        _keep_interrupt(failure)
        return "?"


def describe_exception(exc: BaseException) -> str:
    """``ValueError: bad size``, or the name alone if there is no message."""
    text = text_of(exc)
    return f"{name_of(exc)}: {text}" if text else name_of(exc)


def log(
    logger: logging.Logger, level: int, message: str, *args: object, exc_info: BaseException | bool | None = None
) -> None:
    """Log as ``logger.log`` does. A handler or filter that raises is told of on stderr, as ``logging`` itself does."""
    try:
        logger.log(level, message, *args, exc_info=exc_info, stacklevel=2)
    except BaseException as failure:  # noqa: BLE001 - see the module
        _keep_interrupt(failure)
        _complain(failure, message, args)


def _complain(failure: BaseException, message: str, args: tuple[object, ...]) -> None:
    import logging

    if not logging.raiseExceptions or sys.stderr is None:
        return
    try:
        said = message % args if args else message
    except BaseException:  # noqa: BLE001 - see the module
        said = message
    try:
        sys.stderr.write(f"spdl: a handler or filter of the log raised {describe_exception(failure)}; {said}\n")
    except BaseException:  # noqa: BLE001 - see the module
        return


def _keep_interrupt(failure: BaseException) -> None:
    if isinstance(failure, Exception) or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        raise failure
