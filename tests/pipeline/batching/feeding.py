"""Run an aggregator by hand: what a stage would emit, call by call."""

from collections.abc import Iterable
from typing import Any

from spdl.pipeline.defs import Aggregator, Outputs

__all__ = ["feed", "outputs_of"]


def outputs_of(result: Any) -> list[Any]:
    """What a stage emits for what ``accumulate`` or ``flush`` has returned."""
    if result is None:
        return []
    return list(result.values) if isinstance(result, Outputs) else [result]


def feed(aggregator: Aggregator[Any, Any], items: Iterable[Any], *, flush: bool = True) -> list[Any]:
    """All outputs for ``items``, in order."""
    outputs = [output for item in items for output in outputs_of(aggregator.accumulate(item))]
    return outputs + (outputs_of(aggregator.flush()) if flush else [])
