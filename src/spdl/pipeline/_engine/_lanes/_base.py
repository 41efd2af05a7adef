"""What a stage may ask of its lane, and the kind of thread that all lanes use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline._engine._stages._call import CallStage
    from spdl.pipeline._engine._ticket import Ticket

__all__ = ["EngineThread", "Lane", "Task"]


class Lane(Protocol):
    """The methods are called under the engine's lock and cannot block."""

    #: Somebody of this lane holds the lock and will claim before letting go, so nobody needs to be woken. Guarded by
    #: the lock.
    is_claiming: bool

    def offer(self, stage: CallStage) -> None:
        """``stage`` may have become ready: wake somebody who can take a ticket, if nobody is awake who will."""

    def cancel_calls(self, stage: CallStage) -> None:
        """Ask the running calls of ``stage`` to end, where that can be asked, and mark their tickets."""


class Task(NamedTuple):
    """What a thread is to do. ``body`` returns whether the thread is to sleep until it is given a task again."""

    engine: Engine | None  # hears of it if ``body`` raises; ``None``: it does not raise
    body: Callable[[EngineThread], bool | None]


class EngineThread(threading.Thread):
    """A thread of the engine: a daemon, so that an op stuck in a system call cannot keep the interpreter alive.

    A thread that sleeps refers to nothing of its engine: whoever wakes it hands it the task. So an engine that nobody
    uses any more can be collected, also if one of its ops belongs to the very object that holds the pipeline.

    ``ticket`` is the call it runs, for the report about stuck ops; written by the thread itself, read by ``stop``.
    """

    def __init__(self, name: str, task: Task) -> None:
        super().__init__(name=name, daemon=True)
        self.ticket: Ticket | None = None
        self.in_source = False  # inside the source's iterator
        self.task: Task | None = task
        self.wake_up = threading.Lock()
        self.wake_up.acquire()

    def wake(self, task: Task) -> None:
        """End a sleep. Once for each, and only when the thread has said, under the engine's lock, that it will."""
        self.task = task
        self.wake_up.release()

    def run(self) -> None:
        wake_up = self.wake_up
        try:
            while True:
                task, self.task = self.task, None
                assert task is not None
                try:
                    sleeps = task.body(self)
                except BaseException as exc:  # noqa: BLE001 - whatever it is, the consumer learns of it
                    _break(task.engine, exc)
                    return
                if not sleeps:
                    return
                task = None  # from here on it refers to nothing
                wake_up.acquire()
        finally:
            self.task = self.ticket = None  # a thread object may outlive the engine


def _break(engine: Engine | None, exc: BaseException) -> None:
    """A thread that is gone must not become a hang."""
    if engine is None:
        raise exc
    with engine.lock:
        engine.broken(exc)
    engine.close_generators()
