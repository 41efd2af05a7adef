"""The fingerprint of a pipeline: what must be equal for a state to be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdl._reports import name_of
from spdl.pipeline.defs import (
    AggregateConfig,
    Collate,
    ExecutorConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    PlacementConfig,
    SourceConfig,
)

from ._sources import SourceFacts

__all__ = ["fingerprint_of"]


def fingerprint_of(config: PipelineConfig[Any], facts: Sequence[SourceFacts]) -> list[Any]:
    """Describe sources and stages, each by a list of plain values. ``facts`` has those of all sources, in order."""
    return _pipeline(config, list(facts))


def _pipeline(config: PipelineConfig[Any], facts: list[SourceFacts]) -> list[Any]:
    return [_src(config.src, facts), *_stages(config.pipes)]


def _src(src: SourceConfig[Any] | MergeConfig, facts: list[SourceFacts]) -> list[Any]:
    if isinstance(src, MergeConfig):
        subs = [_pipeline(sub, facts) for sub in src.pipeline_configs]
        return ["merge", None if src.op is None else name_of(src.op), *subs]
    own = facts.pop(0)
    found: list[Any] = ["source", type(src.source).__name__, own.length]
    if own.seed is not None:
        found.append(f"seed {own.seed}")
    if src.continuous:
        found.append("continuous")
    return found


def _stages(stages: Sequence[Any]) -> list[Any]:
    return [_stage(stage) for stage in stages]


def _stage(stage: Any) -> list[Any]:
    if isinstance(stage, PipeConfig):
        return ["pipe", stage.name, stage._kind] if stage._kind != "sync" else ["pipe", stage.name]
    if isinstance(stage, AggregateConfig):
        return ["aggregate", _aggregator(stage.op), stage.drop_last]
    if isinstance(stage, PathVariantsConfig):
        kind = "batched path_variants" if stage.batched else "path_variants"
        return [kind, stage.name, *map(_stages, stage.paths)]
    if isinstance(stage, PlacementConfig):
        return ["to", "workers" if isinstance(stage.target, ExecutorConfig) else "main"]
    return [stage.name]


def _aggregator(op: Any) -> Any:
    if type(op) is Collate:
        return op.num_items
    # Ours say their arguments. That of a user's may hold an address or items.
    return repr(op) if type(op).__module__.startswith("spdl.") else type(op).__qualname__
