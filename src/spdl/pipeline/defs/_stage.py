"""Base classes of the descriptions of stages: what a description says of itself, so that nobody asks for its class."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, TypeAlias

__all__ = ["ChangeExecutor", "PathStage", "StageConfig"]


class StageConfig:
    """Base class of what can stand between the source and the sink of a description.

    A subclass is a frozen dataclass. The methods are for this package; the defaults are right for a stage without an
    op of the user.
    """

    name: str  #: name of the stage

    def _pickled_parts(self) -> Iterator[tuple[str, Any]]:
        """Yield what has to pickle if the description does, each with its name for messages."""
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
        """Whether the pipeline's ``max_failures`` applies to it, or to a stage inside."""
        return True

    @property
    def _is_seeded(self) -> bool:
        """Whether its op, or one inside, takes random numbers."""
        return False

    def _check_in_region(self, region: object) -> None:
        """Check that the stage can run in the workers of a region.

        Raises:
            ValueError: It cannot.
        """

    def _map_executors(self, change: "ChangeExecutor") -> "PathStage":
        return self


ChangeExecutor: TypeAlias = Callable[[PathStage, Executor], Executor | None]
