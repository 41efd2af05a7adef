"""``TaskStatsHook`` and its subclasses in running pipelines: reports at intervals, and counts that are right."""

import logging
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spdl.pipeline import (
    StageInfo,
    TaskHook,
    TaskPerfStats,
    TaskStatsHook,
)
from tests.support.running import await_event, build_of, run
from tests.support.watching import Log, add_ten, add_ten_async, ten_and_twenty, ten_and_twenty_async


class Reporting(TaskStatsHook):
    """Tells of its reports."""

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        super().__init__(info, interval)
        self.reports: list[TaskPerfStats] = []
        self.reported = threading.Event()

    async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
        self.reports.append(stats)
        if stats.num_tasks:
            self.reported.set()


class ReportingOwnTask(Reporting):
    """Overrides task_hook, so it counts by itself."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        async with super().task_hook(input_item):
            yield


class ReportingOwnStage(Reporting):
    """Overrides stage_hook, around that of its base."""

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        super().__init__(info, interval)
        self.events: list[str] = []

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.events.append("enter")
        async with super().stage_hook():
            yield
        self.events.append("exit")


@pytest.mark.parametrize("cls", [Reporting, ReportingOwnTask, ReportingOwnStage])
@pytest.mark.parametrize("op", [add_ten, add_ten_async])
def test_interval_callback_is_awaited_with_what_the_interval_saw(cls: type[Reporting], op: Any) -> None:
    """With a positive interval a report comes while the stage runs; reports never count a call twice."""
    hooks: list[Reporting] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(cls(info, 0.001))
        return [hooks[-1]]

    def source() -> Iterator[int]:
        yield from range(5)
        await_event(hooks[0].reported)

    items = run(build_of(source(), lambda b: b.pipe(op)), task_hook_factory=factory)
    assert items == [10, 11, 12, 13, 14]
    (hook,) = hooks
    assert (hook.num_tasks, hook.num_success) == (5, 5)
    assert 0 < sum(report.num_tasks for report in hook.reports) <= 5
    assert all(report.num_failures == 0 for report in hook.reports)
    assert hook.ave_time > 0
    if isinstance(hook, ReportingOwnStage):
        assert hook.events == ["enter", "exit"]


def half_failing(item: int) -> int | None:
    if item % 2:
        raise ValueError(item)
    return item


@pytest.mark.parametrize("cls", [TaskStatsHook, Reporting, ReportingOwnTask, ReportingOwnStage])
def test_hooks_and_statistics_agree(cls: type[TaskStatsHook]) -> None:
    """Whoever counts, hook or engine, comes to the same numbers."""
    hooks: list[TaskStatsHook] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(cls(info))
        return [hooks[-1]]

    pipeline = build_of(range(9), lambda b: b.pipe(half_failing)).build(num_threads=2, task_hook_factory=factory)
    assert list(pipeline) == [0, 2, 4, 6, 8]
    (hook,) = hooks
    stage = pipeline.stats().stages[1]
    assert (hook.num_tasks, hook.num_success) == (9, 5)
    assert (stage.num_calls, stage.num_failures, stage.num_emitted) == (9, 4, 5)


@pytest.mark.parametrize("cls", [TaskStatsHook, ReportingOwnTask])
@pytest.mark.parametrize("op", [ten_and_twenty, ten_and_twenty_async])
def test_end_of_a_generator_is_no_task(cls: type[TaskStatsHook], op: Any) -> None:
    """Two items of two outputs each are four tasks, and no failure."""
    hooks: list[TaskStatsHook] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(cls(info))
        return [hooks[-1]]

    assert run(build_of([1, 2], lambda b: b.pipe(op)), task_hook_factory=factory) == [11, 21, 12, 22]
    assert (hooks[0].num_tasks, hooks[0].num_success) == (4, 4)


def test_stats_hook_next_to_a_hook_of_ones_own() -> None:
    """Both see every call: the one by counters, the other by running."""
    log = Log()
    hooks: list[TaskStatsHook] = []

    def factory(info: StageInfo) -> list[TaskHook]:
        hooks.append(TaskStatsHook(info))
        return [log, hooks[-1]]

    pipeline = build_of(range(9), lambda b: b.pipe(half_failing)).build(num_threads=2, task_hook_factory=factory)
    assert list(pipeline) == [0, 2, 4, 6, 8]
    assert log.tasks("exit") == [0, 2, 4, 6, 8]
    assert log.tasks(ValueError) == [1, 3, 5, 7]
    assert (hooks[0].num_tasks, hooks[0].num_success) == (9, 5)


def test_interval_callback_that_raises_disturbs_nothing() -> None:
    """An error of a report is logged; the next report comes, and so do all items."""

    class Bad(TaskStatsHook):
        num_reports = 0
        again = threading.Event()

        async def interval_stats_callback(self, stats: TaskPerfStats) -> None:
            self.num_reports += 1
            if self.num_reports == 2:
                self.again.set()
            raise ValueError("of the report")

    def source() -> Iterator[int]:
        yield 1
        await_event(Bad.again)
        yield 2

    assert run(build_of(source(), lambda b: b.pipe(add_ten)), task_hook_factory=lambda i: [Bad(i, 0.001)]) == [11, 12]


def test_totals_are_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """The default hooks and queues log one table for all stages, even without an interval."""
    with caplog.at_level("INFO"):
        pipeline = build_of(range(3), lambda b: b.pipe(add_ten, name="plus")).build(num_threads=1)
        assert list(pipeline) == [10, 11, 12]
    [block] = [r.getMessage() for r in caplog.records if r.levelname == "INFO"]
    number = pipeline.stats().stages[0].info.pipeline_id
    assert block.startswith(f"pipeline {number} in total: ended, ")
    assert [name in block for name in (f"{number}:0:src", f"{number}:1:plus", f"{number}:2:sink")] == [True] * 3


def test_interval_is_reported_as_one_table(caplog: pytest.LogCaptureFixture) -> None:
    """For all stages that have the default hook and queue; what is reported is kept for rates over time."""
    reported = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "in the last 1.0 ms" in record.getMessage():
                reported.set()

    def source() -> Iterator[int]:
        yield 1
        await_event(reported)
        yield 2

    listener = Listener()
    logging.getLogger("spdl.pipeline").addHandler(listener)
    try:
        with caplog.at_level("INFO"):
            pipeline = build_of(source(), lambda b: b.pipe(add_ten)).build(num_threads=1, report_stats_interval=0.001)
            assert list(pipeline) == [11, 12]
    finally:
        logging.getLogger("spdl.pipeline").removeHandler(listener)
    lines = [r.getMessage() for r in caplog.records if r.levelname == "INFO"]
    assert {line.split(": ")[0].split(" ", 2)[2] for line in lines} == {"in the last 1.0 ms", "in total"}
    assert len(pipeline.stats().history) >= 1
    for line in lines:  # a table of all stages
        assert max(map(len, line.splitlines())) <= 100
        assert re.findall(r"^(?:->)? +\d+:\d:(\w+) ", line, re.MULTILINE) == ["src", "add_ten", "sink"]


def test_given_hook_still_logs_its_own_lines(caplog: pytest.LogCaptureFixture) -> None:
    """What the user's factory makes is not part of the table of the defaults."""
    with caplog.at_level("INFO"):
        run(build_of(range(3), lambda b: b.pipe(add_ten)), task_hook_factory=lambda info: [TaskStatsHook(info)])
    assert "3 calls, 0 failed; time per call: mean " in caplog.text


def test_factory_that_raises_fails_the_build() -> None:
    """The factory's exception is that of the build, with the config in a note."""
    error = KeyError("factory")

    def factory(info: StageInfo) -> list[TaskHook]:
        raise error

    builder = build_of(range(3), lambda b: b.pipe(add_ten))
    with pytest.raises(KeyError) as info:
        builder.build(num_threads=1, task_hook_factory=factory)
    assert info.value is error
    assert any(repr(builder.get_config()) in note for note in error.__notes__)
