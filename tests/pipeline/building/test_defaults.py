"""``spdl.pipeline.config`` in running pipelines, what ``build`` accepts, and what its errors and logs say."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import (
    AsyncQueue,
    Pipeline,
    PipelineBuilder,
    StageInfo,
    StatsQueue,
    TaskHook,
    TaskStatsHook,
    build_pipeline,
    config,
)
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.support.running import build_of, drain


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Every test starts and ends with the defaults of a new process."""
    yield
    config.set_default_hook_class()
    config.set_default_queue_class()
    config.set_default_profile_hook()
    config.set_default_profile_callback()
    config.set_default_build_callback(None)
    config.set_default_background_tasks(None)
    config.set_compact_log(None)


def of_numbers(**options: Any) -> Pipeline[Any]:
    pipeline: Pipeline[Any] = build_of(range(3), lambda b: b.pipe(int)).build(num_threads=1, **options)
    return pipeline


class CountingHook(TaskHook):
    """Keeps what it was made with."""

    made: list[tuple[StageInfo, float]]
    seen: list[Any]

    def __init__(self, info: StageInfo, interval: float = -1) -> None:
        self.made.append((info, interval))

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.seen.append(input_item)
        yield


@pytest.fixture
def hook_class() -> type[CountingHook]:
    return type("Hook", (CountingHook,), {"made": [], "seen": []})


@pytest.fixture
def queue_class() -> Any:
    class Queue(StatsQueue):
        made: list[tuple[StageInfo, int, float]] = []  # noqa: RUF012 - a class of its own for each test

        def __init__(self, info: StageInfo, *, buffer_size: int = 1, interval: float = -1) -> None:
            super().__init__(info, buffer_size=buffer_size, interval=interval)
            self.made.append((info, buffer_size, interval))

    return Queue


# -- hooks


def test_default_hook_is_taskstatshook() -> None:
    """Nothing set: every stage has a TaskStatsHook."""
    assert config.get_default_hook_class() is TaskStatsHook


def test_hook_class_that_is_set_is_made_for_every_stage(hook_class: type[CountingHook]) -> None:
    """It is called with the stage's info and the interval of the build."""
    config.set_default_hook_class(hook_class)
    kept: object = config.get_default_hook_class()
    assert kept is hook_class
    assert list(of_numbers(report_stats_interval=60)) == [0, 1, 2]
    assert [(info.stage_name, interval) for info, interval in hook_class.made] == [("int", 60)]
    assert hook_class.seen == [0, 1, 2]


def test_hook_factory_of_the_build_replaces_the_default(hook_class: type[CountingHook]) -> None:
    """With task_hook_factory the default class is not made."""
    config.set_default_hook_class(hook_class)
    assert list(of_numbers(task_hook_factory=lambda info: [])) == [0, 1, 2]
    assert hook_class.made == []


def test_no_hooks_at_all() -> None:
    """None as the default: stages have no hooks, and run."""
    config.set_default_hook_class(None)
    assert config.get_default_hook_class() is None
    assert list(of_numbers()) == [0, 1, 2]


def test_defaults_are_read_at_build(hook_class: type[CountingHook]) -> None:
    """A pipeline keeps what it was built with."""
    pipeline = of_numbers()
    config.set_default_hook_class(hook_class)
    assert list(pipeline) == [0, 1, 2]
    assert hook_class.made == []


def test_setting_without_an_argument_resets_the_hook(hook_class: type[CountingHook]) -> None:
    """The setter's own default is TaskStatsHook."""
    config.set_default_hook_class(hook_class)
    config.set_default_hook_class()
    assert config.get_default_hook_class() is TaskStatsHook


# -- queues


def test_default_queue_is_statsqueue() -> None:
    """Nothing set, or None: StatsQueue."""
    assert config.get_default_queue_class() is StatsQueue
    config.set_default_queue_class(AsyncQueue)
    config.set_default_queue_class(None)
    assert config.get_default_queue_class() is StatsQueue


def test_queue_class_that_is_set_is_called_with_the_interval(queue_class: Any) -> None:
    """The process-wide class gets interval= too; source, stages and sink each have one."""
    config.set_default_queue_class(queue_class)
    assert list(of_numbers(report_stats_interval=60)) == [0, 1, 2]
    assert [(info.stage_name, interval) for info, _, interval in queue_class.made] == [
        ("src", 60),
        ("int", 60),
        ("sink", 60),
    ]


