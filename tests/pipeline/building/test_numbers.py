"""Durations and whole numbers that users give: one rule, at the door of everything public that takes them."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from spdl._numbers import as_finite, as_int, as_seconds, as_timeout
from spdl.dataloader import get_pytorch_dataloader
from spdl.pipeline import (
    Pipeline,
    PipelineBuilder,
    ProcessGroupStatsMonitor,
    SharedMemoryRingBuffer,
    SharedMemorySegmentPool,
    StatsQueue,
    TaskHook,
    TaskStatsHook,
    iterate_in_subprocess,
    run_pipeline_in_subprocess,
)
from spdl.pipeline.batching import MaxWait
from spdl.pipeline.defs import Pipe, Retry


def pipeline(**options: Any) -> Pipeline[int]:
    return PipelineBuilder().add_source(range(3)).pipe(abs).add_sink().build(num_threads=1, **options)


def in_subprocess(**options: Any) -> Any:
    builder = PipelineBuilder().add_source(range(3)).add_sink()
    return run_pipeline_in_subprocess(builder, num_threads=1, **options)


#: What gives a duration, the argument's name, and whether it accepts 0 and infinity.
_PLACES: dict[str, tuple[Callable[[Any], Any], str, bool, bool]] = {
    "get_item": (lambda value: pipeline().get_item(timeout=value), "timeout", True, False),
    "get_iterator": (lambda value: pipeline().get_iterator(timeout=value), "timeout", True, False),
    "start": (lambda value: pipeline().start(timeout=value), "timeout", True, False),
    "stop": (lambda value: pipeline().stop(timeout=value), "timeout", True, False),
    "auto_stop": (lambda value: pipeline().auto_stop(timeout=value).__enter__(), "timeout", True, False),
    "pipe": (lambda value: Pipe(abs, call_timeout=value), "call_timeout", False, False),
    "delay": (lambda value: Retry(2, delay=value), "delay", True, False),
    "max_delay": (lambda value: Retry(2, max_delay=value), "max_delay", True, False),
    "max_wait": (lambda value: MaxWait(2, value), "seconds", False, True),
    "ring": (lambda value: SharedMemoryRingBuffer(4096, acquire_timeout=value), "acquire_timeout", True, True),
    "pool": (lambda value: SharedMemorySegmentPool(4096, 1, acquire_timeout=value), "acquire_timeout", True, True),
    "monitor": (lambda value: ProcessGroupStatsMonitor(print, value), "interval", False, False),  # type: ignore[arg-type]
    "subprocess": (lambda value: iterate_in_subprocess(list, timeout=value), "timeout", False, False),
    "pipeline in a subprocess": (lambda value: in_subprocess(timeout=value), "timeout", False, False),
}


@pytest.mark.parametrize("place", _PLACES)
def test_a_duration_is_checked_where_it_is_given(place: str) -> None:
    """NaN and negative numbers are refused, and what is no number; 0 and infinity where they would make no sense."""
    call, name, may_be_zero, may_be_infinite = _PLACES[place]
    for wrong in (math.nan, -1, -math.inf, *([] if may_be_zero else [0]), *([] if may_be_infinite else [math.inf])):
        with pytest.raises(ValueError, match=f"^{name} must be "):
            call(wrong)
    for wrong_type in ("1", True, [1], np.zeros(2)):
        with pytest.raises(TypeError, match=f"^{name} must be "):
            call(wrong_type)


@pytest.mark.parametrize("workers", ["thread", "process", "auto", None])
def test_a_loader_has_the_same_rule(workers: Any) -> None:
    """0 stands for no limit there, as with torch."""
    pytest.importorskip("torch")
    for wrong in (math.nan, math.inf, -1):
        with pytest.raises(ValueError, match=r"^timeout must be >= 0 seconds"):
            get_pytorch_dataloader([1], timeout=wrong, workers=workers, num_workers=1)
    with pytest.raises(TypeError, match=r"^timeout must be a number"):
        get_pytorch_dataloader([1], timeout="1", workers=workers, num_workers=1)  # type: ignore[arg-type]


def test_numbers_of_other_kinds_are_durations() -> None:
    """NumPy's and fractions; what is too long for the system to wait is cut."""
    assert as_seconds("x", np.float32(0.5)) == 0.5
    assert as_timeout("x", Fraction(1, 4)) == 0.25
    assert as_timeout("x", None) is None
    assert as_timeout("x", 1e300) == 1e9
    assert as_finite("x", -1) == -1
    with pytest.raises(ValueError, match="x must be >= 0 and finite"):
        as_seconds("x", 10**400)
    assert as_seconds("x", 10**400, may_be_infinite=True) == math.inf
    for huge in (-(10**400), Fraction(-(10**400))):
        with pytest.raises(ValueError, match="x must be >= 0, got -inf"):
            as_seconds("x", huge, may_be_infinite=True)
    assert as_int("x", np.int64(3)) == 3


def test_a_very_long_timeout_is_one() -> None:
    """No wait of the system takes so many seconds."""
    waiting = pipeline()
    with waiting.auto_stop(timeout=1e300):
        assert list(waiting.get_iterator(timeout=1e300)) == [0, 1, 2]


@pytest.mark.parametrize("interval", ["a", None, True])
def test_an_interval_of_reports_is_a_number(interval: Any) -> None:
    """Any that is not above 0 stands for none."""
    for call in (
        partial(pipeline, report_stats_interval=interval),
        partial(in_subprocess, report_stats_interval=interval),
    ):
        with pytest.raises(TypeError, match=r"^report_stats_interval must be a number"):
            call()
    for kind in (TaskStatsHook, StatsQueue):
        with pytest.raises(TypeError, match=r"^interval must be a number"):
            kind(None, interval=interval)  # type: ignore[arg-type]
    for odd in (math.nan, math.inf):
        with pytest.raises(ValueError, match=r"^report_stats_interval must be finite"):
            pipeline(report_stats_interval=odd)


def test_a_stage_id_is_a_whole_number() -> None:
    """It is counted on from."""
    with pytest.raises(TypeError, match=r"^stage_id must be an int, got 'x'"):
        pipeline(stage_id="x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buffer_size": "a"}, "buffer_size must be an int, got 'a'"),
        ({"buffer_size": 1.5}, "buffer_size must be an int, got 1.5"),
        ({"arena": "x"}, "arena must be None, a number of bytes, or an arena .*, got 'x'"),
        ({"arena": True}, "arena must be None, a number of bytes, or an arena .*, got True"),
        ({"arena": SharedMemoryRingBuffer}, "arena must be None, a number of bytes, or an arena"),
    ],
)
def test_arguments_of_a_subprocess_are_checked_before_it_starts(options: Any, message: str) -> None:
    """Both ways to start one."""
    with pytest.raises(TypeError, match=message):
        iterate_in_subprocess(list, **options)
    with pytest.raises(TypeError, match=message):
        in_subprocess(**options)


@pytest.mark.parametrize(("hooks", "got"), [(None, "got None"), ([None], "got None in it"), (TaskHook, "got <class")])
def test_a_hook_factory_that_returns_no_hooks_is_named(hooks: Any, got: str) -> None:
    """With the stage that it was asked about."""
    with pytest.raises(TypeError, match=f"task_hook_factory must return a list of hooks, {got}.*abs"):
        pipeline(task_hook_factory=lambda info: hooks)
