"""Observe a pipeline: ``stats()`` while it runs, and a custom ``TaskHook`` around every call.

``stats()`` is always available, costs almost nothing and names the limiting stage. A hook is your own code: here it
keeps the slowest items of a stage.
"""

import heapq
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from spdl.pipeline import PipelineBuilder, StageInfo, TaskHook


class SlowestItems(TaskHook):
    """Keeps the items whose calls took longest, including failed calls."""

    def __init__(self, info: StageInfo, num_kept: int = 3) -> None:
        self.info = info
        self.num_kept = num_kept
        self.slowest: list[tuple[float, Any]] = []

    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        """Runs around the whole stage."""
        yield
        print(f"{self.info.stage_name}: kept the {len(self.slowest)} slowest of its items")

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        """Runs around each call. The op's exception passes through the ``yield``."""
        began = time.perf_counter()
        try:
            yield
        finally:
            heapq.heappush(self.slowest, (time.perf_counter() - began, input_item))
            if len(self.slowest) > self.num_kept:
                heapq.heappop(self.slowest)


def compress(num_bytes: int) -> bytes:
    """Compress data. This is slow for large items."""
    return zlib.compress(bytes(range(256)) * (num_bytes // 256), 9)


def decompress(data: bytes) -> int:
    return len(zlib.decompress(data))


def main() -> None:
    hooks: dict[str, SlowestItems] = {}

    def make_hooks(info: StageInfo) -> list[TaskHook]:
        """Make the hooks of a stage. An empty list means no hooks and no cost."""
        if info.stage_name != "compress":
            return []
        hooks[info.stage_name] = SlowestItems(info)
        return [hooks[info.stage_name]]

    sizes = [1 << 20 if number % 70 == 50 else 1 << 10 for number in range(200)]
    pipeline = (
        PipelineBuilder()
        .add_source(sizes)
        .pipe(compress, concurrency=2)
        .pipe(decompress)
        .add_sink()
        .build(num_threads=2, task_hook_factory=make_hooks)
    )
    with pipeline.auto_stop():
        before = pipeline.stats()
        for number, _ in enumerate(pipeline, 1):
            if number == 100:
                # The difference of two stats() results covers the time between the two calls.
                interval = pipeline.stats() - before
                print(f"while {number} items were read, {interval.stages[1].num_calls} were compressed")
    print(pipeline.stats())
    print("the slowest items have", sorted(size for _, size in hooks["compress"].slowest), "bytes")


if __name__ == "__main__":
    main()
