"""Hooks, queues and tasks that leave marks in the process where they run; ops that show the marks."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from spdl.pipeline import AsyncQueue, BackgroundTask, StageInfo, StatsQueue, TaskHook, TaskStatsHook
from tests.support.remote import TIMEOUT, append_to, note, noted


def set_build_callback(path: Path) -> None:
    """An initializer: every build in this process leaves its mark."""
    from spdl.pipeline.config import set_default_build_callback

    def told(config: Any) -> None:
        append_to(path, "built")

    set_default_build_callback(told)


class NotingHook(TaskHook):
    """Leaves its mark around every call."""

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        note("hook")
        yield


def make_hooks(info: StageInfo) -> list[TaskHook]:
    return [NotingHook()]


def note_stage(info: StageInfo) -> list[TaskHook]:
    note(str(info))
    return []


class NotingQueue(AsyncQueue):
    """Leaves its mark when it is made."""

    def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
        super().__init__(info, buffer_size=buffer_size)
        note("queue")


class MadeHook(TaskStatsHook):
    """Leaves its mark when it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        note("hook made")


class MadeQueue(StatsQueue):
    """Leaves its mark when it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        note("queue made")


def set_defaults() -> None:
    """An initializer: hooks and queues of this process leave their marks."""
    from spdl.pipeline.config import set_default_hook_class, set_default_queue_class

    set_default_hook_class(MadeHook)
    set_default_queue_class(MadeQueue)


class NotingTask(BackgroundTask):
    """Leaves its mark when it runs."""

    async def run(self) -> None:
        note("task")
        running_task.set()


running_task = threading.Event()


def seen_by_observers(item: Any) -> tuple[int, list[Any]]:
    """The thread, and what has been noted so far, the background task included."""
    running_task.wait(TIMEOUT)
    return threading.get_ident(), list(noted())


def names_of_stages(item: Any) -> list[Any]:
    return list(noted())