def test_queue_class_of_the_build_replaces_the_default(queue_class: Any) -> None:
    """With queue_class the default class is not made."""
    config.set_default_queue_class(queue_class)
    assert list(of_numbers(queue_class=AsyncQueue)) == [0, 1, 2]
    assert queue_class.made == []


# -- the build callback


def test_build_callback_is_called_first_with_the_config() -> None:
    """It sees the config before anything is made of it, each time a pipeline is built."""
    events: list[Any] = []
    config.set_default_build_callback(events.append)
    assert config.get_default_build_callback() is not None
    cfg: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(1)), [Pipe(int)], SinkConfig(1))

    def factory(info: StageInfo) -> list[TaskHook]:
        events.append("hooks")
        return []

    build_pipeline(cfg, num_threads=1, task_hook_factory=factory)
    build_pipeline(cfg, num_threads=1)
    assert events == [cfg, "hooks", cfg]


def test_build_callback_is_called_by_the_builder_too() -> None:
    """PipelineBuilder.build is build_pipeline of its config."""
    seen: list[Any] = []
    config.set_default_build_callback(seen.append)
    of_numbers()
    assert [type(cfg) for cfg in seen] == [PipelineConfig]


def test_build_callback_that_raises_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its error goes to the log; the pipeline is built and runs."""

    def callback(cfg: Any) -> None:
        raise ValueError("of the callback")

    config.set_default_build_callback(callback)
    with caplog.at_level(logging.ERROR):
        pipeline = of_numbers()
    assert list(pipeline) == [0, 1, 2]
    assert any(record.exc_info and str(record.exc_info[1]) == "of the callback" for record in caplog.records)


def test_none_unsets_the_build_callback() -> None:
    """After None nothing is called."""
    seen: list[Any] = []
    config.set_default_build_callback(seen.append)
    config.set_default_build_callback(None)
    assert config.get_default_build_callback() is None
    of_numbers()
    assert seen == []


# -- profiling defaults, background tasks


def test_profile_defaults_are_kept_and_unset() -> None:
    """What was set is what is got; None unsets."""
    assert config.get_default_profile_hook() is None
    assert config.get_default_profile_callback() is None
    config.set_default_profile_callback(print)
    assert config.get_default_profile_callback() is print
    config.set_default_profile_callback()
    assert config.get_default_profile_callback() is None


def test_background_defaults_are_a_list_of_their_own() -> None:
    """Neither the list that was set nor the list that was got is the setting itself."""
    assert config.get_default_background_tasks() is None
    tasks: list[Any] = [object]
    config.set_default_background_tasks(tasks)
    tasks.append(int)
    got = config.get_default_background_tasks()
    assert got == [object]
    assert got is not None
    got.clear()
    assert config.get_default_background_tasks() == [object]


# -- how item errors are logged


def refuse(item: int) -> int:
    raise ValueError("two\nlines")


def logged(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    with caplog.at_level(logging.ERROR):
        assert list(build_of([7], lambda b: b.pipe(refuse, max_failures=-1)).build(num_threads=1)) == []
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    return record


def test_item_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """By default the record carries the exception, and names stage and item."""
    record = logged(caplog)
    assert "refuse" in record.getMessage()
    assert "7" in record.getMessage()
    assert record.exc_info is not None


def test_compact_log_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """One line with the error, and the place that raised it; no traceback."""
    config.set_compact_log(True)
    record = logged(caplog)
    assert record.exc_info is None
    text = record.getMessage()
    assert "\n" not in text
    for words in ("refuse", "ValueError", "two", "test_defaults.py"):
        assert words in text


@pytest.mark.parametrize(("value", "compact"), [("1", True), ("0", False), ("true", True), ("", False)])
def test_compact_log_of_the_environment(
    value: str, compact: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Unset, the environment variable decides."""
    monkeypatch.setenv("SPDL_PIPELINE_COMPACT_LOG", value)
    assert (logged(caplog).exc_info is None) is compact


def test_setting_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """set_compact_log(False) logs tracebacks whatever the variable says."""
    monkeypatch.setenv("SPDL_PIPELINE_COMPACT_LOG", "1")
    config.set_compact_log(False)
    assert logged(caplog).exc_info is not None


# -- arguments of build


