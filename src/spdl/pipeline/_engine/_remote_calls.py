"""Runs the user's op in a process pool, and transfers its outcome.

An exception object may not survive pickling (its class may need arguments, or exist only in the child), so errors are
transferred as text. Imported in the child: keep it light.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spdl._errors import RemoteOpError
from spdl._processes._remote_failure import RemoteFailure
from spdl._reports import note_attempts


class Collected:
    """All outputs of a generator that ran to its end in another process, and its error, if any."""

    __slots__ = ("error", "values")

    def __init__(self, values: list[Any], error: Exception | None) -> None:
        self.values = values
        self.error = error


def call_remotely(op: Callable[[Any], Any], value: Any) -> tuple[Any, RemoteFailure | None]:
    """In the child: run the op and return its result or its error."""
    try:
        return op(value), None
    except Exception as exc:  # noqa: BLE001 - the boundary to user code
        return None, RemoteFailure.of(exc)


def collect_remotely(op: Callable[[Any], Any], value: Any) -> tuple[list[Any], RemoteFailure | None]:
    """In the child: run a generator to its end. Outputs before an error are kept."""
    values: list[Any] = []
    try:
        for output in op(value):
            values.append(output)  # noqa: PERF402 - outputs before an error must be kept
    except Exception as exc:  # noqa: BLE001 - the boundary to user code
        return values, RemoteFailure.of(exc)
    return values, None


def as_error(failure: RemoteFailure) -> RemoteOpError:
    """Make the exception that the item fails with in this process."""
    error = RemoteOpError(
        f"Function failed in subprocess: {failure.type_name}: {failure.message} ({failure.place})",
        type_name=failure.type_name,
        remote_traceback=failure.traceback,
    )
    note_attempts(error, failure.attempts)
    return error


def unpack_remote(outcome: tuple[Any, RemoteFailure | None]) -> tuple[Any, RemoteOpError | None]:
    value, failure = outcome
    return value, None if failure is None else as_error(failure)


def unpack_remote_generator(outcome: tuple[list[Any], RemoteFailure | None]) -> Collected:
    values, failure = outcome
    return Collected(values, None if failure is None else as_error(failure))
