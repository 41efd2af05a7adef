"""``Node``: the base class of stages. All methods run under the engine's lock unless they say otherwise."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._counters import Counters

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline._records import Place

    from ._channel import Channel, ChannelEnd
    from ._core import Core
    from ._failures import FailureRecord
    from ._lane import AsyncLane


class Turns:
    """Whether a node is advancing, and the queue of nodes to advance next: see ``Core.advance``."""

    __slots__ = ("is_taken", "waiting")

    def __init__(self) -> None:
        self.is_taken = False  # stays True if the engine breaks while the node advances
        self.waiting: deque[Node] = deque()


class Node:
    """Base class of sources, stages and sinks, which are connected by channels.

    A node is notified of input (``on_input``: an item, a mark, or the close of an inbox) and of room (``on_room``).
    It moves entries only in ``advance``, and ``Core.advance`` ensures that no node's ``advance`` runs inside
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
        "hook_lane",
        "inboxes",
        "info",
        "num_hooks",
        "outs",
    )

    #: Where its calls run.
    runs_on: Place = "engine"
    #: The stages inside this one, if any: all stages of all paths, with their routers and merges.
    members: Sequence[Node] = ()

    def __init__(self, engine: Core, info: StageInfo) -> None:
        self.engine = engine
        self.info = info
        self.inboxes: list[Channel] = []
        self.outs: list[Channel] = []
        self.counters = Counters()
        self.failures: deque[FailureRecord] = deque(maxlen=16)
        self.block: Node | None = None  # the node with this one among its ``members``: a router
        self.num_hooks = 0  # stage hooks to exit before the output closes
        self.hook_lane: AsyncLane | None = None  # holds the stage hooks
        self.ended = False
        self.cancelled = False

    def connect(self, inboxes: list[Channel], outs: list[Channel]) -> None:
        """Called once by the graph, before anything runs."""
        self.inboxes, self.outs = inboxes, outs
        for channel in inboxes:
            channel.consumer = self
        for channel in outs:
            channel.producer = self

    def link(self) -> None:
        """Called once by the graph, when all nodes are connected."""

    # -- notifications from neighbours

    def on_input(self, now: float) -> None:
        raise NotImplementedError

    def on_room(self) -> None:
        """An entry was taken from an output channel."""

    def advance(self, now: float) -> None:
        """Move what can be moved: items, marks, the end. Called by ``Core.advance``."""
        raise NotImplementedError

    # -- queries of neighbours and observers

    def upstream(self) -> set[object]:
        """Return all nodes before this one."""
        found: set[object] = set()
        todo: list[ChannelEnd] = [self]
        while todo:
            for channel in todo.pop().inboxes:
                if channel.producer not in found:
                    found.add(channel.producer)
                    todo.append(channel.producer)
        return found

    def downstream(self) -> set[object]:
        """Return this node and all nodes after it."""
        found: set[object] = {self}
        todo: list[ChannelEnd] = [self]
        while todo:
            for channel in todo.pop().outs:
                if channel.consumer not in found:
                    found.add(channel.consumer)
                    todo.append(channel.consumer)
        return found

    def num_free(self) -> int:
        """Number of calls that could start at once. A source may run ahead by this many items."""
        return 0

    @property
    def num_in_flight(self) -> int:
        return 0

    @property
    def num_workers(self) -> int:
        """Number of threads or processes of its own that run its calls; 0: it has none, or they are not known."""
        return 0

    @property
    def num_issued(self) -> int | None:
        """Number of items that a source has made; ``None``: the node is not a source."""
        return None

    @property
    def num_counted_calls(self) -> int:
        """Number of calls, as failure limits count them."""
        return 0

    def num_moves(self) -> int:
        """A number that changes whenever a call ends or an item moves."""
        counters = self.counters
        counts = counters.num_calls + counters.num_failures + counters.num_dropped + counters.num_emitted
        return counts + (self.num_issued or 0) + sum(channel.num_get + len(channel.items) for channel in self.outs)

    @property
    def num_dropped(self) -> int:
        """Number of items dropped on purpose: they have no output."""
        return self.counters.num_dropped

    def error_if_only_failed(self) -> Exception | None:
        """Return the error of a stage whose calls have all failed; ``None`` for other stages."""
        return None

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
            self.leave_hooks()

    def leave_hooks(self) -> None:
        """Exit the stage hooks, which then closes the output."""
        assert self.hook_lane is not None
        self.hook_lane.leave_hooks(self)

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

    def break_off(self) -> None:
        """Part of the end of a broken engine: start no more calls, and wake all waiting threads and tasks."""

    def forget(self) -> None:
        """Drop references to user objects after all threads have ended; the node itself stays alive for statistics."""
