"""Calls in other processes: running the user's op in a pool there, and what isolated stages need of their children.

An exception object may not survive pickling (its class may need arguments, or exist only in the child), so errors are
transferred as text. Imported in the child: keep it light.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from spdl._errors import RemoteOpError
from spdl._processes._remote_failure import RemoteFailure
from spdl._reports import note_attempts

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline.defs import Retry


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


@dataclass(frozen=True, slots=True)
class IsolatedTask:
    """The task of the children of one stage."""

    info: StageInfo
    op: Callable[[Any], Any]
    is_generator: bool
    concurrency: int
    retry: Retry | None
    timeout: float | None  # seconds per attempt


class IsolatedReply(NamedTuple):
    """The outcome of a call in a child."""

    value: Any  # a list of the outputs, if the op is a generator
    failure: RemoteFailure | None
    may_retry: bool  # the stage's ``retry`` covers the exception, and nothing was yielded


class IsolatedWorker(Protocol):
    """The interface of a child process. Used by one thread, except ``kill``, which is thread-safe."""

    def wait_ready(self) -> None:
        """Wait until the op is loaded in the child. Raises ``WorkerDiedError``, or what keeps the op from loading."""

    def is_alive(self) -> bool:
        """Whether the child can take another call."""

    def call(self, value: Any, timeout: float | None) -> IsolatedReply:
        """Run the op on an item.

        Raises ``WorkerDiedError``; ``WorkerTimeoutError`` if the child was killed after ``timeout`` seconds; or what
        pickling the item or unpickling the result raises: then the child is still usable.
        """

    def call_again(self, timeout: float | None) -> IsolatedReply:
        """Run the op again on the item of the last call. Raises the same errors as ``call``."""

    def kill(self) -> None:
        """Kill the process without waiting. A thread waiting for a call gets ``WorkerDiedError``."""

    def stop(self) -> None:
        """End the process and join it. Blocks until it has ended."""


StartIsolated: TypeAlias = "Callable[[IsolatedTask], IsolatedWorker]"
