"""``ProfileHook``: user code around the runs of a profile."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any


class ProfileHook(ABC):
    """Code that runs around a profile and around each of its runs, for example another profiler.

    .. code-block:: python

        import cProfile
        from contextlib import contextmanager

        class CProfileHook(ProfileHook):
            @contextmanager
            def stage_profile_hook(self, stage, concurrency):
                with cProfile.Profile() as profile:
                    yield
                profile.dump_stats(f"{stage}-{concurrency}.prof")

            @contextmanager
            def pipeline_profile_hook(self):
                yield
    """

    @abstractmethod
    def stage_profile_hook(self, stage: str, concurrency: int) -> AbstractContextManager[Any]:
        """Return a context manager around one run of one stage: five for a pipe, one for other stages.

        Args:
            stage: Name of the stage.
            concurrency: Maximum number of calls in flight in this run.
        """

    @abstractmethod
    def pipeline_profile_hook(self) -> AbstractContextManager[Any]:
        """Return a context manager around the whole profile."""
