"""``spdl.pipeline.config``: defaults of the process, and the environment variables that it reads."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdl._failure_log import is_compact_log
from spdl.pipeline import BackgroundTask, StatsQueue, TaskHook, TaskStatsHook, config
from spdl.pipeline._builder import PipelineBuilder
from spdl.pipeline.defs import PipelineConfig

MODE = "SPDL_PIPELINE_DIAGNOSTIC_MODE"
NUM_ITEMS = "SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS"


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    """What a test sets is the process's; put it back."""
    yield
    config.set_default_hook_class()
    config.set_default_queue_class()
    config.set_default_profile_hook()
    config.set_default_profile_callback()
    config.set_default_build_callback(None)
    config.set_default_background_tasks(None)
    config.set_compact_log(None)


class OwnHook(TaskHook): ...


class OwnQueue(StatsQueue): ...


class OwnProfileHook:
    def stage_profile_hook(self, stage: str, concurrency: int) -> None: ...

    def pipeline_profile_hook(self) -> None: ...


class OwnTask(BackgroundTask):
    async def run(self) -> None: ...


def callback(value: Any) -> None: ...


def build(num_stages: int = 1) -> PipelineConfig[Any]:
    builder = PipelineBuilder[Any, Any]().add_source([1])
    for _ in range(num_stages):
        builder.pipe(str)
    builder.add_sink().build(num_threads=1)
    return builder.get_config()


def test_public_names_are_those_of_the_contract() -> None:
    """``from spdl.pipeline.config import *`` gives these."""
    pairs = ["hook_class", "queue_class", "profile_hook", "profile_callback", "build_callback", "background_tasks"]
    assert set(config.__all__) == {
        *(f"{verb}_default_{name}" for verb in ("get", "set") for name in pairs),
        "set_compact_log",
        "is_diagnostic_mode_enabled",
        "diagnostic_mode_num_sources",
    }
    assert all(callable(getattr(config, name)) for name in config.__all__)


def test_defaults_before_anything_is_set() -> None:
    """Statistics are collected, nothing else happens."""
    assert config.get_default_hook_class() is TaskStatsHook
    assert config.get_default_queue_class() is StatsQueue
    assert config.get_default_profile_hook() is None
    assert config.get_default_profile_callback() is None
    assert config.get_default_build_callback() is None
    assert config.get_default_background_tasks() is None


@pytest.mark.parametrize(
    ("setter", "getter", "value", "unset"),
    [
        (config.set_default_hook_class, config.get_default_hook_class, OwnHook, None),
        (config.set_default_queue_class, config.get_default_queue_class, OwnQueue, StatsQueue),
        (config.set_default_profile_hook, config.get_default_profile_hook, OwnProfileHook(), None),
        (config.set_default_profile_callback, config.get_default_profile_callback, callback, None),
        (config.set_default_build_callback, config.get_default_build_callback, callback, None),
        (config.set_default_background_tasks, config.get_default_background_tasks, [OwnTask], None),
    ],
)
def test_getter_returns_what_was_set(
    setter: Callable[[Any], None], getter: Callable[[], Any], value: Any, unset: Any
) -> None:
    """``None`` unsets: hooks are then off, queues back to the usual ones."""
    setter(value)
    assert getter() == value
    setter(None)
    assert getter() is unset


def test_setters_without_argument_restore_the_default() -> None:
    """The usual hook and queue are the defaults of the arguments."""
    config.set_default_hook_class(None)
    config.set_default_queue_class(OwnQueue)
    config.set_default_hook_class()
    config.set_default_queue_class()
    assert config.get_default_hook_class() is TaskStatsHook
    assert config.get_default_queue_class() is StatsQueue


@pytest.mark.parametrize(
    ("setter", "value", "text"),
    [
        (config.set_default_hook_class, 5, "cls must be callable or None"),
        (config.set_default_queue_class, "StatsQueue", "cls must be callable or None"),
        (config.set_default_profile_hook, 5, "hook must have a method stage_profile_hook"),
        (config.set_default_profile_callback, 5, "cb must be callable or None"),
        (config.set_default_build_callback, 5, "cb must be callable or None"),
        (config.set_default_background_tasks, callback, "tasks must be a list or None"),
        (config.set_default_background_tasks, [callback, 5], "must be callable, got .* int at position 1"),
        (config.set_compact_log, 1, "compact_log must be a bool or None"),
    ],
)
def test_setter_refuses_what_could_only_fail_later(setter: Callable[[Any], None], value: Any, text: str) -> None:
    """Otherwise every pipeline built afterwards would fail."""
    with pytest.raises(TypeError, match=text):
        setter(value)


