"""Task hooks: user code around stages and calls, and the default statistics."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from spdl._numbers import as_finite
from spdl._reports import log
from spdl.pipeline._info import StageInfo
from spdl.pipeline._observe._percentiles import StreamingPercentile, percentile_of_calls
from spdl.pipeline._observe._reporting import report_around_stage, report_every
from spdl.pipeline._observe._units import duration
from spdl.pipeline._records import CallCounts, CallReader

_LOG = logging.getLogger(__name__)

_NO_CALLS = CallCounts(0, 0, 0.0, ())


def overrides(hook: object, base: type, name: str) -> bool:
    """Return whether ``hook``, an object or a class, overrides ``name`` of ``base``.

    Methods of subclasses, attributes of the object itself, and duck-typed classes all count.
    """
    cls = hook if isinstance(hook, type) else type(hook)
    if cls is not hook and name in getattr(hook, "__dict__", {}):
        return True
    return getattr(cls, name, None) is not getattr(base, name)


class TaskHook:
    """Code that runs around a stage and around each of its calls. By default it does nothing.

    Override one or both methods, with functions decorated by :func:`contextlib.asynccontextmanager`. They run on the
    event loop thread of the pipeline, whichever thread the op runs on.

    .. code-block:: python

        from contextlib import asynccontextmanager

        class CountingHook(TaskHook):
            num_errors = 0

            @asynccontextmanager
            async def task_hook(self, input_item=None):
                try:
                    yield
                except StopAsyncIteration:  # end of a generator: not an error
                    raise
                except Exception:
                    self.num_errors += 1
                    raise
    """

    def stage_hook(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that is entered before the first call of the stage and exited after its last item.

        If it raises, the stage fails.
        """
        return nullcontext()

    def task_hook(self, input_item: Any = None) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that is entered before each call (each step of a generator) and exited after it.

        An exception of the op is passed to its ``__aexit__``. If entering raises, the op is not run and the item is
        dropped; if exiting raises, the result is dropped.

        Args:
            input_item: Item that the op is called with.
        """
        return nullcontext()


@dataclass(frozen=True, slots=True)
class TaskPerfStats:
    """Statistics of the calls of one stage, in total or within one interval. Times are in seconds, of successful calls.

    Attributes:
        num_tasks: Number of finished calls, successful or failed. The end of a generator does not count as a task.
        num_failures: Number of calls that raised.
        ave_time: Mean time; 0 if no call succeeded.
        p90_time: 90th percentile, an estimate.
        p99_time: 99th percentile, an estimate.
    """

    num_tasks: int
    num_failures: int
    ave_time: float
    p90_time: float
    p99_time: float


class TaskStatsHook(TaskHook):
    """Counts and times the calls of a stage. Logs totals at its end and, with a positive interval, every interval.

    Inside a pipeline, a hook that does not override :meth:`task_hook` reads the engine's counters and adds no cost per
    call. Its percentiles are over the newest calls, at most 1024. A subclass that overrides :meth:`task_hook` and calls
    ``super().task_hook`` measures by itself; its percentiles are streaming estimates over all calls. In both cases, the
    values of an interval cover that interval only.

    Args:
        info: Identity of the stage.
        interval: Seconds between two calls of :meth:`interval_stats_callback`. If not positive, only totals are logged.
    """

    #: Clock; a subclass can replace it.
    _clock: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        self.info = info
        self.interval = as_finite("interval", interval)
        self._read: CallReader | None = None
        self._lap_start = _NO_CALLS  # with a reader: the counters when the interval began
        self._total = _Tally()  # without a reader: own counters, in total and of the interval
        self._lap = _Tally()

    @property
    def num_tasks(self) -> int:
        """Number of finished calls, successful or failed."""
        return self._total.num_tasks if self._read is None else self._read().num_calls

    @property
    def num_success(self) -> int:
        """Number of successful calls."""
        if self._read is None:
            return self._total.num_success
        counts = self._read()
        return counts.num_calls - counts.num_failures

    @property
    def ave_time(self) -> float:
        """Mean time of the successful calls, in seconds; 0 before the first."""
        return self._total_stats().ave_time

    def stage_hook(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that reports at intervals while it is open and logs totals on exit."""
        return report_around_stage(self._run_interval, self._log_totals, self.interval)

    def task_hook(self, input_item: Any = None) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that counts and times one call."""
        return _TimedTask(self)

    async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
        """Handle the statistics of the interval that has just ended. By default they are logged.

        Override it to send them elsewhere. An exception is logged, and reporting continues.
        """
        text = "[%s] %s in the last %s"
        log(_LOG, logging.INFO, text, self.info, _describe(stats), duration(self.interval))

    def _attach(self, read: CallReader) -> None:
        """Read all statistics from the engine's counters from now on."""
        self._read = read

    async def _run_interval(self) -> None:
        """Report every interval until cancelled. Returns at once if the interval is not positive."""
        self._start_lap()
        await report_every(self.interval, self._report_lap, f"the calls of stage {self.info}")

    async def _report_lap(self) -> None:
        await self.interval_stats_callback(self._end_lap())

    def _log_totals(self) -> None:
        """Log the statistics since the start."""
        log(_LOG, logging.INFO, "[%s] %s", self.info, _describe(self._total_stats()))

    def _total_stats(self) -> TaskPerfStats:
        return self._total.stats() if self._read is None else _between(_NO_CALLS, self._read())

    def _start_lap(self) -> None:
        if self._read is not None:
            self._lap_start = self._read()
        self._lap = _Tally()

    def _end_lap(self) -> TaskPerfStats:
        """Return the statistics of the current lap, and start the next."""
        if self._read is None:
            lap, self._lap = self._lap, _Tally()
            return lap.stats()
        before, self._lap_start = self._lap_start, self._read()
        return _between(before, self._lap_start)


