"""Regions: the stages between two placement marks, which run in one set of workers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ._placement import ExecutorConfig, MainProcess, PlacementConfig
from ._stage import PathStage, StageConfig


@dataclass(frozen=True)
class Region:
    """The stages between two marks."""

    mark: PlacementConfig  # opens the region
    stages: tuple[PathStage, ...]  # as described by the user
    output_size: int  # maximum number of items in one transfer out of the region

    @property
    def target(self) -> ExecutorConfig:
        assert isinstance(self.mark.target, ExecutorConfig)
        return self.mark.target

    @property
    def input_size(self) -> int:
        """Maximum number of items in one transfer into the region."""
        return self.mark.buffer_size

    @property
    def name(self) -> str:
        """Name of the region as one stage of the pipeline."""
        return f"subprocess_pipeline({'+'.join(stage.name for stage in self.stages)})"

    @property
    def is_seeded(self) -> bool:
        """Whether an op inside takes random numbers."""
        return any(stage._is_seeded for stage in self.stages)

    @property
    def is_limited_by_pipeline(self) -> bool:
        """Whether the pipeline's ``max_failures`` applies to any stage inside, that is, one without its own limit."""
        return any(stage._is_limited_by_pipeline for stage in self.stages)


Part: TypeAlias = "StageConfig | Region"


def split_regions(pipes: Sequence[StageConfig]) -> list[Part]:
    """Return the stages of the main process and the regions, in order. Expects stages that passed ``check_regions``."""
    parts: list[Part] = []
    mark: PlacementConfig | None = None
    inside: list[PathStage] = []
    for stage in pipes:
        if isinstance(stage, PlacementConfig):
            if mark is not None:
                parts.append(Region(mark, tuple(inside), stage.buffer_size))
            mark, inside = (None if isinstance(stage.target, MainProcess) else stage), []
        elif mark is not None:
            assert isinstance(stage, PathStage)
            inside.append(stage)
        else:
            parts.append(stage)
    if mark is not None:
        parts.append(Region(mark, tuple(inside), 1))
    return parts


def without_executors(stages: Iterable[PathStage]) -> tuple[PathStage, ...]:
    """Return the stages as a worker runs them: without executors, which are ignored in regions and do not pickle."""
    return tuple(stage._map_executors(lambda _stage, _executor: None) for stage in stages)
