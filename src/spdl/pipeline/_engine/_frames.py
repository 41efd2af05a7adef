"""Exceptions that the engine keeps: they must not keep the frames of whoever called it."""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import TypeVar

from spdl._reports import add_note

__all__ = ["release_frames"]

E = TypeVar("E", bound=BaseException)


def release_frames(error: E) -> E:
    """Turn the tracebacks of ``error``, and of what it came from, into a note with the same text.

    A frame of a traceback refers to the frames that called it, and those to their variables. Where the engine keeps an
    exception that was raised while the consumer's thread was in it, these are the variables of the consumer: among them
    the pipeline, which would then never be collected, as the engine is kept until it is. Never raises.
    """
    text = None
    with suppress(BaseException):  # the exception's own methods are the user's
        text = "".join(traceback.format_exception(error)).rstrip()
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        BaseException.with_traceback(each, None)  # their own __setattr__ may refuse (frozen dataclasses)
        todo += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            todo += each.exceptions
    if text is not None:
        add_note(error, text)
    return error
