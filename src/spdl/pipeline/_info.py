"""What all parts of a pipeline refer to: a stage in logs and errors, a pipeline's number, the marks between items."""

import threading
from dataclasses import dataclass
from enum import Enum
from typing import Final


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


class _PipelineIds:
    """Process-wide counter: the numbers distinguish pipelines in the log of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0  # guarded by the lock

    def take(self) -> int:
        """Return a number that no pipeline of this process has."""
        with self._lock:
            taken = self._next
            self._next += 1
        return taken

    def peek(self) -> int:
        """Return the number that the next pipeline will get."""
        with self._lock:
            return self._next

    def go_on_from(self, number: int) -> None:
        """Use no number below ``number`` from now on."""
        with self._lock:
            self._next = max(self._next, number)


PIPELINE_IDS = _PipelineIds()


class Mark(Enum):
    """A mark in a queue. Members stay singletons when pickled or copied."""

    EOF = "end of the stream"
    EPOCH_END = "end of an epoch"

    def __repr__(self) -> str:
        return f"<{self.name}: {self.value}>"


EOF: Final = Mark.EOF
EPOCH_END: Final = Mark.EPOCH_END


def is_eof(item: object) -> bool:
    """Return whether an object taken from a queue marks the end of the stream: no item follows."""
    return item is Mark.EOF


def is_epoch_end(item: object) -> bool:
    """Return whether an object taken from a queue marks the end of an epoch: another epoch may follow."""
    return item is Mark.EPOCH_END
