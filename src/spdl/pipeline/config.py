"""Defaults of this process for the pipelines that are built in it.

They are read when a pipeline is built (how item errors are logged: when one is logged); pipelines that exist keep what
they were built with. Set them at the start of a program, or in the initializer of a worker process.
"""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spdl._reports import log
from spdl.pipeline._observe import AsyncQueue, BackgroundTaskFactory, StatsQueue, TaskHook, TaskStatsHook
from spdl.pipeline._observe import set_compact_log as set_compact_log
from spdl.pipeline.defs import PipelineConfig

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
    """All state of this module. It belongs to the process by contract: that is what the functions here promise.

    Each field is replaced as a whole and read once per build, so no lock is needed.
    """

    hook_class: Callable[..., TaskHook] | None = TaskStatsHook
    queue_class: Callable[..., AsyncQueue] = StatsQueue
    profile_hook: Any = None
    profile_callback: Callable[[Any], None] | None = None
    build_callback: Callable[[PipelineConfig[Any]], None] | None = None
    background_tasks: tuple[BackgroundTaskFactory, ...] | None = None


_DEFAULTS: Final = _Defaults()


def _check_callable(name: str, value: object) -> None:
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be callable or None, got an object of type {type(value).__qualname__}")


def set_default_hook_class(cls: Callable[..., TaskHook] | None = TaskStatsHook) -> None:
    """Choose the hook that every stage gets, where a pipeline is built without ``task_hook_factory``.

    Args:
        cls: Called with ``(info, interval=seconds)`` for each stage. ``None``: no hooks.

    Raises:
        TypeError: It cannot be called.
    """
    _check_callable("cls", cls)
    _DEFAULTS.hook_class = cls


def get_default_hook_class() -> Callable[..., TaskHook] | None:
    """Get what makes a stage's hook; ``None``: stages have none."""
    return _DEFAULTS.hook_class


def set_default_queue_class(cls: Callable[..., AsyncQueue] | None = StatsQueue) -> None:
    """Choose what observes the buffer after each stage, where a pipeline is built without ``queue_class``.

    Args:
        cls: Called with ``(info, buffer_size=n, interval=seconds)`` for each stage. ``None``: back to
            :class:`~spdl.pipeline.StatsQueue`.

    Raises:
        TypeError: It cannot be called.
    """
    _check_callable("cls", cls)
    _DEFAULTS.queue_class = StatsQueue if cls is None else cls


def get_default_queue_class() -> Callable[..., AsyncQueue]:
    """Get what makes the observer of a buffer."""
    return _DEFAULTS.queue_class


def set_default_profile_hook(hook: Any = None) -> None:
    """Choose the hook of profiling, where none is given to ``profile_pipeline``.

    Args:
        hook: Has the context managers ``stage_profile_hook`` and ``pipeline_profile_hook``. ``None``: none.

    Raises:
        TypeError: It has not.
    """
    for method in ("stage_profile_hook", "pipeline_profile_hook"):
        if hook is not None and not callable(getattr(hook, method, None)):
            raise TypeError(f"hook must have a method {method}, got an object of type {type(hook).__qualname__}")
    _DEFAULTS.profile_hook = hook


def get_default_profile_hook() -> Any:
    """Get the hook of profiling, or ``None``."""
    return _DEFAULTS.profile_hook


def set_default_profile_callback(cb: Callable[[Any], None] | None = None) -> None:
    """Choose what is called with the result of each profiled stage, where ``profile_pipeline`` is given nothing.

    Raises:
        TypeError: It cannot be called.
    """
    _check_callable("cb", cb)
    _DEFAULTS.profile_callback = cb


def get_default_profile_callback() -> Callable[[Any], None] | None:
    """Get what is called with the result of each profiled stage, or ``None``."""
    return _DEFAULTS.profile_callback


def set_default_build_callback(cb: Callable[[PipelineConfig[Any]], None] | None) -> None:
    """Choose what is called with the description of each pipeline before it is built. Its errors are logged only.

    Raises:
        TypeError: It cannot be called.
    """
    _check_callable("cb", cb)
    _DEFAULTS.build_callback = cb


def get_default_build_callback() -> Callable[[PipelineConfig[Any]], None] | None:
    """Get what is called with the description of each pipeline, or ``None``."""
    return _DEFAULTS.build_callback


def set_default_background_tasks(tasks: Sequence[BackgroundTaskFactory] | None) -> None:
    """Choose the background tasks that run beside every pipeline, before those it is built with.

    Args:
        tasks: Each is called without arguments and makes a :class:`~spdl.pipeline.BackgroundTask`. ``None``: none.

    Raises:
        TypeError: This is no sequence, or one of them cannot be called.
    """
    if tasks is None:
        _DEFAULTS.background_tasks = None
        return
    if not isinstance(tasks, Sequence):
        raise TypeError(f"tasks must be a list or None, got an object of type {type(tasks).__qualname__}")
    for position, factory in enumerate(tasks):
        if not callable(factory):
            raise TypeError(
                f"a background task factory must be callable, got an object of type {type(factory).__qualname__} "
                f"at position {position}"
            )
    _DEFAULTS.background_tasks = tuple(tasks)


def get_default_background_tasks() -> list[BackgroundTaskFactory] | None:
    """Get a list of the background tasks that run beside every pipeline; ``None`` if none were set."""
    tasks = _DEFAULTS.background_tasks
    return None if tasks is None else list(tasks)


def is_diagnostic_mode_enabled() -> bool:
    """Tell whether pipelines are to profile themselves in place of running.

    The environment variable ``SPDL_PIPELINE_DIAGNOSTIC_MODE`` says so: ``1``, ``true``, ``on`` or ``yes``. A value that
    says neither yes nor no counts as no, with a warning in the log.
    """
    value = os.environ.get(_DIAGNOSTIC_MODE, "")
    word = value.strip().lower()
    if word not in _ON + _OFF:
        log(
            _LOG,
            logging.WARNING,
            "%s=%r is ignored: it must be one of %s",
            _DIAGNOSTIC_MODE,
            value,
            ", ".join(_ON + _OFF[1:]),
        )
    return word in _ON


def diagnostic_mode_num_sources() -> int:
    """Get how many items of a source diagnostic mode takes: ``SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS``, or 1000.

    Raises:
        ValueError: The variable is not a whole number of at least 1.
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
