"""Which part of a pipeline cannot be pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spdl._processes._unpicklable import find_unpicklable
from spdl.pipeline.defs import (
    AggregateConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
)

__all__ = ["find_unpicklable_part"]


def find_unpicklable_part(config: PipelineConfig[Any], options: Mapping[str, Any]) -> str | None:
    """Name the first part that does not pickle, and say why; ``None`` if all do.

    Args:
        config: The pipeline.
        options: Further things that must pickle, by name.
    """
    # Locks and queues of multiprocessing, which travel with a new process only, raise RuntimeError.
    found = find_unpicklable([*_parts(config), *options.items()], ignored=(RuntimeError,))
    return None if found is None else ": ".join(found)


def _parts(config: PipelineConfig[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(config.src, MergeConfig):
        for sub in config.src.pipeline_configs:
            yield from _parts(sub)
        yield "the op of the merge", config.src.op
    else:
        yield f"the source {config.src!r}", config.src.source
    yield from _parts_of(config.pipes)


def _parts_of(stages: Any) -> Iterator[tuple[str, Any]]:
    for stage in stages:
        if isinstance(stage, PipeConfig):
            yield f"the op of stage {stage!r}", stage._op
            # The connections of a pool that was moved travel with a new process only.
            if not getattr(stage._executor, "is_process_pool", False):
                yield f"the executor of stage {stage!r}", stage._executor
        elif isinstance(stage, AggregateConfig):
            yield f"the aggregator of stage {stage.name}", stage.op
        elif isinstance(stage, PathVariantsConfig):
            yield f"the router of stage {stage.name}", stage.router
            for path in stage.paths:
                yield from _parts_of(path)