def test_refused_value_changes_nothing() -> None:
    """The setting before stays."""
    config.set_default_background_tasks([])
    with pytest.raises(TypeError):
        config.set_default_background_tasks([5])  # type: ignore[list-item]  # what is tested
    assert config.get_default_background_tasks() == []


def test_list_of_background_tasks_is_copied() -> None:
    """Neither the list that was given nor the one that is returned is the setting."""
    tasks: list[Any] = [OwnTask]
    config.set_default_background_tasks(tasks)
    tasks.append(5)
    returned = config.get_default_background_tasks()
    assert returned == [OwnTask]
    returned.clear()
    assert config.get_default_background_tasks() == [OwnTask]


def test_classes_are_read_at_build() -> None:
    """They are called for each stage of pipelines built from then on."""
    made: list[str] = []

    def make_hook(info: Any, interval: float) -> TaskHook:
        made.append(f"hook {info.stage_name}")
        return TaskStatsHook(info, interval)

    def make_queue(info: Any, *, buffer_size: int, interval: float) -> StatsQueue:
        made.append(f"queue {info.stage_name}")
        return StatsQueue(info, buffer_size=buffer_size, interval=interval)

    config.set_default_hook_class(make_hook)
    config.set_default_queue_class(make_queue)
    build()
    assert sorted(made) == ["hook str", "queue sink", "queue src", "queue str"]


def test_build_callback_gets_the_description() -> None:
    """Before the pipeline is built."""
    seen: list[PipelineConfig[Any]] = []
    config.set_default_build_callback(seen.append)
    expected = build()
    assert seen == [expected]


@pytest.mark.parametrize("value", ["1", "true", "TRUE", "on", "On", "yes", " 1 "])
def test_diagnostic_mode_is_switched_on(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """By any of the usual words."""
    monkeypatch.setenv(MODE, value)
    assert config.is_diagnostic_mode_enabled() is True


@pytest.mark.parametrize("value", ["0", "false", "off", "no", "", None])
def test_diagnostic_mode_is_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, value: str | None
) -> None:
    """Unless asked for."""
    if value is None:
        monkeypatch.delenv(MODE, raising=False)
    else:
        monkeypatch.setenv(MODE, value)
    assert config.is_diagnostic_mode_enabled() is False
    assert caplog.records == []


def test_unknown_word_for_diagnostic_mode_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A typing mistake does not go unnoticed."""
    monkeypatch.setenv(MODE, "ture")
    with caplog.at_level(logging.WARNING, "spdl.pipeline"):
        assert config.is_diagnostic_mode_enabled() is False
    assert "SPDL_PIPELINE_DIAGNOSTIC_MODE='ture' is ignored" in caplog.text


def test_number_of_diagnostic_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """1000 unless the environment says otherwise."""
    monkeypatch.delenv(NUM_ITEMS, raising=False)
    assert config.diagnostic_mode_num_sources() == 1000
    monkeypatch.setenv(NUM_ITEMS, "7")
    assert config.diagnostic_mode_num_sources() == 7


@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1.5"])
def test_number_of_diagnostic_items_must_be_positive(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """The error names the variable."""
    monkeypatch.setenv(NUM_ITEMS, value)
    with pytest.raises(ValueError, match=f"{NUM_ITEMS} must be a whole number >= 1, got '{value}'"):
        config.diagnostic_mode_num_sources()


def test_compact_log_follows_the_environment_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program says wins over the variable."""
    monkeypatch.setenv("SPDL_PIPELINE_COMPACT_LOG", "1")
    assert is_compact_log() is True
    config.set_compact_log(False)
    assert is_compact_log() is False
    config.set_compact_log(None)
    monkeypatch.delenv("SPDL_PIPELINE_COMPACT_LOG")
    assert is_compact_log() is False
