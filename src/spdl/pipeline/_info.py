"""``StageInfo``: how a stage of a pipeline is named in logs, errors and statistics. Imports nothing of ours."""

from dataclasses import dataclass

__all__ = ["StageInfo"]


@dataclass(frozen=True, slots=True)
class StageInfo:
    """Identity of one stage of one pipeline.

    Attributes:
        pipeline_id: Number of the pipeline; counts up per process.
        stage_id: Number of the stage in its pipeline, as text.
        stage_name: ``src``, ``sink``, ``merge``, or the name the stage was given.
        concurrency: Most calls in flight; ``None`` where that is one.
    """

    pipeline_id: int
    stage_id: str
    stage_name: str
    concurrency: int | None = None

    def __str__(self) -> str:
        base = f"{self.pipeline_id}:{self.stage_id}:{self.stage_name}"
        return base if self.concurrency is None else f"{base}[{self.concurrency}]"
