"""Errors of pipelines and of their child processes: one tree; some also derive from a matching builtin exception.

Public in ``spdl.pipeline``. Imports only ``_reports``. All errors can be pickled with their attributes and notes, so
they can cross a process boundary. As with every exception, ``__cause__`` and ``__traceback__`` are not pickled.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from spdl._reports import name_of, text_of


def _rebuild(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Make an exception without calling ``__init__``: its keyword arguments are restored as state."""
    exc = cls.__new__(cls, *args)
    exc.args = args  # OSError.__new__ leaves this to __init__, which is not called here
    return exc


class PipelineError(RuntimeError):
    """A pipeline failed, rather than one item. Base class of the other errors here."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args), self.__dict__ or None


class PipelineStateError(PipelineError):
    """The operation is not possible in the pipeline's state, such as a second start or a start after a stop."""


class PipelineStructureError(PipelineError):
    """The pipeline description is incomplete: it has no source or no sink."""


class UnsupportedPythonError(PipelineError):
    """The feature needs a newer Python than the running one."""


class FailureLimitError(PipelineError):
    """A stage was stopped because it exceeded ``max_failures``. ``__cause__`` is the failure that exceeded it.

    Attributes:
        stage: The stage, as ``<pipeline_id>:<stage_id>:<name>``.
        num_failures: Number of failures counted against the limit.
        num_calls: Number of calls among which the failures were counted.
        limit: Limit: a number of failures, the share of calls that may fail (``Fraction``), or that of the newest calls
            (``Rate``).
    """

    def __init__(self, message: str = "", *, stage: str, num_failures: int, num_calls: int, limit: Any) -> None:
        super().__init__(message)
        self.stage = stage
        self.num_failures = num_failures
        self.num_calls = num_calls
        self.limit = limit


class NoSuccessError(PipelineError):
    """Every call of a stage failed, so it had no output. ``__cause__`` is the newest failure.

    Attributes:
        stage: The stage, as ``<pipeline_id>:<stage_id>:<name>``.
        num_failures: Number of failed calls: in this epoch, if the source is continuous.
    """

    def __init__(self, message: str = "", *, stage: str, num_failures: int) -> None:
        super().__init__(message)
        self.stage = stage
        self.num_failures = num_failures


class RemoteOpError(PipelineError):
    """An op raised in a process pool. The exception itself is not sent: its class may be unknown or not picklable.

    Attributes:
        type_name: Class name of the exception that the op raised.
        remote_traceback: Formatted traceback from the other process.
    """

    def __init__(self, message: str = "", *, type_name: str, remote_traceback: str) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.remote_traceback = remote_traceback


class StageTimeoutError(PipelineError, TimeoutError):
    """A call took longer than the ``timeout`` of its stage.

    Attributes:
        stage: The stage, as ``<pipeline_id>:<stage_id>:<name>``.
        seconds: The timeout, in seconds.
    """

    def __new__(cls, message: str = "", **_: object) -> "StageTimeoutError":
        return TimeoutError.__new__(cls, message)  # see WorkerTimeoutError below

    def __init__(self, message: str = "", *, stage: str, seconds: float) -> None:
        super().__init__(message)
        self.stage = stage
        self.seconds = seconds


class StallError(PipelineError):
    """Nothing moved in a pipeline for ``stall_timeout`` while the consumer waited. The message is the report.

    Attributes:
        seconds: The ``stall_timeout``.
    """

    def __init__(self, message: str = "", *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class WorkerError(PipelineError):
    """A worker process or subinterpreter failed.

    Attributes:
        remote_traceback: Formatted traceback from the worker; ``None`` if unknown.
    """

    #: Set if it failed because a worker of another process died: that process knows the details.
    _has_dead_worker: bool = False

    def __init__(self, message: str = "", *, remote_traceback: str | None = None) -> None:
        super().__init__(message)
        self.remote_traceback = remote_traceback


class WorkerDiedError(WorkerError):
    """A worker ended without reporting an error.

    Attributes:
        exit_code: Exit code of the worker; negative if a signal killed it; ``None`` if unknown.
    """

    def __init__(self, message: str = "", *, exit_code: int | None = None, remote_traceback: str | None = None) -> None:
        super().__init__(message, remote_traceback=remote_traceback)
        self.exit_code = exit_code


class WorkerTimeoutError(WorkerError, TimeoutError):
    """A worker did not answer in time."""

    def __new__(cls, message: str = "", *, remote_traceback: str | None = None) -> "WorkerTimeoutError":
        # The memory layout is that of OSError, so only OSError.__new__ can make one; super() would find RuntimeError's.
        return TimeoutError.__new__(cls, message)


class InternalError(PipelineError):
    """An invariant of the engine is broken. This is a bug in the library, never the failure of an item."""


class InvalidOpError(TypeError, AssertionError):
    """The object given as an op cannot be run by a stage."""


class PipelineFailure(ExceptionGroup[Exception]):
    """Stages of a pipeline failed. Holds one exception per failed stage, in order of stage name.

    The exceptions are the originals; each has a note that names its stage. ``split``, ``subgroup`` and ``except*`` also
    return groups of this class.

    Args:
        failures: Pairs of stage name and exception, one per failed stage; never empty.

    Raises:
        ValueError: ``failures`` is empty.
        TypeError: An entry is not a pair of a name and an :class:`Exception`.
    """

    def __new__(cls, failures: Iterable[tuple[str, Exception]], /) -> "PipelineFailure":
        return super().__new__(cls, _MESSAGE, _sort_by_stage(failures))

    def __init__(self, failures: Iterable[tuple[str, Exception]], /) -> None:
        # `args` as in every other exception group; `failures` may be an iterator, which __new__ has used up.
        super().__init__(self.message, list(self.exceptions))

    # typeshed declares it generic in the leaves; this group always holds plain exceptions.
    def derive(self, excs: Sequence[Exception], /) -> "PipelineFailure":  # type: ignore[override]
        """Make a group of some of the exceptions, in the same order."""
        return _regroup(type(self), excs)

    def __str__(self) -> str:
        """The text of a group and its first cause: a log line of the error shows nothing else."""
        first = self.exceptions[0]
        line, _, rest = text_of(first).partition("\n")
        return f"{super().__str__()}: {name_of(first)}" + (f": {line}" if line else "") + (" …" if rest else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return _regroup, (type(self), self.exceptions), self.__dict__ or None


_MESSAGE = "pipeline stages failed"


def _sort_by_stage(failures: Iterable[tuple[str, Exception]]) -> list[Exception]:
    try:
        pairs = [(str(name), error) for name, error in failures]
    except (TypeError, ValueError) as exc:
        raise TypeError(f"PipelineFailure takes pairs (stage_name, exception), got {failures!r}") from exc
    for _, error in pairs:
        if not isinstance(error, BaseException):  # the base class rejects other BaseExceptions
            raise TypeError(f"PipelineFailure takes pairs (stage_name, exception), got {error!r} for an exception")
    if not pairs:
        raise ValueError("PipelineFailure needs at least one pair (stage_name, exception), got none")
    # Sorted by name only: exceptions do not compare. Sorting is stable, so those of one stage keep their order.
    return [error for _, error in sorted(pairs, key=lambda pair: pair[0])]


def _regroup(cls: type[PipelineFailure], exceptions: Iterable[Exception]) -> PipelineFailure:
    """Make a group of exceptions that are already in order; their notes name the stages."""
    return cls([("", error) for error in exceptions])
