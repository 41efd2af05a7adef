"""A stop while the lanes are started."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, TaskHook
from spdl.pipeline._engine._engine import Engine
from spdl.pipeline._engine._lanes._jobs import JobQueue
from spdl.pipeline._engine._lanes._pool import PoolLane
from spdl.pipeline.defs import Aggregator
from tests.support.timeouts import TIMEOUT


class _Sum(Aggregator[int, int]):
    def accumulate(self, item: int) -> int:
        return item

    def flush(self) -> None:
        return None


def test_a_call_queued_for_the_pool_before_a_stop_does_not_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop may queue a call before the pool has started, and a stop may come between the two."""
    queued = threading.Event()
    submit, start = JobQueue.submit, PoolLane.start

    def submit_and_tell(self: JobQueue, function: Any, argument: Any, item: Any) -> Any:
        job = submit(self, function, argument, item)
        queued.set()
        return job

    def stop_and_start(self: PoolLane) -> None:
        assert queued.wait(TIMEOUT)
        assert isinstance(self.engine, Engine)
        self.engine.request_stop()
        start(self)

    monkeypatch.setattr(JobQueue, "submit", submit_and_tell)
    monkeypatch.setattr(PoolLane, "start", stop_and_start)

    async def source() -> AsyncIterator[int]:
        yield 1

    class Hook(TaskHook):
        @asynccontextmanager
        async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
            yield

    builder = PipelineBuilder().add_source(source()).aggregate(_Sum()).add_sink()
    pipeline = builder.build(num_threads=1, task_hook_factory=lambda info: [Hook()])
    pipeline.start(timeout=TIMEOUT)
    pipeline.stop(timeout=TIMEOUT)
