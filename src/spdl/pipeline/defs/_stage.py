"""Base classes of the descriptions of stages. Callers use their methods instead of checking for subclasses."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, TypeAlias


class StageConfig:
    """Base class of everything that can stand between the source and the sink of a description.

    A subclass is a frozen dataclass. The methods are for this package; the defaults fit a stage that has no op of the
    user.
    """

    name: str  #: name of the stage

    def _pickled_parts(self) -> Iterator[tuple[str, Any]]:
        """Yield each object that must pickle for the description to pickle, with its name for messages."""
        yield from ()

    def _map_executors(self, change: "ChangeExecutor") -> "StageConfig":
        """Return the same description with other executors.

        Args:
            change: Called with each stage that has an executor, and the executor. Returns the new one, or ``None``.
        """
        return self


class PathStage(StageConfig):
    """Base class of stages that can also stand in a path of path variants, and in a region."""

    @property
    def _is_limited_by_pipeline(self) -> bool:
        """Whether the pipeline's ``max_failures`` applies to the stage, or to a stage inside it."""
        return True

    @property
    def _is_seeded(self) -> bool:
        """Whether the op of the stage, or of a stage inside it, takes random numbers."""
        return False

    def _check_in_region(self, region: object) -> None:
        """Check that the stage can run in the workers of a region.

        Raises:
            ValueError: The stage cannot.
        """

    def _map_executors(self, change: "ChangeExecutor") -> "PathStage":
        return self


ChangeExecutor: TypeAlias = Callable[[PathStage, Executor], Executor | None]
