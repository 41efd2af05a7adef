"""``BackgroundTask``: a coroutine that runs on the event loop beside the stages of a pipeline."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias


class BackgroundTask(ABC):
    """A task that runs beside a pipeline. Override :meth:`run`. A ``BackgroundTaskFactory`` makes one per pipeline.

    .. code-block:: python

        class Heartbeat(BackgroundTask):
            async def run(self) -> None:
                while True:
                    await asyncio.sleep(60)
                    print("still loading")

        pipeline = build_pipeline(builder.get_config(), background_tasks=[Heartbeat])
    """

    @abstractmethod
    async def run(self) -> None:
        """Run the task. It is started with the stages, on the event loop, and cancelled when they finish.

        It may return early. An exception is logged and does not affect the pipeline.
        """


#: A callable without arguments that returns a background task, such as a subclass of :class:`BackgroundTask`.
BackgroundTaskFactory: TypeAlias = Callable[[], BackgroundTask]
