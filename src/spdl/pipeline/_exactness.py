"""What a description allows: an exact resume, random numbers that depend only on the place of an item, and origins.

Each check finds what prevents it, and says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from spdl._reports import name_of

from .defs import (
    AggregateConfig,
    Aggregator,
    DisaggregateConfig,
    ExecutorConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    PlacementConfig,
    Region,
    split_regions,
)


def check_exact(config: PipelineConfig[Any], resumable: object) -> list[str]:
    """Return why the pipeline cannot be resumed exactly. Raises ``ValueError`` with that if ``resumable`` is True."""
    obstacles: list[str] = []  # each names a stage and what to do
    if resumable:
        config._fold(partial(_look_at_pipeline, obstacles))
    if obstacles and resumable is True:
        raise ValueError(
            'this pipeline cannot be resumed exactly (resumable="best-effort" accepts it, and its states say what is '
            "approximate):\n" + "\n".join(f"- {each}" for each in obstacles)
        )
    return obstacles


def _look_at_pipeline(found: list[str], config: PipelineConfig[Any], merged: Sequence[bool]) -> bool:
    """Return whether an output of the pipeline may come from several positions."""
    if isinstance(config.src, MergeConfig):
        if config.src.op is not None:
            found.append(
                f"merge op {name_of(config.src.op)}: it may keep, combine or create items, so the positions that an "
                "output comes from are not known. Use Merge without op"
            )
    elif isinstance(config.src.source, (set, frozenset)):
        found.append("source: a set has no order that another process could repeat. Use sorted(...) of it")
    return _look_at_stages(config.pipes, any(merged), found)


def _look_at_stages(
    stages: Sequence[Any], is_mixed: bool, found: list[str], *, in_batch: bool = False, in_region: bool = False
) -> bool:
    """Return whether an output may come from several positions. ``is_mixed``: whether an input may."""
    for stage in stages:
        if isinstance(stage, PlacementConfig):
            in_region = isinstance(stage.target, ExecutorConfig)
        elif isinstance(stage, AggregateConfig):
            _look_at_aggregate(stage, found, in_batch=in_batch, in_region=in_region)
            is_mixed = True
        elif isinstance(stage, PathVariantsConfig):
            among_batches = in_batch or stage.batched
            mixed = [
                _look_at_stages(path, is_mixed, found, in_batch=among_batches, in_region=in_region)
                for path in stage.paths
            ]
            is_mixed = any((is_mixed, *mixed))
        elif in_batch or not _has_several_outputs(stage):
            continue  # a batch that is joined again is read as a whole
        elif in_region:
            found.append(
                f"stage {stage.name}: outputs of a generator in a region are numbered by arrival, so a resumed run "
                "cannot tell which of them were consumed. Put it before or behind the region"
            )
        elif is_mixed:
            found.append(
                f"stage {stage.name}: it has several outputs for an aggregate, and a resumed run makes other "
                "aggregates, of the items that are left. Put it before the aggregate, or let it return one output"
            )
    return is_mixed


def _has_several_outputs(stage: Any) -> bool:
    if isinstance(stage, PipeConfig):
        return stage._kind in ("generator", "async_generator")
    return isinstance(stage, DisaggregateConfig)


def _look_at_aggregate(stage: AggregateConfig[Any], found: list[str], *, in_batch: bool, in_region: bool) -> None:
    aggregator = type(stage.op)
    if not stage.op.is_exact:
        found.append(
            f"stage {stage.name}: an item that {aggregator.__qualname__} holds back would be lost. If it holds none "
            "back, declare is_exact = True in the class; if it does, return Outputs with inputs, and declare it too"
        )
    elif in_batch:
        found.append(
            f"stage {stage.name}: an aggregate in a path of batched path variants moves items from one batch to "
            "another. Put it before the path variants"
        )
    elif in_region and aggregator.accumulate_rest is not Aggregator.accumulate_rest:
        found.append(
            f"stage {stage.name}: a resumed run cannot tell a region which parts of an item were consumed. Put the "
            "aggregate behind the region"
        )


def check_seeded(config: PipelineConfig[Any]) -> None:
    """Raise ``ValueError`` unless the random numbers of every stage with ``rng`` are well defined."""
    config._fold(_check_pipeline)


def check_known(config: PipelineConfig[Any], attempt: str) -> None:
    """Raise ``ValueError``, with a message that begins with ``attempt``, unless all outputs have known positions."""
    for each in config._walk():
        if isinstance(each.src, MergeConfig) and each.src.op is not None:
            raise ValueError(
                f"{attempt} which positions the outputs of merge op {name_of(each.src.op)} come from: it may keep, "
                "combine or create items. Use Merge without op"
            )


class _Upstream:
    """What is known about the stages before a given stage."""

    def __init__(self, names: dict[str, str], blur: str | None) -> None:
        self.names = names  # of random numbers that an item may have been given: the stage that uses each
        self.blur = blur  # why the place of an item is not known; ``None``: it is known


def _check_pipeline(config: PipelineConfig[Any], merged: Sequence[_Upstream]) -> _Upstream:
    upstream = _joined(merged)
    if isinstance(config.src, MergeConfig) and config.src.op is not None:
        upstream.blur = (
            f"it comes behind merge op {name_of(config.src.op)}, which may keep, combine or create items, so the "
            "positions that an item comes from are not known. Use Merge without op, or put the stage before it"
        )
    return _check_stages(split_regions(config.pipes), upstream)


def _check_stages(stages: Sequence[Any], upstream: _Upstream) -> _Upstream:
    names, blur = dict(upstream.names), upstream.blur
    for stage in stages:
        if isinstance(stage, Region):
            inside = _check_stages(stage.stages, _Upstream(names, blur))
            names = inside.names
            if blur is None and (mixing := first_mixing(stage.stages)) is not None:
                blur = (
                    f"it comes behind a region with stage {mixing!r}, which emits aggregates or several outputs, and "
                    f"their order is not known outside the region. Put this stage into the region, or {mixing!r} "
                    "behind the region"
                )
        elif isinstance(stage, PathVariantsConfig):
            after = _joined([_check_stages(path, _Upstream(names, blur)) for path in stage.paths])
            names, blur = after.names, after.blur
        elif isinstance(stage, PipeConfig) and stage._rng is not None:
            if blur is not None:
                raise ValueError(f"stage {stage.name!r} cannot have random numbers (rng={stage._rng!r}): {blur}")
            if stage._rng in names:
                raise ValueError(
                    f"stages {names[stage._rng]!r} and {stage.name!r} would both take their random numbers by the name "
                    f"{stage._rng!r}, and so get the same ones for an item. Give one of them another name, such as "
                    f"rng={stage._rng + '-2'!r}"
                )
            names[stage._rng] = stage.name
    return _Upstream(names, blur)


def _joined(branches: Sequence[_Upstream]) -> _Upstream:
    names: dict[str, str] = {}
    for each in branches:
        names |= each.names
    return _Upstream(names, next((each.blur for each in branches if each.blur is not None), None))


def first_mixing(stages: Sequence[Any]) -> str | None:
    """Return the name of the first stage of a region behind which the place of an item is not known outside."""
    for stage in stages:
        if isinstance(stage, AggregateConfig) or _has_several_outputs(stage):
            return str(stage.name)
        if isinstance(stage, PathVariantsConfig):
            for path in stage.paths:
                if (found := first_mixing(path)) is not None:
                    return found
    return None
