"""An exception sent to another process as text: the object may not be picklable, and its type may not exist there.

Imported in children, so it has few imports.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from spdl._errors import WorkerDiedError, WorkerError
from spdl._reports import add_note, attempts_of, cause_of, name_of, shown, text_of

#: A longer message or traceback is cut in the middle: some contain all of their data.
_MOST_CHARACTERS = 100_000
_NOWHERE = "?:0:?"


class RemoteFailure(NamedTuple):
    """Description of an exception that was raised in another process."""

    type_name: str  #: name of its class there, without the module
    message: str  #: its ``str``; may be empty
    place: str  #: ``file:line:function`` of the innermost frame
    traceback: str  #: as the interpreter would print it, causes, notes and groups included
    has_dead_worker: bool  #: it, a cause of it, or a member of a group is a ``WorkerDiedError``
    attempts: int = 1  #: how often the call was tried

    @classmethod
    def of(cls, exc: BaseException) -> RemoteFailure:
        """Describe ``exc``. Never raises, even if the exception's own methods do."""
        import traceback  # slow to import, and rarely needed

        place = _NOWHERE
        try:
            if frames := traceback.extract_tb(exc.__traceback__):
                last = frames[-1]
                place = f"{os.path.basename(last.filename)}:{last.lineno}:{last.name}"
            lines = "".join(traceback.format_exception(exc))
        except BaseException as error:  # noqa: BLE001 - notes and attributes of the user's
            lines = f"<its traceback cannot be shown: {name_of(error)}>\n"
        type_name = shown(exc, lambda exc: str(type(exc).__qualname__))
        return cls(type_name, _cut(text_of(exc)), place, _cut(lines), _has_dead_worker(exc), attempts_of(exc))

    def __str__(self) -> str:
        return f"{self.message} ({self.type_name})" if self.message else self.type_name

    def as_error(self, attempt: str) -> WorkerError:
        """The error to raise here.

        Args:
            attempt: Start of the message: ``Failed to fetch the next item``.
        """
        error = WorkerError(f"{attempt}: {self}", remote_traceback=self.traceback)
        error._has_dead_worker = self.has_dead_worker
        add_note(error, f"Traceback in the worker:\n{self.traceback.rstrip()}")
        return error


def _has_dead_worker(exc: BaseException) -> bool:
    waiting, seen = [exc], {id(exc)}
    while waiting:
        error = waiting.pop()
        if isinstance(error, WorkerDiedError):
            return True
        # Use the base class: a user's subclass may redefine the attribute.
        members = BaseExceptionGroup.exceptions.__get__(error) if isinstance(error, BaseExceptionGroup) else ()
        for each in (*members, cause_of(error)):
            if each is not None and id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
    return False


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    half = _MOST_CHARACTERS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
