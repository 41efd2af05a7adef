"""Makes the threads of an engine publish which stage they work for, from the first request on.

The function that runs a call is replaced, on the lane object, by one that also publishes the stage. Until then, and in
pipelines that are not observed, there is nothing to check and no cost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ._lanes import ExecutorLane, LoopLane, PoolLane, SourceLane

if TYPE_CHECKING:
    from spdl.pipeline._observe._probe import ThreadBoard

    from ._engine import Engine
    from ._thread import EngineThread
    from ._ticket import CallSource, Ticket

__all__ = ["Published"]


class Published:
    """Publishes the threads of a started engine on a board: all calls that begin from now on.

    Threads that are already in a call are *adopted*: their samples count while they are in that call.
    """

    def __init__(self, engine: Engine, board: ThreadBoard) -> None:
        self._board = board
        self._lanes: list[Any] = []
        self._adopted: list[tuple[Callable[[], bool], int]] = []  # whether the call still runs, and the thread's id
        self._executors: list[tuple[ExecutorLane, int]] = []
        self._lock = engine.lock
        with engine.lock:
            nodes = sorted(engine.nodes, key=lambda node: int(node.info.stage_id))
            numbers: dict[object, int] = {node: number for number, node in enumerate(nodes)}
            by_id = {node.info.stage_id: number for number, node in enumerate(nodes)}
            for lane in engine.lanes:
                if isinstance(lane, PoolLane):
                    for stage in lane.stages:  # jobs of the event loop too
                        numbers[stage] = by_id[stage.info.stage_id]
                    self._publish_pool(lane, numbers)
                elif isinstance(lane, ExecutorLane) and not lane.is_remote:
                    self._publish_executor(lane, numbers)
                elif isinstance(lane, SourceLane):
                    self._assign(lane.thread, numbers[lane.node])
                elif isinstance(lane, LoopLane):
                    self._assign(lane.thread, len(nodes))

    def settle(self) -> None:
        """Forget the adopted threads whose calls have ended, and adopt those of calls that were submitted before."""
        remaining = []
        with self._lock:
            for is_running, native_id in self._adopted:
                if is_running():
                    remaining.append((is_running, native_id))
                else:
                    self._board.forget(native_id)
            self._adopted = remaining
            for lane, number in self._executors:
                self._adopt_executor(lane, number)

    def end(self) -> None:
        """Stop publishing, from the next call of each thread on."""
        for lane in self._lanes:
            vars(lane).pop("run", None)
            vars(lane).pop("run_noted", None)
        self._lanes = []
        self._adopted = []
        self._executors = []

    def _assign(self, thread: threading.Thread | None, number: int) -> None:
        if thread is not None and thread.native_id is not None:
            self._board.assign(thread.native_id, number)

    def _publish_pool(self, lane: PoolLane, numbers: dict[object, int]) -> None:
        enter, leave, run = self._board.enter, self._board.leave, lane.run

        def run_published(thread: EngineThread, ticket: Ticket) -> None:
            enter(numbers[ticket.stage])
            try:
                run(thread, ticket)
            finally:
                leave()

        lane.run = run_published  # type: ignore[method-assign]
        self._lanes.append(lane)
        for thread in lane.threads:
            ticket, native_id = thread.ticket, thread.native_id
            if ticket is not None and native_id is not None:
                self._adopted.append((partial(_runs, thread, ticket, ticket.stage), native_id))
                self._board.adopt(native_id, numbers[ticket.stage])

    def _publish_executor(self, lane: ExecutorLane, numbers: dict[object, int]) -> None:
        enter, leave, run = self._board.enter, self._board.leave, lane.run_noted
        number = numbers[lane.stage]

        def run_published(ticket: Ticket, function: Callable[[Any], Any], argument: Any) -> Any:
            enter(number)
            try:
                return run(ticket, function, argument)
            finally:
                leave()

        lane.run_noted = run_published
        self._lanes.append(lane)
        self._executors.append((lane, number))
        self._adopt_executor(lane, number)

    def _adopt_executor(self, lane: ExecutorLane, number: int) -> None:
        """Adopt the threads of calls that were submitted earlier and so do not publish their stage."""
        known = {native_id for _, native_id in self._adopted}
        tickets = [ticket for ticket in lane.unsettled if ticket.thread_id is not None]
        if not tickets:
            return
        native_ids = {thread.ident: thread.native_id for thread in threading.enumerate()}
        for ticket in tickets:
            native_id = native_ids.get(ticket.thread_id)
            if native_id is not None and native_id not in known:
                self._adopted.append((partial(_is_unsettled, lane, ticket), native_id))
                self._board.adopt(native_id, number)


def _runs(thread: EngineThread, ticket: Ticket, stage: CallSource) -> bool:
    """Return whether the call still runs in this stage: a ticket can move on to the next stage with its result."""
    return thread.ticket is ticket and ticket.stage is stage


def _is_unsettled(lane: ExecutorLane, ticket: Ticket) -> bool:
    return ticket in lane.unsettled
