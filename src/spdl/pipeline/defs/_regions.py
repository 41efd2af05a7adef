"""Placement marks and the stages between them, as one thing: what runs in the workers of one region."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ._aggregate import AggregateConfig, DisaggregateConfig
from ._pipe import PipeConfig
from ._pipeline import StageConfig
from ._placement import ExecutorConfig, MainProcess, PlacementConfig
from ._variants import PathStage, PathVariantsConfig

__all__ = ["Region", "split_regions", "without_executors"]


@dataclass(frozen=True)
class Region:
    """The stages between two marks."""

    mark: PlacementConfig  # the one that opens it
    stages: tuple[PathStage, ...]  # as they were described
    output_size: int  # most items in one transfer out of it

    @property
    def target(self) -> ExecutorConfig:
        assert isinstance(self.mark.target, ExecutorConfig)
        return self.mark.target

    @property
    def input_size(self) -> int:
        """Most items in one transfer into it."""
        return self.mark.buffer_size

    @property
    def name(self) -> str:
        """Name of the stage that the region is to the rest of the pipeline."""
        return f"subprocess_pipeline({'+'.join(stage.name for stage in self.stages)})"

    @property
    def is_limited_by_pipeline(self) -> bool:
        """Whether a stage inside is under the pipeline's ``max_failures``, and not exempt by one of its own."""
        return any(_is_limited_by_pipeline(stage) for stage in self.stages)


Part: TypeAlias = "PathStage | Region"


def split_regions(pipes: Sequence[StageConfig]) -> list[Part]:
    """The stages that run where the pipeline was built, and the regions, in order. Checked by ``check_regions``."""
    parts: list[Part] = []
    mark: PlacementConfig | None = None
    inside: list[PathStage] = []
    for stage in pipes:
        if isinstance(stage, PlacementConfig):
            if mark is not None:
                parts.append(Region(mark, tuple(inside), stage.buffer_size))
            mark, inside = (None if isinstance(stage.target, MainProcess) else stage), []
        elif mark is not None:
            inside.append(stage)
        else:
            parts.append(stage)
    if mark is not None:
        parts.append(Region(mark, tuple(inside), 1))
    return parts


def without_executors(stages: Iterable[PathStage]) -> tuple[PathStage, ...]:
    """The stages as a worker runs them: an executor inside a region is ignored, and could not be sent there."""
    return tuple(_without_executor(stage) for stage in stages)


def _without_executor(stage: PathStage) -> PathStage:
    if isinstance(stage, PipeConfig) and stage._executor is not None:
        return replace(stage, _executor=None)
    if isinstance(stage, PathVariantsConfig):
        return replace(stage, paths=tuple(without_executors(path) for path in stage.paths))
    assert isinstance(stage, PipeConfig | AggregateConfig | DisaggregateConfig)
    return stage


def _is_limited_by_pipeline(stage: PathStage) -> bool:
    if isinstance(stage, PathVariantsConfig):
        return any(_is_limited_by_pipeline(inner) for path in stage.paths for inner in path)
    return not isinstance(stage, PipeConfig) or stage._max_failures is None
