"""Finds the part of a pipeline that cannot be pickled, for error messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spdl._processes._unpicklable import find_unpicklable
from spdl.pipeline.defs import MergeConfig, PipelineConfig


def find_unpicklable_part(config: PipelineConfig[Any], options: Mapping[str, Any]) -> str | None:
    """Return the name of the first part that does not pickle, and why; ``None`` if all parts pickle.

    Args:
        config: The pipeline.
        options: Other objects that must pickle, by name.
    """
    # Locks and queues of multiprocessing, which pickle only as arguments of a new process, raise RuntimeError.
    found = find_unpicklable([*_parts(config), *options.items()], ignored=(RuntimeError,))
    return None if found is None else ": ".join(found)


def _parts(config: PipelineConfig[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(config.src, MergeConfig):
        for sub in config.src.pipeline_configs:
            yield from _parts(sub)
        yield "the op of the merge", config.src.op
    else:
        yield f"the source {config.src!r}", config.src.source
    for stage in config.pipes:
        yield from stage._pickled_parts()
