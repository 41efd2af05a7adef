"""Coroutines on the event loop beside the stages: ``BackgroundTask``, and ``create_task``, which logs a failure."""

from __future__ import annotations

import logging
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import spdl.pipeline._asyncio as asyncio
from spdl._failure_log import describe_error, is_compact_log, raised_at
from spdl._numbers import as_int
from spdl._reports import log, name_of


class BackgroundTask(ABC):
    """A task that runs beside a pipeline. Override :meth:`run`. A ``BackgroundTaskFactory`` makes one per pipeline.

    .. code-block:: python

        class Heartbeat(BackgroundTask):
            async def run(self) -> None:
                while True:
                    await asyncio.sleep(60)
                    print("still loading")

        pipeline = build_pipeline(builder.get_config(), background_tasks=[Heartbeat])
    """

    @abstractmethod
    async def run(self) -> None:
        """Run the task. It is started with the stages, on the event loop, and cancelled when they finish.

        It may return early. An exception is logged and does not affect the pipeline.
        """


#: A callable without arguments that returns a background task, such as a subclass of :class:`BackgroundTask`.
BackgroundTaskFactory: TypeAlias = Callable[[], BackgroundTask]


_LOG = logging.getLogger(__name__)

T = TypeVar("T")

# Errors so far, per event loop and raising line. Counted per loop, so that each pipeline starts at zero and the counts
# are freed with their loop. Each counter is used only from its loop's thread.
_SEEN: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Counter[str]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Suppression:
    threshold: int
    warning_interval: int


def create_task(
    coro: Coroutine[Any, Any, T],
    name: str | None = None,
    log_cancelled: bool = False,
    suppress_repeated_logs: bool = False,
    suppression_threshold: int = 5,
    suppression_warning_interval: int = 100,
) -> asyncio.Task[T]:
    """Start a coroutine as :func:`asyncio.create_task` does, and log its failure.

    Keep a reference to the task: asyncio holds it weakly. Awaiting it raises as usual.

    Args:
        coro: Coroutine to start on the running loop.
        name: Name of the task, for log lines.
        log_cancelled: Whether to log a cancellation, as a warning.
        suppress_repeated_logs: Whether to log repeated errors of the same line only as a count.
        suppression_threshold: Number of errors of one line (per event loop) from which on only counts are logged.
        suppression_warning_interval: Number of errors between two such counts.

    Returns:
        Task of the coroutine. A timeout is logged as an error in one line, any other exception with its traceback, or
        in one line with compact logs (``spdl.pipeline.config.set_compact_log``).

    Raises:
        ValueError: ``suppression_threshold`` or ``suppression_warning_interval`` is less than 1.
        RuntimeError: No event loop is running.
    """
    try:
        for argument, value in (
            ("suppression_threshold", suppression_threshold),
            ("suppression_warning_interval", suppression_warning_interval),
        ):
            as_int(argument, value, 1)
        task = asyncio.create_task(coro, name=name)
    except (ValueError, RuntimeError):
        coro.close()  # otherwise Python warns that it was never awaited
        raise
    suppression = _Suppression(suppression_threshold, suppression_warning_interval) if suppress_repeated_logs else None
    task.add_done_callback(lambda task: _log_outcome(task, log_cancelled, suppression))
    return task


def _log_outcome(task: asyncio.Task[Any], log_cancelled: bool, suppression: _Suppression | None) -> None:
    name = task.get_name()
    if task.cancelled():
        if log_cancelled:
            log(_LOG, logging.WARNING, "Task [%s] was cancelled.", name)
        return
    exc = task.exception()
    if exc is None or (suppression is not None and not _is_news(task, exc, suppression)):
        return
    if isinstance(exc, TimeoutError):
        log(_LOG, logging.ERROR, "Task [%s] timed out: %s", name, describe_error(exc))
    elif is_compact_log():
        log(_LOG, logging.ERROR, "Task [%s] failed: %s", name, describe_error(exc))
    else:
        log(_LOG, logging.ERROR, "Task [%s] failed.", name, exc_info=exc)


def _is_news(task: asyncio.Task[Any], exc: BaseException, suppression: _Suppression) -> bool:
    """Count an error and return whether to log it in full. Logs the count where one is due."""
    where = f"{name_of(exc)} at {raised_at(exc)}"
    seen = _SEEN.setdefault(task.get_loop(), Counter())
    seen[where] += 1
    excess = seen[where] - suppression.threshold
    if excess < 0:
        return True
    if excess == 0:
        text = "%s: %d errors so far; further ones are only counted, every %d."
        log(_LOG, logging.WARNING, text, where, seen[where], suppression.warning_interval)
    elif excess % suppression.warning_interval == 0:
        log(_LOG, logging.WARNING, "%s: %d errors so far.", where, seen[where])
    return False
