"""Releases the frames that exceptions kept by the engine would keep alive."""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import TypeVar

from spdl._reports import add_note

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
