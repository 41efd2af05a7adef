"""Builders of pipelines with regions."""

from collections.abc import Callable
from typing import Any

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ExecutorConfig, ProcessPoolExecutorConfig

__all__ = ["Add", "counts", "region", "with_region"]

Add = Callable[[PipelineBuilder[Any, Any]], Any]


def region(
    builder: PipelineBuilder[Any, Any],
    *stages: Add,
    workers: int = 1,
    inputs: int = 1,
    outputs: int = 1,
    target: ExecutorConfig | None = None,
    **config: Any,
) -> None:
    """Add a region with what each of ``stages`` adds; ``config`` is that of its worker processes.

    Args:
        target: Its workers, if they are no processes, or are made elsewhere.
    """
    if target is None:
        target = ProcessPoolExecutorConfig(max_workers=workers, **config)
    builder.to(target, buffer_size=inputs)
    for add in stages:
        add(builder)
    builder.to(MAIN_PROCESS, buffer_size=outputs)


def with_region(source: Any, *stages: Add, continuous: bool = False, sink: int = 3, **options: Any) -> Any:
    """Return a builder whose only stages are those of one region; ``options`` are those of ``region``."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(source, continuous=continuous)
    region(builder, *stages, **options)
    return builder.add_sink(sink)


def counts(pipeline: Any) -> tuple[int, int, int]:
    """What came out of the region's stage, was dropped there, and failed there."""
    (stage,) = [each for each in pipeline.stats().stages if each.info.stage_name.startswith("subprocess_pipeline")]
    return stage.num_emitted, stage.num_dropped, stage.num_failures
