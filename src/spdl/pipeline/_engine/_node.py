"""``Node``: the base class of stages. All methods run under the engine's lock unless they say otherwise."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from spdl.pipeline._engine._counters import Counters

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline._engine._failures import FailureRecord
    from spdl.pipeline._info import StageInfo

    from ._stages import RouterStage

__all__ = ["Node", "Turns"]


class Turns:
    """Whether a node is advancing, and the queue of nodes to advance next: see ``Engine.advance``."""

    __slots__ = ("is_taken", "waiting")

    def __init__(self) -> None:
        self.is_taken = False  # stays True if the engine breaks meanwhile
        self.waiting: deque[Node] = deque()


class Node:
    """Base class of sources, stages and sinks, which are connected by channels.

    A node is notified of input (``on_input``: an item, a mark, or the close of an inbox) and of room (``on_room``).
    It moves entries only in ``advance``, and ``Engine.advance`` ensures that no node's ``advance`` runs inside
    another's. A node ends once: by ``end`` when its input is exhausted, or by ``cancel`` when its results are no longer
    needed.
    """

    __slots__ = (
        "block",
        "cancelled",
        "counters",
        "ended",
        "engine",
        "failures",
        "inboxes",
        "info",
        "num_hooks",
        "outs",
    )

    def __init__(self, engine: Engine, info: StageInfo) -> None:
        self.engine = engine
        self.info = info
        self.inboxes: list[Channel] = []
        self.outs: list[Channel] = []
        self.counters = Counters()
        self.failures: deque[FailureRecord] = deque(maxlen=16)
        self.block: RouterStage | None = None  # the path variants that contain this stage
        self.num_hooks = 0  # stage hooks to exit before the output closes
        self.ended = False
        self.cancelled = False

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        """Called once by the graph, before anything runs."""
        self.inboxes, self.outs = inboxes, outs
        for channel in inboxes:
            channel.consumer = self
        for channel in outs:
            channel.producer = self

    # -- notifications from neighbours

    def on_input(self, now: float) -> None:
        raise NotImplementedError

    def on_room(self) -> None:
        """An entry was taken from an output channel."""

    def advance(self, now: float) -> None:
        """Move what can be moved: items, marks, the end. Called by ``Engine.advance``."""
        raise NotImplementedError

    # -- queries of neighbours and observers

    def num_free(self) -> int:
        """Number of inputs that could start at once. A source may run ahead by that many."""
        return 0

    @property
    def num_in_flight(self) -> int:
        return 0

    @property
    def num_counted_calls(self) -> int:
        """Number of calls, as failure limits count them."""
        return 0

    # -- the end

    def end(self, now: float) -> None:
        """End the node after all input is processed: exit the stage hooks, then close the output."""
        if self.ended:
            return
        self.ended = True
        self.counters.freeze(now)
        if not self.num_hooks:
            self.close_outputs(now)
        elif not self.has_running_calls():
            self.engine.leave_stage_hooks(self)

    def close_outputs(self, now: float) -> None:
        for channel in self.outs:
            channel.close(now)
        self.engine.node_ended(self)

    def cancel(self, now: float) -> None:
        """Take no more input, drop waiting items, discard the results of running calls. Idempotent."""
        self.cancelled = True
        for channel in self.inboxes:
            channel.discard()
        self.drop_work()
        self.end(now)

    def has_running_calls(self) -> bool:
        """Whether calls are running. Stage hooks exit after the last one, even if its result is discarded."""
        return False

    def drop_work(self) -> None:
        """Part of ``cancel``: clear the state of the subclass and ask the lane to cancel running calls."""

    def forget(self) -> None:
        """Drop references to user objects after all threads have ended; the node itself stays alive for statistics."""
