"""``StageInfo``: identifies a stage in logs, errors and statistics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageInfo:
    """Identity of one stage of one pipeline.

    Attributes:
        pipeline_id: Number of the pipeline, counted per process.
        stage_id: Number of the stage in its pipeline, as text.
        stage_name: ``src``, ``sink``, ``merge``, or the name given to the stage.
        concurrency: Maximum number of calls in flight; ``None`` if it is one.
    """

    pipeline_id: int
    stage_id: str
    stage_name: str
    concurrency: int | None = None

    def __str__(self) -> str:
        base = f"{self.pipeline_id}:{self.stage_id}:{self.stage_name}"
        return base if self.concurrency is None else f"{base}[{self.concurrency}]"
