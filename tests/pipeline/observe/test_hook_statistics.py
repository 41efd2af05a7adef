"""``TaskHook`` and ``TaskStatsHook``: counting by itself, reading the engine's counters, and reporting."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._info import StageInfo
from spdl.pipeline._observe._percentiles import StreamingPercentile, percentile_of_calls, percentile_of_waits
from spdl.pipeline._observe._task_hooks import TaskHook, TaskPerfStats, TaskStatsHook, overrides
from spdl.pipeline._records import CallCounts

INFO = StageInfo(0, "1", "op", 3)


class Clock:
    """Time that moves only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class ClockedHook(TaskStatsHook):
    """A hook with a clock of its own that remembers its reports."""

    def __init__(self, interval: float = -1) -> None:
        super().__init__(INFO, interval)
        self.clock = Clock()
        self._clock = self.clock
        self.reports: list[TaskPerfStats] = []
        self.reported = asyncio.Event()

    async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
        self.reports.append(stats)
        self.reported.set()


async def run_task(hook: ClockedHook, seconds: float, error: BaseException | None = None) -> None:
    async with hook.task_hook("item"):
        hook.clock.now += seconds
        if error is not None:
            raise error


def test_the_base_hook_does_nothing() -> None:
    """Entering and leaving the context managers of TaskHook has no effect, and exceptions pass."""

    async def use() -> None:
        hook = TaskHook()
        async with hook.stage_hook():
            async with hook.task_hook():
                pass
            with pytest.raises(KeyError):
                async with hook.task_hook(1):
                    raise KeyError

    asyncio.run(use())


def test_a_hook_by_hand_counts_and_times_successes_only() -> None:
    """Failures count as tasks, but their time is in no mean and no percentile."""

    async def use() -> ClockedHook:
        hook = ClockedHook()
        await run_task(hook, 1.0)
        await run_task(hook, 3.0)
        with pytest.raises(ValueError):
            await run_task(hook, 50.0, ValueError())
        return hook

    hook = asyncio.run(use())
    assert (hook.num_tasks, hook.num_success, hook.ave_time) == (3, 2, 2.0)
    assert hook._total_stats() == TaskPerfStats(3, 1, 2.0, 3.0, 3.0)


def test_the_end_of_a_generator_is_let_through_and_is_no_task() -> None:
    """StopAsyncIteration ends the stage, so the hook neither counts nor swallows it."""

    async def use() -> ClockedHook:
        hook = ClockedHook()
        with pytest.raises(StopAsyncIteration):
            await run_task(hook, 1.0, StopAsyncIteration())
        return hook

    hook = asyncio.run(use())
    assert (hook.num_tasks, hook.num_success) == (0, 0)


def test_a_cancelled_call_is_neither_success_nor_failure() -> None:
    """Cancellation says nothing about the op."""

    async def use() -> ClockedHook:
        hook = ClockedHook()
        with pytest.raises(asyncio.CancelledError):
            await run_task(hook, 1.0, asyncio.CancelledError())
        return hook

    assert asyncio.run(use()).num_tasks == 0


def test_an_overriding_hook_can_wrap_the_statistics() -> None:
    """A subclass that calls super().task_hook() measures what happens inside."""

    class Wrapping(ClockedHook):
        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
            async with super().task_hook(input_item):
                yield

    async def use() -> ClockedHook:
        hook = Wrapping()
        await run_task(hook, 2.0)
        with pytest.raises(StopAsyncIteration):
            await run_task(hook, 1.0, StopAsyncIteration())
        return hook

    hook = asyncio.run(use())
    assert (hook.num_tasks, hook.ave_time) == (1, 2.0)


