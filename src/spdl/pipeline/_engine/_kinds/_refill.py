"""Builds the gate of a pipeline whose source refills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine._stages._gate import GateStage
from spdl.pipeline.defs import AggregateConfig, PathVariantsConfig, Region

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._graph_builder import GraphBuilder


class Gate:
    """Placeholder for the gate in the list of stages of a pipeline whose source refills."""


def with_gate(stages: Sequence[Any]) -> list[Any]:
    """Return the same stages with a gate in front of the first aggregate; without one, behind the last stage.

    Raises:
        ValueError: The first aggregate is inside another stage.
    """
    for number, stage in enumerate(stages):
        if isinstance(stage, AggregateConfig):
            return [*stages[:number], Gate(), *stages[number:]]
        if (name := _aggregate_in(stage)) is not None:
            raise ValueError(
                f"a source with refill=True cannot be refilled: {name!r} is inside a region or path variants, so "
                "the items that have reached it are not known outside. Put the first aggregate behind them"
            )
    return [*stages, Gate()]


def add_gate(graph: GraphBuilder, config: Gate, tail: Channel, out: Channel) -> None:
    """Add the gate of the only source."""
    info = graph.info("refill")
    assert graph.refill is not None
    graph.add(GateStage(graph.engine, info, graph.refill), [tail], [out], graph.wire(info, "stage", out.capacity))


def _aggregate_in(stage: Any) -> str | None:
    inside: list[Any] = []
    if isinstance(stage, Region):
        inside = list(stage.stages)
    elif isinstance(stage, PathVariantsConfig):
        inside = [each for path in stage.paths for each in path]
    for each in inside:
        name = each.name if isinstance(each, AggregateConfig) else _aggregate_in(each)
        if name is not None:
            return str(name)
    return None