class _TimedTask(AbstractAsyncContextManager[None]):
    """Measures one call for a ``TaskStatsHook`` that does not read the engine's counters."""

    __slots__ = ("_hook", "_start")

    def __init__(self, hook: TaskStatsHook) -> None:
        self._hook = hook

    async def __aenter__(self) -> None:
        self._start = self._hook._clock()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        hook = self._hook
        if exc is None:
            seconds = hook._clock() - self._start
            hook._total.add_success(seconds)
            hook._lap.add_success(seconds)
        elif isinstance(exc, Exception) and not isinstance(exc, StopAsyncIteration):
            # The end of a generator does not count, and a cancelled call has neither succeeded nor failed.
            hook._total.num_failures += 1
            hook._lap.num_failures += 1


class _Tally:
    """Counters of calls, with streaming percentiles. Used on the event loop thread only."""

    __slots__ = ("num_failures", "num_success", "p90", "p99", "success_time")

    def __init__(self) -> None:
        self.num_success = 0
        self.num_failures = 0
        self.success_time = 0.0
        self.p90 = StreamingPercentile(0.90)
        self.p99 = StreamingPercentile(0.99)

    @property
    def num_tasks(self) -> int:
        return self.num_success + self.num_failures

    def add_success(self, seconds: float) -> None:
        self.num_success += 1
        self.success_time += seconds
        self.p90.add(seconds)
        self.p99.add(seconds)

    def stats(self) -> TaskPerfStats:
        mean = self.success_time / self.num_success if self.num_success else 0.0
        return TaskPerfStats(self.num_tasks, self.num_failures, mean, self.p90.value, self.p99.value)


def _between(before: CallCounts, now: CallCounts) -> TaskPerfStats:
    num_tasks = now.num_calls - before.num_calls
    num_failures = now.num_failures - before.num_failures
    num_success = num_tasks - num_failures
    return TaskPerfStats(
        num_tasks,
        num_failures,
        (now.success_time - before.success_time) / num_success if num_success > 0 else 0.0,
        percentile_of_calls(now.recent, num_success, 0.90),
        percentile_of_calls(now.recent, num_success, 0.99),
    )


def _describe(stats: TaskPerfStats) -> str:
    return (
        f"{stats.num_tasks} calls, {stats.num_failures} failed; time per call: mean {duration(stats.ave_time)}, "
        f"p90 {duration(stats.p90_time)}, p99 {duration(stats.p99_time)}"
    )
