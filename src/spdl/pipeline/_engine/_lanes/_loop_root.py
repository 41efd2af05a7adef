"""The body of the loop's thread. It keeps nothing alive while the thread is idle."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import spdl.pipeline._asyncio as asyncio

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._thread import EngineThread


class RootedLane(Protocol):
    """The interface of a lane that the root uses. Called on the loop's thread, not under the lock."""

    engine: Core

    async def begin(self, root: Root) -> asyncio.Future[Any]:
        """Start the tasks of the loop. Returns a future that gets this lane when all of them may end."""

    async def finish(self, root: Root) -> None:
        """Signal the end and wait for the tasks of the loop."""

    def on_kick(self) -> None:
        """Process the requests of other threads."""

    def loop_ended(self) -> None:
        """Called when the loop takes no more requests."""


class Root:
    """The only object that the idle loop thread refers to, so that an unused engine can be collected.

    The waking thread passes it the lane. Running sources, merge ops, stage hooks and background tasks keep the lane
    alive, though.
    """

    def __init__(self, lane: RootedLane) -> None:
        self.lane: RootedLane | None = lane
        self.found = weakref.ref(lane)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.make_runner = asyncio.Runner  # looked up here, not on the thread, because this imports asyncio

    def run(self, thread: EngineThread) -> None:
        """Body of the thread."""
        try:
            with self.make_runner() as runner:
                runner.run(self._live())
        except BaseException as exc:  # noqa: BLE001 - it would be lost otherwise
            self.report(exc)
        finally:
            lane = self.found()
            if lane is not None:
                lane.loop_ended()

    def report(self, exc: BaseException) -> None:
        lane = self.found()
        if lane is not None:  # otherwise there is no reader
            with lane.engine.lock:
                lane.engine.broken(exc)

    async def _live(self) -> None:
        lane, self.lane = self.lane, None
        assert lane is not None
        over = await lane.begin(self)
        lane = None
        lane = await over
        await lane.finish(self)

    def on_wake_fd(self, wake_fd: int) -> None:
        if sys.platform == "linux":
            os.eventfd_read(wake_fd)
        lane, self.lane = self.lane, None
        if lane is not None:
            lane.on_kick()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            self.report(exc)
