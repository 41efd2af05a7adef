"""``BackgroundTask``: something that runs on the event loop beside the stages of a pipeline."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["BackgroundTask", "BackgroundTaskFactory"]


class BackgroundTask(ABC):
    """Override :meth:`run`. Made anew for each pipeline, by a ``BackgroundTaskFactory``.

    .. code-block:: python

        class Heartbeat(BackgroundTask):
            async def run(self) -> None:
                while True:
                    await asyncio.sleep(60)
                    _LOG.info("still loading")

        pipeline = build_pipeline(config, background_tasks=[Heartbeat])
    """

    @abstractmethod
    async def run(self) -> None:
        """Do the work. Starts with the stages, on the event loop, and is cancelled when they are done.

        It may return early. An exception is logged and does not touch the pipeline.
        """


#: Makes a background task, without arguments; a class derived from :class:`BackgroundTask` is one.
BackgroundTaskFactory: TypeAlias = Callable[[], BackgroundTask]
