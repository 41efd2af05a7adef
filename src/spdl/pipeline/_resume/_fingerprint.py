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


def fingerprint_of(config: PipelineConfig[Any], facts: Sequence[SourceFacts], seed: int) -> list[Any]:
    """Describe sources and stages, each by a list of plain values.

    Args:
        config: Description of the pipeline.
        facts: Facts of all sources, in order.
        seed: Seed of the random numbers of ops; part of the description of each stage with ``rng``.
    """
    return _pipeline(config, list(facts), seed)


def _pipeline(config: PipelineConfig[Any], facts: list[SourceFacts], seed: int) -> list[Any]:
    return [_src(config.src, facts, seed), *_stages(config.pipes, seed)]


def _src(src: SourceConfig[Any] | MergeConfig, facts: list[SourceFacts], seed: int) -> list[Any]:
    if isinstance(src, MergeConfig):
        subs = [_pipeline(sub, facts, seed) for sub in src.pipeline_configs]
        return ["merge", None if src.op is None else name_of(src.op), *subs]
    own = facts.pop(0)
    found: list[Any] = ["source", type(src.source).__name__, own.length]
    if own.seed is not None:
        found.append(f"seed {own.seed}")
    if src.continuous:
        found.append("continuous")
    if getattr(src.source, "refill", False) is True:
        found.append("refill")
    return found


def _stages(stages: Sequence[Any], seed: int) -> list[Any]:
    return [_stage(stage, seed) for stage in stages]


def _stage(stage: Any, seed: int) -> list[Any]:
    if isinstance(stage, PipeConfig):
        found = ["pipe", stage.name, stage._kind] if stage._kind != "sync" else ["pipe", stage.name]
        return found if stage._rng is None else [*found, f"rng {stage._rng}", f"seed {seed}"]
    if isinstance(stage, AggregateConfig):
        return ["aggregate", _aggregator(stage.op), stage.drop_last]
    if isinstance(stage, PathVariantsConfig):
        kind = "batched path_variants" if stage.batched else "path_variants"
        return [kind, stage.name, *(_stages(path, seed) for path in stage.paths)]
    if isinstance(stage, PlacementConfig):
        return ["to", "workers" if isinstance(stage.target, ExecutorConfig) else "main"]
    return [stage.name]


def _aggregator(op: Any) -> Any:
    if type(op) is Collate:
        return op.num_items
    # The repr of this package's aggregators shows their arguments. A user's repr may contain an address or items.
    return repr(op) if type(op).__module__.startswith("spdl.") else type(op).__qualname__
