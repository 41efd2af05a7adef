"""Stages with a timeout: ``pipe(timeout=...)``.

An async call is cancelled. A call on a thread cannot be interrupted: it is abandoned (see ``_deadlines``). The
pool replaces its thread, which ends when the call returns.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

import spdl.pipeline._asyncio as asyncio
from spdl._errors import StageTimeoutError

from ._call import CallStage, OrderedCallStage
from ._generator import GeneratorStage
from ._outcomes import Settled, begin

if TYPE_CHECKING:
    from spdl.pipeline._engine._deadlines import Deadlines
    from spdl.pipeline._engine._ticket import Ticket
    from spdl.pipeline._info import StageInfo

_END: Final = object()


def give_up(ticket: Ticket, error: StageTimeoutError) -> None:
    """Fail the item of a call that timed out. Not under the lock; runs on the deadlines thread."""
    stage: Any = ticket.stage
    engine = stage.engine
    settled = Settled(None) if stage.cancelled else stage.settle_failure(ticket, error)
    must_start = False
    with engine.lock:
        try:
            # The thread that runs the call may still write to the ticket, so the fields are overwritten here.
            ticket.result, ticket.exhausted = None, True
            ticket.error, ticket.substitute, ticket.fatal = settled
            generator, ticket.generator = ticket.generator, None  # it is running, so no other thread may close it
            stage.finish(ticket, engine.clock())
            ticket.generator = generator
            must_start = stage.lane.lose_call(ticket)
        except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
            engine.broken(exc)
    if must_start:
        stage.lane.start_worker()
    engine.close_generators()


class TimedStage(CallStage):
    """Common parts of the three kinds of timed calls on threads."""

    timeout: float
    deadlines: Deadlines

    def set_timeout(self, seconds: float, deadlines: Deadlines) -> None:
        """Called once by the graph."""
        self.timeout, self.deadlines = seconds, deadlines

    def run(self, ticket: Ticket) -> None:
        deadlines = self.deadlines
        deadlines.watch(ticket, self.timeout, give_up, threading.get_ident())
        super().run(ticket)
        deadlines.unwatch(ticket)

    def count_success(self, wall: float, was_sampled: bool) -> None:
        super().count_success(wall, was_sampled)
        self.cheap_score = 0  # a source's thread must not run calls that may be abandoned


class TimedCallStage(TimedStage):
    """``CallStage`` with a timeout."""


class TimedOrderedCallStage(TimedStage, OrderedCallStage):
    """``OrderedCallStage`` with a timeout."""


class TimedGeneratorStage(TimedStage, GeneratorStage):
    """``GeneratorStage`` with a timeout for each step."""


def timed_async(op: Callable[[Any], Any], kind: str, seconds: float, info: StageInfo) -> Callable[[Any], Any]:
    """Wrap an async op or async generator function: each call or step is cancelled after ``seconds``."""

    async def call(item: Any) -> Any:
        return await in_time(begin(op, item), seconds, info)

    async def generate(item: Any) -> AsyncIterator[Any]:
        generator = begin(op, item)
        try:
            while (value := await in_time(anext(generator, _END), seconds, info)) is not _END:
                yield value
        finally:
            await generator.aclose()

    return generate if kind == "async_generator" else call


async def in_time(awaitable: Any, seconds: float, info: StageInfo) -> Any:
    """Await ``awaitable``, and cancel it after the timeout."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await awaitable
    except TimeoutError as exc:
        if not limit.expired():
            raise
        raise StageTimeoutError(
            f"a call of stage {info} has not returned within {seconds:g} s and was cancelled",
            stage=str(info),
            seconds=seconds,
        ) from exc