def test_an_attached_hook_shows_the_counters_of_the_engine() -> None:
    """All statistics come from the reader, at the moment they are read."""
    counts = CallCounts(0, 0, 0.0, ())
    hook = TaskStatsHook(INFO)
    hook._attach(lambda: counts)
    assert (hook.num_tasks, hook.num_success, hook.ave_time) == (0, 0, 0.0)
    counts = CallCounts(5, 1, 8.0, (1.0, 2.0, 2.0, 3.0))
    assert (hook.num_tasks, hook.num_success, hook.ave_time) == (5, 4, 2.0)
    assert hook._total_stats() == TaskPerfStats(5, 1, 2.0, 3.0, 3.0)


def test_intervals_of_an_attached_hook_cover_that_interval_only() -> None:
    """Each report has what happened since the one before, percentiles included; the first starts with the stage."""

    async def use() -> list[TaskPerfStats]:
        hook = ClockedHook(interval=1e-6)
        counts = CallCounts(2, 0, 200.0, (100.0, 100.0))
        hook._attach(lambda: counts)
        task = asyncio.ensure_future(hook._run_interval())
        await asyncio.sleep(0)  # lets it take its first reading
        counts = CallCounts(5, 1, 203.0, (100.0, 100.0, 1.0, 2.0))
        await hook.reported.wait()
        hook.reported.clear()
        await hook.reported.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return hook.reports

    first, second, *_ = asyncio.run(use())
    assert first == TaskPerfStats(3, 1, 1.5, 2.0, 2.0)
    assert second == TaskPerfStats(0, 0, 0.0, 0.0, 0.0)


def test_intervals_of_a_hook_by_hand_cover_that_interval_only() -> None:
    """A hook that measures by itself starts each interval with fresh counts and percentiles."""

    async def use() -> ClockedHook:
        hook = ClockedHook()
        await run_task(hook, 9.0)
        hook._start_lap()
        await run_task(hook, 1.0)
        hook.reports.append(hook._end_lap())
        await run_task(hook, 2.0)
        hook.reports.append(hook._end_lap())
        return hook

    hook = asyncio.run(use())
    assert hook.reports == [TaskPerfStats(1, 0, 1.0, 1.0, 1.0), TaskPerfStats(1, 0, 2.0, 2.0, 2.0)]
    assert hook.num_tasks == 3


def test_a_failing_report_is_logged_and_the_next_one_is_made(caplog: pytest.LogCaptureFixture) -> None:
    """The user's callback cannot end the reports."""

    class Failing(ClockedHook):
        async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
            await super().interval_stats_callback(stats)
            if len(self.reports) == 1:
                raise RuntimeError("no dashboard today")

    async def use() -> None:
        hook = Failing(interval=1e-6)
        async with hook.stage_hook():
            await hook.reported.wait()
            hook.reported.clear()
            await hook.reported.wait()

    asyncio.run(use())
    assert "no dashboard today" in caplog.text
    assert "the calls of stage 0:1:op[3]" in caplog.text


def test_without_an_interval_no_report_is_made() -> None:
    """_run_interval returns at once when the interval is not positive."""
    hook = ClockedHook(interval=-1)
    asyncio.run(hook._run_interval())
    assert hook.reports == []


def test_leaving_the_stage_logs_totals_even_when_the_stage_failed(caplog: pytest.LogCaptureFixture) -> None:
    """stage_hook ends its report task and logs one line of totals on every way out."""

    async def use() -> None:
        hook = ClockedHook(interval=1000)
        async with hook.stage_hook():
            await run_task(hook, 0.002)
            raise LookupError("stage broke")

    with caplog.at_level(logging.INFO), pytest.raises(LookupError, match="stage broke"):
        asyncio.run(use())
    assert "[0:1:op[3]] 1 calls, 0 failed; time per call: mean 2.0 ms, p90 2.0 ms, p99 2.0 ms" in caplog.text


