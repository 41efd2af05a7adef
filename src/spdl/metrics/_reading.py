"""Reads the current statistics of each pipeline of this process for the exporters."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from spdl.pipeline import PipelineStateError, PipelineStats
from spdl.pipeline._live import LIVE


def read_all() -> Iterator[tuple[int, PipelineStats]]:
    """Yield the number and the statistics of each pipeline that was started in this process and still exists."""
    for pipeline in LIVE.started():
        try:
            stats = pipeline.stats()
        except PipelineStateError:  # the process has been forked since
            continue
        yield stats.stages[-1].info.pipeline_id, stats


def import_extra(module: str, package: str, extra: str) -> ModuleType:
    """Import an optional package.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as exc:
        raise ImportError(
            f"spdl.metrics.{extra}() needs the package {package}, which cannot be imported ({exc}): "
            f'pip install "{package}", or install spdl-native with its extra "{extra}"',
            name=exc.name,
        ) from exc
