"""Background tasks: they start with the stages, run on the loop, end with the stages, and cannot do harm."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spdl.pipeline import BackgroundTask, Pipeline, PipelineFailure, build_pipeline
from spdl.pipeline.config import set_default_background_tasks
from tests.support.running import TIMEOUT, await_event, build_of


@pytest.fixture(autouse=True)
def _no_defaults() -> Iterator[None]:
    yield
    set_default_background_tasks(None)


class Task(BackgroundTask):
    """Runs until cancelled, and tells."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.ended = threading.Event()
        self.how: type[BaseException] | None = None
        self.thread: threading.Thread | None = None

    async def run(self) -> None:
        self.thread = threading.current_thread()
        self.started.set()
        try:
            await asyncio.Event().wait()
        except BaseException as exc:
            self.how = type(exc)
            raise
        finally:
            await asyncio.sleep(0)
            self.ended.set()


def build(*factories: Callable[[], BackgroundTask], source: Any = None) -> Pipeline[Any]:
    config = build_of(range(3) if source is None else source, lambda b: b.pipe(int)).get_config()
    return build_pipeline(config, num_threads=1, background_tasks=factories or None)


def test_task_starts_with_the_stages_and_is_cancelled_when_they_are_done() -> None:
    """It runs while items flow; at the end it is cancelled, and its clean-up has run when the end is read."""
    task = Task()

    def source() -> Iterator[int]:
        await_event(task.started)
        yield 1

    pipeline = build(lambda: task, source=source())
    assert not task.started.is_set()
    assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [1]
    assert task.how is asyncio.CancelledError
    assert task.ended.is_set()


def test_task_runs_on_the_loop() -> None:
    """Several tasks share one thread, which is not the consumer's."""
    tasks = [Task(), Task()]
    pipeline = build(lambda: tasks[0], lambda: tasks[1])
    pipeline.start()
    for task in tasks:
        await_event(task.started)
    pipeline.stop()
    assert tasks[0].thread is tasks[1].thread is not threading.current_thread()


def test_task_is_cancelled_by_stop() -> None:
    """stop returns after the task has ended."""
    task = Task()

    def source() -> Iterator[int]:
        while True:
            yield 1

    pipeline = build(lambda: task, source=source())
    pipeline.start()
    await_event(task.started)
    pipeline.stop()
    assert task.ended.is_set()


def test_task_is_cancelled_when_a_stage_fails() -> None:
    """A failed pipeline ends its tasks too."""
    task = Task()

    def source() -> Iterator[int]:
        await_event(task.started)
        yield 1 // 0

    pipeline = build(lambda: task, source=source())
    with pytest.raises(PipelineFailure):
        list(pipeline.get_iterator(timeout=TIMEOUT))
    assert task.ended.is_set()


def test_task_may_end_early() -> None:
    """One that returns while items flow changes nothing."""
    done = threading.Event()

    class Short(BackgroundTask):
        async def run(self) -> None:
            done.set()

    def source() -> Iterator[int]:
        await_event(done)
        yield 1

    assert list(build(Short, source=source())) == [1]


def test_failing_task_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its exception goes to the log with its name; items, other tasks and the end are not touched."""
    failed = threading.Event()
    task = Task()

    class Failing(BackgroundTask):
        async def run(self) -> None:
            failed.set()
            raise ValueError("of the task")

    def source() -> Iterator[int]:
        await_event(failed)
        await_event(task.started)
        yield 1

    with caplog.at_level(logging.ERROR):
        pipeline = build(Failing, lambda: task, source=source())
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [1]
    pipeline.stop()
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "Failing" in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "of the task"


def test_failing_factory_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A factory that cannot make its task does not break the pipeline."""

    def factory() -> BackgroundTask:
        raise ValueError("of the factory")

    with caplog.at_level(logging.ERROR):
        assert list(build(factory)) == [0, 1, 2]
    assert any("factory" in record.getMessage() for record in caplog.records)


def test_task_that_fails_while_it_is_cancelled_is_only_logged() -> None:
    """An error in the clean-up of a task does not make the pipeline fail or hang."""
    started = threading.Event()

    class Bad(BackgroundTask):
        async def run(self) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("of the clean-up")

    def source() -> Iterator[int]:
        await_event(started)
        yield 1

    pipeline = build(Bad, source=source())
    assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [1]
    pipeline.stop()
    assert pipeline.stats().state == "ended"


def test_each_build_makes_its_own_tasks() -> None:
    """The factory is called once per pipeline that runs."""
    made: list[Task] = []

    def factory() -> Task:
        made.append(Task())
        return made[-1]

    for _ in range(2):
        pipeline = build(factory)
        pipeline.start()
        list(pipeline)
    assert len(made) == 2


def test_tasks_of_the_build_are_added_to_the_defaults() -> None:
    """Both kinds run; the default ones are read when the pipeline is built."""
    default, own, late = Task(), Task(), Task()
    set_default_background_tasks([lambda: default])

    def source() -> Iterator[int]:
        await_event(default.started)
        await_event(own.started)
        yield 1

    pipeline = build(lambda: own, source=source())
    set_default_background_tasks([lambda: late])
    assert list(pipeline.get_iterator(timeout=TIMEOUT)) == [1]
    assert default.ended.is_set()
    assert own.ended.is_set()
    assert not late.started.is_set()


def test_pipeline_without_anything_on_the_loop_has_no_loop_thread() -> None:
    """Only background tasks, async parts and hooks start the event loop's thread."""
    before = set(threading.enumerate())
    pipeline = build()
    pipeline.start()
    names = [thread.name for thread in set(threading.enumerate()) - before]
    pipeline.stop()
    assert not any("loop" in name for name in names)


class Recording(BackgroundTask):
    """Ends early, which is allowed."""

    def __init__(self) -> None:
        self.ran = False

    async def run(self) -> None:
        self.ran = True


def test_a_class_is_a_factory_of_its_tasks() -> None:
    """A factory is called without arguments; run does the work."""
    factory: Callable[[], BackgroundTask] = Recording
    task = factory()
    asyncio.run(task.run())
    assert isinstance(task, Recording)
    assert task.ran


def test_a_task_without_run_cannot_be_made() -> None:
    """Forgetting to override run shows at once and not when the pipeline runs."""
    with pytest.raises(TypeError, match=r"abstract method '?run"):
        BackgroundTask()  # type: ignore[abstract]
