"""``Node``: a stage as its neighbours see it. All methods run under the engine's lock unless they say otherwise."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from spdl.pipeline._engine._counters import Counters

if TYPE_CHECKING:
    from spdl.pipeline._engine._channel import Channel
    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline._engine._failures import FailureRecord
    from spdl.pipeline._info import StageInfo

    from ._variants import RouterStage

__all__ = ["Node", "Turns"]


class Turns:
    """Whether a node is advancing, and which nodes are to advance after it: see ``Engine.advance``."""

    __slots__ = ("is_taken", "waiting")

    def __init__(self) -> None:
        self.is_taken = False  # for good, if the engine breaks in the middle of it
        self.waiting: deque[Node] = deque()


class Node:
    """Base of everything between two channels.

    A node is told when there is input (``on_input``: an item, a mark, or the close of an inbox) and when there is room
    (``on_room``). What it can then move without a call it moves in ``advance``, and only there, because
    ``Engine.advance`` sees to it that no node's ``advance`` runs inside another's. It ends once: by ``end`` when its
    input is exhausted, or by ``cancel`` when nobody wants its results.
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
        self.block: RouterStage | None = None  # the path variants this stage is inside of
        self.num_hooks = 0  # user's stage hooks still to be left before the output closes
        self.ended = False
        self.cancelled = False

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        """Called once by the graph, before anything runs."""
        self.inboxes, self.outs = inboxes, outs
        for channel in inboxes:
            channel.consumer = self
        for channel in outs:
            channel.producer = self

    # -- told by the neighbours

    def on_input(self, now: float) -> None:
        raise NotImplementedError

    def on_room(self) -> None:
        """An entry was taken from an output channel."""

    def advance(self, now: float) -> None:
        """Move what can be moved: items, marks, the end. Called by ``Engine.advance``."""
        raise NotImplementedError

    # -- asked by the neighbours and by observers

    def num_free(self) -> int:
        """Inputs that could start at once; a source may run that far ahead, for they are as good as in flight."""
        return 0

    @property
    def num_in_flight(self) -> int:
        return 0

    @property
    def num_counted_calls(self) -> int:
        """Calls as failure limits count them."""
        return 0

    # -- the end

    def end(self, now: float) -> None:
        """All input is done with: let the user's stage hooks leave, then close the output."""
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
        """Take no more input, forget what waits, discard what running calls will return. Idempotent."""
        self.cancelled = True
        for channel in self.inboxes:
            channel.discard()
        self.drop_work()
        self.end(now)

    def has_running_calls(self) -> bool:
        """Stage hooks are left when the last call has returned, also if its result is not wanted any more."""
        return False

    def drop_work(self) -> None:
        """Part of ``cancel``: forget the kind's own state and ask the lane to cancel running calls."""

    def forget(self) -> None:
        """All threads are gone: let go of the user's objects, so that they do not live as long as the statistics."""
