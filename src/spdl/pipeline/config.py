"""Process-wide defaults for pipelines.

A default is read when a pipeline is built; existing pipelines do not change. (The log style of item errors is the
exception: it is read whenever an error is logged.) Set defaults at the start of a program, or in the initializer of a
worker process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spdl._failure_log import set_compact_log as set_compact_log
from spdl._numbers import check_callable
from spdl._reports import log
from spdl.pipeline._observe._background import BackgroundTaskFactory
from spdl.pipeline._observe._task_hooks import TaskHook, TaskStatsHook
from spdl.pipeline._options import as_tasks
from spdl.pipeline.defs import PipelineConfig

if TYPE_CHECKING:
    from spdl.pipeline._observe._queues import AsyncQueue

__all__ = [
    "diagnostic_mode_num_sources",
    "get_default_background_tasks",
    "get_default_build_callback",
    "get_default_hook_class",
    "get_default_profile_callback",
    "get_default_profile_hook",
    "get_default_queue_class",
    "is_diagnostic_mode_enabled",
    "set_compact_log",
    "set_default_background_tasks",
    "set_default_build_callback",
    "set_default_hook_class",
    "set_default_profile_callback",
    "set_default_profile_hook",
    "set_default_queue_class",
]

_LOG = logging.getLogger("spdl.pipeline")

_DIAGNOSTIC_MODE = "SPDL_PIPELINE_DIAGNOSTIC_MODE"
_DIAGNOSTIC_MODE_NUM_ITEMS = "SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS"
_DEFAULT_NUM_ITEMS = 1000
_ON = ("1", "true", "on", "yes")
_OFF = ("", "0", "false", "off", "no")


@dataclass(slots=True)
class _Defaults:
    """All state of this module. It is process-wide because the public functions here are.

    Each field is replaced as a whole and read once per build, so no lock is needed.
    """

    hook_class: Callable[..., TaskHook] | None = TaskStatsHook
    queue_class: Callable[..., AsyncQueue] | None = None  # None: ``StatsQueue``, which is imported on first use
    profile_hook: Any = None
    profile_callback: Callable[[Any], None] | None = None
    build_callback: Callable[[PipelineConfig[Any]], None] | None = None
    background_tasks: tuple[BackgroundTaskFactory, ...] | None = None


_DEFAULTS: Final = _Defaults()


def set_default_hook_class(cls: Callable[..., TaskHook] | None = TaskStatsHook) -> None:
    """Set the hook class for stages of pipelines that are built without ``task_hook_factory``.

    Args:
        cls: Class or function called with ``(info, interval=seconds)`` for each stage. ``None``: no hooks.

    Raises:
        TypeError: ``cls`` is not callable.
    """
    check_callable("cls", cls)
    _DEFAULTS.hook_class = cls


def get_default_hook_class() -> Callable[..., TaskHook] | None:
    """Return the default hook class; ``None``: stages have no hooks."""
    return _DEFAULTS.hook_class


def set_default_queue_class(cls: Callable[..., AsyncQueue] | None = None) -> None:
    """Set the class that observes the buffer after each stage, for pipelines built without ``queue_class``.

    Args:
        cls: Class or function called with ``(info, buffer_size=n, interval=seconds)`` for each stage. ``None``: reset
            to :class:`~spdl.pipeline.StatsQueue`.

    Raises:
        TypeError: ``cls`` is not callable.
    """
    check_callable("cls", cls)
    _DEFAULTS.queue_class = cls


def get_default_queue_class() -> Callable[..., AsyncQueue]:
    """Return the default queue class."""
    from spdl.pipeline._observe._queues import StatsQueue  # imported late: it needs asyncio

    return _DEFAULTS.queue_class or StatsQueue


def own_queue_class() -> Callable[..., AsyncQueue] | None:
    """Return the default queue class if one was set. Not public."""
    return _DEFAULTS.queue_class


def set_default_profile_hook(hook: Any = None) -> None:
    """Set the hook for profiling.

    Args:
        hook: Object with the methods ``stage_profile_hook`` and ``pipeline_profile_hook``, which return context
            managers. ``None``: no hook.

    Raises:
        TypeError: ``hook`` lacks one of the two methods.
    """
    for method in ("stage_profile_hook", "pipeline_profile_hook"):
        if hook is not None and not callable(getattr(hook, method, None)):
            raise TypeError(f"hook must have a method {method}, got an object of type {type(hook).__qualname__}")
    _DEFAULTS.profile_hook = hook


def get_default_profile_hook() -> Any:
    """Return the hook for profiling, or ``None``."""
    return _DEFAULTS.profile_hook


def set_default_profile_callback(cb: Callable[[Any], None] | None = None) -> None:
    """Set the function that is called with the result of each profiled stage.

    Args:
        cb: The function; ``None``: no callback.

    Raises:
        TypeError: ``cb`` is not callable.
    """
    check_callable("cb", cb)
    _DEFAULTS.profile_callback = cb


def get_default_profile_callback() -> Callable[[Any], None] | None:
    """Return the profiling callback, or ``None``."""
    return _DEFAULTS.profile_callback


def set_default_build_callback(cb: Callable[[PipelineConfig[Any]], None] | None) -> None:
    """Set the function that is called with the description of each pipeline before it is built.

    Args:
        cb: The function; ``None``: no callback. Its exceptions are logged and ignored.

    Raises:
        TypeError: ``cb`` is not callable.
    """
    check_callable("cb", cb)
    _DEFAULTS.build_callback = cb


def get_default_build_callback() -> Callable[[PipelineConfig[Any]], None] | None:
    """Return the build callback, or ``None``."""
    return _DEFAULTS.build_callback


def set_default_background_tasks(tasks: Sequence[BackgroundTaskFactory] | None) -> None:
    """Set the background tasks of every pipeline. They start before the tasks given to the build.

    Args:
        tasks: Factories, called without arguments, that return a :class:`~spdl.pipeline.BackgroundTask`. ``None``: no
            tasks.

    Raises:
        TypeError: ``tasks`` is not a sequence, or one of its elements is not callable.
    """
    given = as_tasks("tasks", tasks)
    _DEFAULTS.background_tasks = None if given is None else tuple(given)


def get_default_background_tasks() -> list[BackgroundTaskFactory] | None:
    """Return a list of the default background task factories; ``None`` if none were set."""
    tasks = _DEFAULTS.background_tasks
    return None if tasks is None else list(tasks)


def is_diagnostic_mode_enabled() -> bool:
    """Return whether diagnostic mode is on.

    The environment variable ``SPDL_PIPELINE_DIAGNOSTIC_MODE`` turns it on: ``1``, ``true``, ``on`` or ``yes``. An
    unknown value counts as off, with a warning in the log.
    """
    value = os.environ.get(_DIAGNOSTIC_MODE, "")
    word = value.strip().lower()
    if word not in _ON + _OFF:
        text = "%s=%r is ignored: it must be one of %s"
        log(_LOG, logging.WARNING, text, _DIAGNOSTIC_MODE, value, ", ".join(_ON + _OFF[1:]))
    return word in _ON


def diagnostic_mode_num_sources() -> int:
    """Return the number of source items for diagnostic mode: ``SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS``, or 1000.

    Raises:
        ValueError: The variable is not an integer >= 1.
    """
    value = os.environ.get(_DIAGNOSTIC_MODE_NUM_ITEMS)
    if value is None:
        return _DEFAULT_NUM_ITEMS
    try:
        num_items = int(value)
    except ValueError:
        num_items = 0
    if num_items < 1:
        raise ValueError(f"{_DIAGNOSTIC_MODE_NUM_ITEMS} must be a whole number >= 1, got {value!r}")
    return num_items
