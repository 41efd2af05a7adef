"""What the tests of ``Pipeline.stats()`` share."""

import asyncio
from collections.abc import Callable
from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStats, StageStats
from tests.support.running import TIMEOUT, build_of

SUMS = ("num_calls", "num_failures", "num_dropped", "num_emitted", "busy", "starved", "blocked")

__all__ = ["SUMS", "ended", "named", "odd_fails", "passed_async"]


def odd_fails(item: int) -> int:
    if item % 2:
        raise ValueError(f"odd {item}")
    return item


def ended(*stages: Callable[[PipelineBuilder[Any, Any]], Any], source: Any = None, **options: Any) -> PipelineStats:
    """The statistics of a pipeline that was read to its end."""
    pipeline: Pipeline[Any] = build_of(range(10) if source is None else source, *stages).build(num_threads=2, **options)
    list(pipeline.get_iterator(timeout=TIMEOUT))
    return pipeline.stats()


def named(stats: PipelineStats, name: str) -> StageStats:
    (stage,) = [stage for stage in stats.stages if stage.info.stage_name == name]
    return stage


async def passed_async(item: int) -> int:
    await asyncio.sleep(0)
    return item
