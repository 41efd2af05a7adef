"""Checks that a pipeline can give its ops random numbers that depend only on the place of an item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdl._reports import name_of

from .defs import (
    AggregateConfig,
    DisaggregateConfig,
    MergeConfig,
    PathVariantsConfig,
    PipeConfig,
    PipelineConfig,
    Region,
    split_regions,
)


def check_seeded(config: PipelineConfig[Any]) -> None:
    """Check that the random numbers of every stage with ``rng`` are well defined.

    Raises:
        ValueError: They are not. The message names the stage and says what to do.
    """
    config._fold(_check_pipeline)


def check_known(config: PipelineConfig[Any], attempt: str) -> None:
    """Check that the source positions of every output are known.

    Raises:
        ValueError: They are not. The message begins with ``attempt``.
    """
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
        if isinstance(stage, AggregateConfig | DisaggregateConfig):
            return stage.name
        if isinstance(stage, PipeConfig) and stage._kind in ("generator", "async_generator"):
            return stage.name
        if isinstance(stage, PathVariantsConfig):
            for path in stage.paths:
                if (found := first_mixing(path)) is not None:
                    return found
    return None
