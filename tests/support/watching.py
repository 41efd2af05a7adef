"""Ops and hooks that the tests of hooks share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from spdl.pipeline import (
    TaskHook,
)

__all__ = ["Log", "OneTask", "add_ten", "add_ten_async", "hooked", "ten_and_twenty", "ten_and_twenty_async"]


def add_ten(item: int) -> int:
    return item + 10


async def add_ten_async(item: int) -> int:
    await asyncio.sleep(0)
    return item + 10


def ten_and_twenty(item: int) -> Iterator[int]:
    yield item + 10
    yield item + 20


async def ten_and_twenty_async(item: int) -> AsyncIterator[int]:
    yield item + 10
    yield item + 20


class Log(TaskHook):
    """Writes down what it sees, under a name, in a list shared with others."""

    def __init__(self, events: list[Any] | None = None, name: str = "hook") -> None:
        self.events: list[Any] = [] if events is None else events
        self.name = name

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.events.append((self.name, "stage enter"))
        try:
            yield
        finally:
            self.events.append((self.name, "stage exit"))

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.events.append((self.name, "enter", input_item))
        try:
            yield
        except BaseException as exc:
            self.events.append((self.name, type(exc), input_item))
            raise
        self.events.append((self.name, "exit", input_item))

    def tasks(self, *kinds: Any) -> list[Any]:
        return [event[2] for event in self.events if len(event) == 3 and event[1] in (kinds or ("enter",))]


class OneTask(TaskHook):
    """A hook whose ``task_hook`` is the given function."""

    def __init__(self, hook: Callable[[Any], Any]) -> None:
        self.hook = hook

    def task_hook(self, input_item: Any = None) -> Any:
        return self.hook(input_item)


def hooked(*hooks: TaskHook) -> Any:
    return lambda info: list(hooks)
