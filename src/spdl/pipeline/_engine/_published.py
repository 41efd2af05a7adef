"""Tells the sampler of threads which stage each thread of an engine works for, from the first request on.

The workers of the pool keep their call and its stage in two slots of the thread object, at places of memory that do not
change. The sampler reads them from there, so a call costs nothing more. For threads of an executor, the lane's method
that runs a call is swapped for one that also publishes the stage.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ._core import Node, swap_methods
from ._lanes._executor import ExecutorLane
from ._lanes._loop import LoopLane
from ._lanes._pool import PoolLane
from ._lanes._source import SourceLane
from ._thread import EngineThread, Task

if TYPE_CHECKING:
    from spdl.pipeline._records import ThreadBoard

    from ._engine import Engine
    from ._ticket import Ticket


class Costs(NamedTuple):
    """CPU seconds of the calls of a stage that ran alone, and of those that ran beside others, with their numbers."""

    num_alone: int = 0
    cpu_alone: float = 0.0
    num_beside: int = 0
    cpu_beside: float = 0.0

    def since(self, before: Costs) -> Costs:
        return Costs(
            self.num_alone - before.num_alone,
            self.cpu_alone - before.cpu_alone,
            self.num_beside - before.num_beside,
            self.cpu_beside - before.cpu_beside,
        )


class Published:
    """Publishes the threads of a started engine on a board, with the calls that are running.

    Threads of an executor that are already in a call are *adopted*: their samples count while they are in that call.
    """

    def __init__(self, engine: Engine, board: ThreadBoard) -> None:
        self._board = board
        self._lanes: list[PoolLane | ExecutorLane] = []
        self._adopted: list[tuple[Callable[[], bool], int]] = []  # whether the call still runs, and the thread's id
        self._executors: list[tuple[ExecutorLane, int]] = []
        self._lock = engine.lock
        places = _places()
        with engine.lock:
            self._nodes = nodes = sorted(engine.nodes, key=lambda node: int(node.info.stage_id))
            self._costs = [_costs_of(node) for node in nodes]
            by_id = {node.info.stage_id: number for number, node in enumerate(nodes)}
            for number, node in enumerate(nodes):
                board.name(node, number)
            for lane in engine.lanes:
                if isinstance(lane, PoolLane):
                    for stage in lane.stages:  # jobs of the event loop too
                        board.name(stage, by_id[stage.info.stage_id])
                    self._watch_pool(lane, places)
                elif isinstance(lane, ExecutorLane) and not lane.is_remote:
                    self._publish_executor(lane, by_id[lane.stage.info.stage_id] if lane.stage is not None else 0)
                elif isinstance(lane, SourceLane):
                    self._assign(lane.thread, by_id[lane.node.info.stage_id])
                elif isinstance(lane, LoopLane):
                    self._assign(lane.thread, len(nodes))

    def costs(self) -> list[Costs]:
        """Return the costs of the calls since the construction, for each stage."""
        return [_costs_of(node).since(before) for node, before in zip(self._nodes, self._costs, strict=True)]

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
            if isinstance(lane, PoolLane):
                lane.on_thread = None
            else:
                lane.__class__ = ExecutorLane
        self._lanes = []
        self._adopted = []
        self._executors = []

    def _assign(self, thread: threading.Thread | None, number: int) -> None:
        if thread is not None and thread.native_id is not None:
            self._board.assign(thread.native_id, number)

    def _watch_pool(self, lane: PoolLane, places: tuple[int, int]) -> None:
        if not all(places):
            return
        board = self._board

        def watch(thread: EngineThread) -> None:
            if thread.native_id is not None:
                board.watch(thread.native_id, thread, *places)

        lane.on_thread = watch
        self._lanes.append(lane)
        for thread in lane.threads:
            watch(thread)

    def _publish_executor(self, lane: ExecutorLane, number: int) -> None:
        lane.published = self._board, number
        swap_methods(lane, ("run_noted", _published_run))
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


def _published_run(run_noted: Callable[..., Any]) -> Callable[..., Any]:
    def published(self: ExecutorLane, ticket: Ticket, function: Callable[[Any], Any], argument: Any) -> Any:
        board, number = self.published
        board.enter(number)
        try:
            return run_noted(self, ticket, function, argument)
        finally:
            board.leave()

    return published


def _costs_of(node: Node) -> Costs:
    counters = node.counters
    return Costs(counters.num_alone, counters.cpu_alone, counters.num_beside, counters.cpu_beside)


@cache
def _places() -> tuple[int, int]:
    """Return at which offsets thread objects keep their call and its stage; 0: unknown. Found by experiment."""
    from spdl._processes._memory import offset_of

    probe: Any = EngineThread("spdl-probe", Task(None, lambda thread: None))
    probe.ticket, probe.stage = object(), object()
    size = EngineThread.__basicsize__
    return offset_of(probe, probe.ticket, size), offset_of(probe, probe.stage, size)


def _is_unsettled(lane: ExecutorLane, ticket: Ticket) -> bool:
    return ticket in lane.unsettled