def test_interval_reports_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """Without an override, an interval is one log line."""
    with caplog.at_level(logging.INFO):
        asyncio.run(TaskStatsHook(INFO, 5.0).interval_stats_callback(TaskPerfStats(7, 2, 0.5, 1.5, 0.00001)))
    (line,) = caplog.messages
    assert (
        line == "[0:1:op[3]] 7 calls, 2 failed; time per call: mean 500.0 ms, p90 1.5 s, p99 10.0 us in the last 5.0 s"
    )


class Overriding(TaskStatsHook):
    def task_hook(self, input_item: Any = None) -> AbstractAsyncContextManager[Any]:
        return super().task_hook(input_item)


class LooksLikeAHook:
    def task_hook(self, input_item: Any = None) -> None: ...


def test_overrides_sees_subclasses_instance_attributes_and_strangers() -> None:
    """Whatever is called in place of the base's method counts as an override; an inherited one does not."""
    patched = TaskStatsHook(INFO)
    patched.task_hook = lambda input_item=None: None  # type: ignore[method-assign,assignment,return-value]
    hook: object
    for hook in (Overriding, Overriding(INFO), patched, LooksLikeAHook()):
        assert overrides(hook, TaskStatsHook, "task_hook")
    for hook in (TaskStatsHook, TaskStatsHook(INFO), type("Sub", (TaskStatsHook,), {})):
        assert not overrides(hook, TaskStatsHook, "task_hook")
    assert overrides(TaskStatsHook, TaskHook, "task_hook")
    assert not overrides(TaskHook(), TaskHook, "task_hook")


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.99]))
def test_streaming_percentile_stays_within_the_observations(values: list[float], quantile: float) -> None:
    """An estimate is never outside the smallest and the largest value, and exact up to five of them."""
    estimate = StreamingPercentile(quantile)
    for value in values:
        estimate.add(value)
    assert min(values) <= estimate.value <= max(values)
    if len(values) <= 5:
        assert estimate.value == percentile_of_calls(values, len(values), quantile)


def test_streaming_percentile_follows_the_example_of_its_paper() -> None:
    """The median of the twenty observations in table I of the P² paper is estimated as 4.44."""
    values = [0.02, 0.15, 0.74, 3.39, 0.83, 22.37, 10.15, 15.43, 38.62, 15.92]
    values += [34.60, 10.28, 1.47, 0.40, 0.05, 11.39, 0.27, 0.42, 0.09, 11.37]
    estimate = StreamingPercentile(0.5)
    for value in values:
        estimate.add(value)
    assert estimate.value == pytest.approx(4.44, abs=0.005)


@pytest.mark.parametrize("spread", [lambda u: u, lambda u: u**3], ids=["even", "skewed"])
def test_streaming_percentile_is_close_on_many_values(spread: Callable[[float], float]) -> None:
    """On 5000 values that come in no order, the 90th percentile is off by less than 1 % of the range."""
    values = [spread((k * 2654435761 % 5000) / 5000) for k in range(5000)]
    estimate = StreamingPercentile(0.9)
    for value in values:
        estimate.add(value)
    assert estimate.value == pytest.approx(spread(0.9), abs=0.01)


@pytest.mark.parametrize("quantile", [0.0, 1.0, -0.5])
def test_streaming_percentile_refuses_what_is_no_quantile(quantile: float) -> None:
    """A quantile lies strictly between 0 and 1."""
    with pytest.raises(ValueError, match="quantile must be between 0 and 1"):
        StreamingPercentile(quantile)


def test_percentile_of_waits_counts_those_that_did_not_wait() -> None:
    """Of ten items two waited: the 90th percentile is the shorter wait, the 80th is no wait at all."""
    assert percentile_of_waits((7.0, 5.0), 2, 10, 0.9) == 5.0
    assert percentile_of_waits((7.0, 5.0), 2, 10, 0.99) == 7.0
    assert percentile_of_waits((7.0, 5.0), 2, 10, 0.8) == 0.0
    assert percentile_of_waits((), 0, 10, 0.99) == 0.0
    assert percentile_of_waits((1.0,), 0, 0, 0.99) == 0.0
