"""Jobs: calls that coroutines of the event loop hand to another lane and wait for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import spdl.pipeline._asyncio as asyncio
from spdl.pipeline._engine._stages._policies import next_or_end
from spdl.pipeline._engine._ticket import Ticket

if TYPE_CHECKING:
    from spdl._errors import StageTimeoutError
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._deadlines import Deadlines
    from spdl.pipeline._engine._lane import AsyncLane, CallLane
    from spdl.pipeline._engine._remote_calls import Collected
    from spdl.pipeline._info import StageInfo


class Job(Ticket):
    """One call of ``function(argument)``. Has no input of its own: ``value`` names the item in reports.

    ``fatal`` is the exception to raise in the coroutine that waits for ``handle``.
    """

    def __init__(
        self, queue: JobQueue, item: Any, function: Callable[[Any], Any], argument: Any, handle: asyncio.Future[None]
    ) -> None:
        self.stage = queue
        self.value = item
        self.origin = ()
        self.started = 0.0
        self.function = function
        self.argument = argument
        self.handle = handle

    def outcome(self) -> Any:
        """Return the result of a finished job, or raise its exception."""
        if self.fatal is not None:
            raise self.fatal
        return self.result


class JobQueue:
    """The jobs of one stage, run by the threads of ``lane``. A ``CallSource`` that never ends.

    With ``deadlines``, each call has a ``timeout``.
    """

    cheap_score = 0

    def __init__(
        self,
        engine: Core,
        info: StageInfo,
        lane: CallLane,
        loop: AsyncLane,
        timeout: float | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self.engine = engine
        self.info = info
        self.lane = lane
        self.loop = loop
        self.timeout = timeout
        self.deadlines = deadlines
        self.waiting: deque[Job] = deque()
        lane.add(self)

    # -- what the lane uses, under the lock

    def ready(self) -> bool:
        return bool(self.waiting)

    def take(self, now: float) -> Ticket:
        job = self.waiting.popleft()
        job.started = now
        return job

    def run(self, ticket: Ticket) -> None:
        """Not under the lock."""
        assert isinstance(ticket, Job)
        deadlines, timeout = self.deadlines, self.timeout
        if deadlines is not None and timeout is not None:
            deadlines.watch(ticket, timeout, threading.get_ident())
        try:
            ticket.result = ticket.function(ticket.argument)
        except BaseException as exc:  # noqa: BLE001 - passed to the awaiting call
            self.settle_error(ticket, exc)
        if deadlines is not None and not deadlines.unwatch(ticket):
            ticket.generator = ticket.argument if ticket.function is next_or_end else None

    def give_up(self, ticket: Ticket, error: StageTimeoutError) -> None:
        """Raise the error in the waiting coroutine; to hooks it is an error of the op."""
        with self.engine.lock:
            ticket.fatal = error
            self.loop.notify(ticket.handle)
            must_start = self.lane.lose_call(ticket)
        if must_start:
            self.lane.start_worker()

    def settle_error(self, ticket: Ticket, exc: BaseException) -> None:
        ticket.fatal = exc

    def settle_outputs(self, ticket: Ticket, outputs: Collected) -> None:
        ticket.result = outputs

    def settle_cancelled(self, ticket: Ticket) -> None:
        ticket.fatal = asyncio.CancelledError()

    def note_lost(self, number: int) -> None:
        with self.engine.lock:
            for node in self.engine.nodes:
                if node.info is self.info:
                    node.counters.num_lost += number

    def finish(self, ticket: Ticket, now: float) -> None:
        self.loop.notify(ticket.handle)

    def hand_on(self, ticket: Ticket, now: float, min_score: int) -> bool:
        return False

    # -- on the loop

    async def call(self, function: Callable[[Any], Any], argument: Any, item: Any) -> Any:
        """Run ``function(argument)`` on a thread of the lane; ``item`` is named in reports about stuck ops."""
        job = self.submit(function, argument, item)
        await job.handle
        return job.outcome()

    def submit(self, function: Callable[[Any], Any], argument: Any, item: Any) -> Job:
        """Queue a job for the lane."""
        job = Job(self, item, function, argument, asyncio.get_running_loop().create_future())
        with self.engine.lock:
            if self.lane.stopping:
                raise asyncio.CancelledError  # the workers have ended
            self.waiting.append(job)
            self.lane.offer(self)
        return job
