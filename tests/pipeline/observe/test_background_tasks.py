"""``BackgroundTask``: what has to be written to make one."""

import asyncio

import pytest

from spdl.pipeline._observe import BackgroundTask, BackgroundTaskFactory


class Recording(BackgroundTask):
    """Ends early, which is allowed."""

    def __init__(self) -> None:
        self.ran = False

    async def run(self) -> None:
        self.ran = True


def test_a_class_is_a_factory_of_its_tasks() -> None:
    """A factory is called without arguments; run does the work."""
    factory: BackgroundTaskFactory = Recording
    task = factory()
    asyncio.run(task.run())
    assert isinstance(task, Recording)
    assert task.ran


def test_a_task_without_run_cannot_be_made() -> None:
    """Forgetting to override run shows at once and not when the pipeline runs."""
    with pytest.raises(TypeError, match=r"abstract method '?run"):
        BackgroundTask()  # type: ignore[abstract]
