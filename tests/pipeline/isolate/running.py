"""Run one isolated stage and tell what came out and what failed."""

from collections.abc import Iterable
from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder, StageStats

__all__ = ["TIMEOUT", "build", "run"]

#: Seconds after which a test that waits has failed.
TIMEOUT = 30.0


def build(op: Any, items: Iterable[Any], *, max_failures: int = -1, hooks: Any = None, **options: Any) -> Pipeline[Any]:
    """A pipeline with one isolated stage."""
    builder = PipelineBuilder[Any, Any]().add_source(items).pipe(op, isolate=True, **options).add_sink()
    return builder.build(num_threads=2, max_failures=max_failures, task_hook_factory=hooks)


def run(op: Any, items: Iterable[Any], **options: Any) -> tuple[list[Any], StageStats]:
    """All outputs, and the statistics of the stage at the end."""
    pipeline = build(op, items, **options)
    with pipeline.auto_stop():
        outputs = list(pipeline.get_iterator(timeout=TIMEOUT))
    return outputs, pipeline.stats().stages[1]
