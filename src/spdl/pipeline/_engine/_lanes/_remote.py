"""What runs in a process pool around the user's op, and how its outcome comes back.

An exception object may not survive the way back (its class may need arguments, or exist only there), so errors cross
as text. Imported in the child: keep it light.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from spdl._reports import name_of, text_of
from spdl.pipeline._engine._stages._generator import Collected
from spdl.pipeline._errors import RemoteOpError

__all__ = [
    "RemoteFailure",
    "as_error",
    "call_remotely",
    "collect_remotely",
    "describe_failure",
    "unpack_remote",
    "unpack_remote_generator",
]


class RemoteFailure(NamedTuple):
    """An exception of an op, as text."""

    type_name: str
    message: str
    place: str  # file:line:function of the innermost frame
    traceback: str


def describe_failure(exc: BaseException) -> RemoteFailure:
    """In the child: what crosses of an exception. Never raises, whatever the exception's own methods do."""
    name, text = name_of(exc), text_of(exc)
    try:
        frames = traceback.extract_tb(exc.__traceback__)
        last = frames[-1] if frames else None
        place = f"{os.path.basename(last.filename)}:{last.lineno}:{last.name}" if last else "?:0:?"
        return RemoteFailure(name, text, place, "".join(traceback.format_exception(exc)))
    except BaseException:  # noqa: BLE001 - attributes of the user's that the traceback shows
        return RemoteFailure(name, text, "?:0:?", f"{name}: {text}\n")


def call_remotely(op: Callable[[Any], Any], value: Any) -> tuple[Any, RemoteFailure | None]:
    """In the child: the op's result, or its error."""
    try:
        return op(value), None
    except Exception as exc:  # noqa: BLE001 - the boundary to user code
        return None, describe_failure(exc)


def collect_remotely(op: Callable[[Any], Any], value: Any) -> tuple[list[Any], RemoteFailure | None]:
    """In the child: run a generator to its end. What it yielded before an error is kept."""
    values: list[Any] = []
    try:
        for output in op(value):
            values.append(output)  # noqa: PERF402 - what came before an error must not be lost with it
    except Exception as exc:  # noqa: BLE001 - the boundary to user code
        return values, describe_failure(exc)
    return values, None


def as_error(failure: RemoteFailure) -> RemoteOpError:
    """What the item fails with here."""
    return RemoteOpError(
        f"Function failed in subprocess: {failure.type_name}: {failure.message} ({failure.place})",
        type_name=failure.type_name,
        remote_traceback=failure.traceback,
    )


def unpack_remote(outcome: tuple[Any, RemoteFailure | None]) -> tuple[Any, RemoteOpError | None]:
    value, failure = outcome
    return value, None if failure is None else as_error(failure)


def unpack_remote_generator(outcome: tuple[list[Any], RemoteFailure | None]) -> Collected:
    values, failure = outcome
    return Collected(values, None if failure is None else as_error(failure))
