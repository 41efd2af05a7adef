"""Run one isolated stage and tell what came out and what failed."""

import select
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder, StageStats, TaskHook
from tests.support.timeouts import TIMEOUT

__all__ = ["TIMEOUT", "Hook", "build", "gated", "run", "wait_for", "wait_for_end"]


def build(op: Any, items: Iterable[Any], *, max_failures: int = -1, hooks: Any = None, **options: Any) -> Pipeline[Any]:
    """A pipeline with one isolated stage."""
    builder = PipelineBuilder[Any, Any]().add_source(items).pipe(op, isolate=True, **options).add_sink()
    limit = Fraction(1) if max_failures < 0 else max_failures  # all may fail
    return builder.build(num_threads=2, max_failures=limit, task_hook_factory=hooks)


def run(op: Any, items: Iterable[Any], **options: Any) -> tuple[list[Any], StageStats]:
    """All outputs, and the statistics of the stage at the end."""
    pipeline = build(op, items, **options)
    with pipeline.auto_stop():
        outputs = list(pipeline.get_iterator(timeout=TIMEOUT))
    return outputs, pipeline.stats().stages[1]


class Hook(TaskHook):
    """One of the user's own: calls go through the event loop. Notes what it saw."""

    def __init__(self, seen: list[Any] | None = None) -> None:
        self.seen: list[Any] = [] if seen is None else seen

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        try:
            yield
        except Exception as exc:
            self.seen.append(type(exc))
            raise
        self.seen.append("ok")


def gated(items: Iterable[Any], gate: threading.Semaphore) -> Iterator[Any]:
    """Each item when the gate lets it pass."""
    for item in items:
        assert gate.acquire(timeout=TIMEOUT)
        yield item


def wait_for_end(pidfd: int) -> None:
    """Wait until a process has ended."""
    ready, _, _ = select.select([pidfd], [], [], TIMEOUT)
    assert ready


def wait_for(fifo: Path) -> str:
    """What a child says through a named pipe."""
    return fifo.read_text(encoding="ascii")
