"""``Pipeline.resize``: finds the region, and changes the number of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._errors import PipelineStateError
from spdl._numbers import as_int

from ._engine._core import EngineState
from ._engine._region._stage import RegionStage
from ._info import StageInfo

if TYPE_CHECKING:
    from ._engine._engine import Engine


def resize(engine: Engine, num_workers: int, stage: StageInfo | str | None, *, was_stopped: bool) -> None:
    """See ``Pipeline.resize``. ``was_stopped``: by the user."""
    num_workers = as_int("num_workers", num_workers, 1)
    region = _region(engine, stage)
    if not region.size.may_change:
        raise PipelineStateError(
            f"cannot change the number of workers of stage {region.info}: this process does not own them"
        )
    with engine.lock:
        if engine.state is EngineState.NEW:
            region.size.begin(num_workers)
        elif engine.state is EngineState.RUNNING:
            region.resize(num_workers)
        elif was_stopped or engine.was_end_read:
            raise PipelineStateError(
                f"cannot change the number of workers of stage {region.info}: pipeline {engine.pipeline_id} has "
                f"{'ended' if engine.was_end_read else 'been stopped'}"
            )
        # Otherwise it has ended or failed, and the reader does not know yet.


def _region(engine: Engine, stage: StageInfo | str | None) -> RegionStage:
    if stage is not None and not isinstance(stage, StageInfo | str):
        raise TypeError(f"stage must be a StageInfo, the name of a stage, or None, got {stage!r}")
    regions = [node for node in engine.nodes if isinstance(node, RegionStage)]
    names = ", ".join(repr(node.info.stage_name) for node in regions)
    has = f"its regions are {names}" if regions else "PipelineBuilder.to makes one"
    found = [node for node in regions if stage in (None, node.info, node.info.stage_name)]
    if not found:
        asked = "" if stage is None else f" {str(stage)!r}"
        raise ValueError(f"pipeline {engine.pipeline_id} has no region{asked}; {has}")
    if len(found) > 1:
        raise ValueError(
            f"pipeline {engine.pipeline_id} has {len(found)} such regions; pass stage=, a StageInfo of stats(). "
            f"{has.capitalize()}"
        )
    return found[0]
