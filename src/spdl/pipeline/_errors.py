"""Errors of ``spdl.pipeline``: one tree, each also the builtin that callers already catch. Imports nothing of ours.

All of them pickle and keep their attributes and notes, so they can cross a process boundary and say the same there.
``__cause__`` and ``__traceback__`` stay behind, as with every exception.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

__all__ = [
    "FailureLimitError",
    "InternalError",
    "InvalidOpError",
    "PipelineError",
    "PipelineFailure",
    "PipelineStateError",
    "PipelineStructureError",
    "RemoteOpError",
    "StageTimeoutError",
    "UnsupportedPythonError",
    "WorkerDiedError",
    "WorkerError",
    "WorkerTimeoutError",
]


def _rebuild(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Make an exception without its ``__init__``, whose keyword arguments are attributes and come as state."""
    exc = cls.__new__(cls, *args)
    exc.args = args  # OSError.__new__ leaves this to an __init__ that is not run here
    return exc


class PipelineError(RuntimeError):
    """Something about a pipeline, not about one item, went wrong. Base of the other errors here."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args), self.__dict__ or None


class PipelineStateError(PipelineError):
    """What was asked for does not fit the pipeline's state: started twice or after a stop, read after it broke."""


class PipelineStructureError(PipelineError):
    """The description is incomplete: it has no source or no sink."""


class UnsupportedPythonError(PipelineError):
    """This needs a newer Python than the one that runs."""


class FailureLimitError(PipelineError):
    """A stage was given up because ``max_failures`` was crossed. ``__cause__`` is the failure that crossed it.

    Attributes:
        stage: The stage, as ``<pipeline_id>:<stage_id>:<name>``.
        num_failures: Failures that were counted against the limit.
        num_calls: Calls that were counted with them.
        limit: The limit: a number of failures, or the share of calls that may fail.
    """

    def __init__(
        self, message: str = "", *, stage: str, num_failures: int, num_calls: int, limit: int | Fraction
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.num_failures = num_failures
        self.num_calls = num_calls
        self.limit = limit


class RemoteOpError(PipelineError):
    """An op raised in a process pool. The exception itself stays there: it need not exist, or pickle, on this side.

    Attributes:
        type_name: Class name of the exception that the op raised.
        remote_traceback: Its traceback there, formatted.
    """

    def __init__(self, message: str = "", *, type_name: str, remote_traceback: str) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.remote_traceback = remote_traceback


class StageTimeoutError(PipelineError, TimeoutError):
    """A call took longer than the ``timeout`` of its stage.

    Attributes:
        stage: The stage, as ``<pipeline_id>:<stage_id>:<name>``.
        seconds: The limit.
    """

    def __new__(cls, message: str = "", **_: object) -> "StageTimeoutError":
        return TimeoutError.__new__(cls, message)  # as WorkerTimeoutError, below

    def __init__(self, message: str = "", *, stage: str, seconds: float) -> None:
        super().__init__(message)
        self.stage = stage
        self.seconds = seconds


class WorkerError(PipelineError):
    """A worker process or subinterpreter failed.

    Attributes:
        remote_traceback: Where it failed there, formatted; ``None`` if it could not tell.
    """

    def __init__(self, message: str = "", *, remote_traceback: str | None = None) -> None:
        super().__init__(message)
        self.remote_traceback = remote_traceback


class WorkerDiedError(WorkerError):
    """A worker is gone without having said why.

    Attributes:
        exit_code: Its exit code; negative: the signal that killed it; ``None`` if unknown.
    """

    def __init__(self, message: str = "", *, exit_code: int | None = None, remote_traceback: str | None = None) -> None:
        super().__init__(message, remote_traceback=remote_traceback)
        self.exit_code = exit_code


class WorkerTimeoutError(WorkerError, TimeoutError):
    """A worker did not answer in the time it was given."""

    def __new__(cls, message: str = "", *, remote_traceback: str | None = None) -> "WorkerTimeoutError":
        # Memory is laid out as in OSError, so only its __new__ can make one; the first in line is RuntimeError's.
        return TimeoutError.__new__(cls, message)


class InternalError(PipelineError):
    """An invariant of the engine is broken. This is a bug of the library, never the failure of an item."""


class InvalidOpError(TypeError, AssertionError):
    """What was given as an op is nothing that a stage can run."""


class PipelineFailure(ExceptionGroup[Exception]):
    """Stages of a pipeline failed. One exception for each of them, in order of stage name.

    The exceptions are the originals; each carries a note that names its stage. Parts made by ``split``, ``subgroup``
    and ``except*`` are of this class too.

    Args:
        failures: For each stage that failed its name and its exception. At least one.

    Raises:
        ValueError: ``failures`` is empty.
        TypeError: An entry is not a pair of a name and an :class:`Exception`.
    """

    def __new__(cls, failures: Iterable[tuple[str, Exception]], /) -> "PipelineFailure":
        return super().__new__(cls, _MESSAGE, _sort_by_stage(failures))

    def __init__(self, failures: Iterable[tuple[str, Exception]], /) -> None:
        # `args` as in every other exception group; `failures` may be an iterator, which __new__ has used up.
        super().__init__(self.message, list(self.exceptions))

    # The declared type in typeshed is generic in the leaves; a failure of stages always holds plain exceptions.
    def derive(self, excs: Sequence[Exception], /) -> "PipelineFailure":  # type: ignore[override]
        """Make the group for a part of the exceptions, which keep their order."""
        return _regroup(type(self), excs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _regroup, (type(self), self.exceptions), self.__dict__ or None


_MESSAGE = "pipeline stages failed"


def _sort_by_stage(failures: Iterable[tuple[str, Exception]]) -> list[Exception]:
    try:
        pairs = [(str(name), error) for name, error in failures]
    except (TypeError, ValueError) as exc:
        raise TypeError(f"PipelineFailure takes pairs (stage_name, exception), got {failures!r}") from exc
    for _, error in pairs:
        if not isinstance(error, BaseException):  # of those, the base class refuses what is not an Exception
            raise TypeError(f"PipelineFailure takes pairs (stage_name, exception), got {error!r} for an exception")
    if not pairs:
        raise ValueError("PipelineFailure needs at least one pair (stage_name, exception), got none")
    # Not sorted by the pair: exceptions do not compare. Sorting is stable, so two of one stage keep their order.
    return [error for _, error in sorted(pairs, key=lambda pair: pair[0])]


def _regroup(cls: type[PipelineFailure], exceptions: Iterable[Exception]) -> PipelineFailure:
    """Make a group whose exceptions are in order already; which stages they are of is in their notes."""
    return cls([("", error) for error in exceptions])