@pytest.mark.parametrize("value", [0, -1, -100])
def test_num_threads_below_one_is_refused(value: int) -> None:
    """ValueError that names the argument and the value."""
    with pytest.raises(ValueError, match=rf"num_threads.*{value}"):
        build_of(range(3)).build(num_threads=value)


@pytest.mark.parametrize("value", [1.5, "2", True])
def test_num_threads_of_another_type_is_refused(value: Any) -> None:
    """TypeError that names the argument."""
    with pytest.raises(TypeError, match="num_threads"):
        build_of(range(3)).build(num_threads=value)


@pytest.mark.parametrize("value", [Fraction(0), Fraction(3, 2), Fraction(-1, 2)])
def test_max_failures_out_of_range_is_refused(value: Fraction) -> None:
    """A Fraction outside (0, 1]."""
    with pytest.raises(ValueError, match=r"must be in range \(0, 1\]"):
        of_numbers(max_failures=value)


@pytest.mark.parametrize("value", [0.5, "1", None, True])
def test_max_failures_of_another_type_is_refused(value: Any) -> None:
    """TypeError that says to use Fraction."""
    with pytest.raises(TypeError, match="Fraction"):
        of_numbers(max_failures=value)


def test_use_thread_output_queue_has_no_effect() -> None:
    """It is accepted, with either value."""
    for value in (True, False):
        assert list(of_numbers(use_thread_output_queue=value)) == [0, 1, 2]


def mixed() -> PipelineConfig[Any]:
    def sub(continuous: bool) -> PipelineConfig[Any]:
        return PipelineConfig(SourceConfig(range(3), continuous), [], SinkConfig(1))

    return PipelineConfig(Merge([sub(True), sub(False)]), [], SinkConfig(1))


WRONG: list[tuple[Callable[[], PipelineConfig[Any]], dict[str, Any], type[Exception]]] = [
    (lambda: build_of(range(3)).get_config(), {"num_threads": 0}, ValueError),
    (lambda: build_of(range(3)).get_config(), {"max_failures": 0.5}, TypeError),
    (lambda: build_of(range(3)).get_config(), {"queue_class": lambda info, buffer_size: None}, TypeError),
    (mixed, {}, ValueError),
]


@pytest.mark.parametrize(("make", "options", "error"), WRONG)
def test_build_error_carries_the_config(
    make: Callable[[], PipelineConfig[Any]], options: dict[str, Any], error: type[Exception]
) -> None:
    """Whatever is wrong, one note of the error shows the config that was to be built."""
    cfg = make()
    with pytest.raises(error) as info:
        build_pipeline(cfg, **options)
    assert sum(repr(cfg) in note for note in info.value.__notes__) == 1


def test_mixed_sources_are_refused_with_the_promised_words() -> None:
    """Continuous and ordinary sources in one pipeline."""
    with pytest.raises(ValueError, match="Mixed continuous mode"):
        build_pipeline(mixed())


def test_failed_build_leaves_nothing_behind() -> None:
    """Hooks and queues that were made are dropped; the builder can still be built."""
    builder = build_of(range(3), lambda b: b.pipe(int), lambda b: b.pipe(int, name="second"))

    def factory(info: StageInfo) -> list[TaskHook]:
        if info.stage_name == "second":
            raise KeyError(info.stage_name)
        return [TaskStatsHook(info)]

    with pytest.raises(KeyError):
        builder.build(num_threads=1, task_hook_factory=factory)
    assert list(builder.build(num_threads=1)) == [0, 1, 2]


def test_build_takes_its_options_by_name_only() -> None:
    """A positional option is a TypeError, so that an order of options is no promise."""
    builder: PipelineBuilder[Any, Any] = build_of(range(3))
    with pytest.raises(TypeError):
        builder.build(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        build_pipeline(builder.get_config(), 1)  # type: ignore[call-arg]


def test_limits_of_the_build_count_over_all_stages() -> None:
    """One failure in each of two stages crosses a limit of one; the stage that sees it reports the sum."""

    def second_fails(item: int) -> int:
        if item == 1:
            raise ValueError
        return item

    def third_fails(item: int) -> int:
        if item == 2:
            raise KeyError
        return item

    builder = build_of(range(5), lambda b: b.pipe(second_fails), lambda b: b.pipe(third_fails))
    items, failure = drain(builder.build(num_threads=1, max_failures=1))
    assert failure is not None
    assert items == [0]
    items, failure = drain(builder.build(num_threads=1, max_failures=2))
    assert failure is None
    assert items == [0, 3, 4]
