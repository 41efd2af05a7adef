"""What the nodes and lanes of a pipeline share: the lock, the ledger, the order of advancing, failures and ends.

``Core.lock`` guards all scheduling state of a pipeline. It is held for microseconds and never while user code runs.
Lanes (``claim``) and nodes (``finish``) decide what runs next; this file holds what concerns the whole graph.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from spdl._errors import InternalError
from spdl._reports import add_note, log, name_of

from ._counters import Counters
from ._origin import Ledger
from ._places import Places
from ._thread import new_lock

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo
    from spdl.pipeline._limits import Limit
    from spdl.pipeline._records import Place, Unit

    from ._channel import Channel, ChannelEnd
    from ._failures import Failure, FailureRecord, FailureReporter
    from ._lane import AsyncLane, Lane
    from ._ticket import Ticket

L = TypeVar("L", bound="Lane")
#: ``wrap(method)`` returns the method to call in place of the method of a class.
Wrap: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"


class EngineState(Enum):
    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"


class Core:
    """Base class of ``Engine``. Methods take the lock themselves unless their docstring says "under the lock"."""

    log = logging.getLogger("spdl.pipeline")
    clock = staticmethod(perf_counter)
    tracer: Any = None  # a ``Tracer`` while the pipeline is traced

    def __init__(self, pipeline_id: int, num_threads: int, num_sources: int, report_failure: FailureReporter) -> None:
        self.pipeline_id = pipeline_id
        self.num_threads = num_threads  # of the pool; lowered if the system cannot start more
        self.report_failure = report_failure  # reports to the log; not called under the lock
        self.failure_watchers: list[FailureReporter] = []  # of the user; not called under the lock
        self.lock = new_lock()
        self.ledger = Ledger(num_sources)
        self.places = Places()
        self.nodes: list[Node] = []  # upstream before downstream
        self.num_live = 0  # number of nodes that have not ended
        self.lanes: list[Lane] = []
        self._shared_lanes: dict[Callable[[Core], Lane], Lane] = {}
        #: Set when the pipeline ends or is stopped: interrupts the delays before retries.
        self.stopped = threading.Event()
        self.state = EngineState.NEW
        self.is_forked = False  # a copy in the child of a fork, without the threads
        self.is_abandoned = False  # the handle was collected, or the interpreter is exiting
        self.started = 0.0
        self.ended_at: float | None = None
        self.unit: Unit = "items"  # what the sink receives
        self.num_failures = 0  # number of failed items of all stages
        self.limit: Limit | None = None  # the pipeline's max_failures
        self.crossing_failure: FailureRecord | None = None  # it exceeded the limit; for a rate, the newest
        self.stage_failures: list[tuple[str, BaseException]] = []
        #: Generators to close and futures to cancel: runs user code, so a thread does it when it has released the lock.
        self.to_close: deque[Callable[[], Any]] = deque()
        self.given_up: set[object] = set()  # threads and futures abandoned by a join; used by joins only
        self.turns = Turns()
        self._is_broken = False
        #: Whether a stage fails if all its calls have failed. False in a worker: calls in other workers may succeed.
        self.judges_stages = True
        self.is_resumed = False

    # -- lanes, before the start

    def shared_lane(self, make: Callable[[Core], L]) -> L:
        """Return a lane that exists once per pipeline, such as the pool. The first call makes it: ``make(engine)``."""
        lane: Any = self._shared_lanes.get(make)
        if lane is None:
            lane = self._shared_lanes[make] = self.add_lane(make(self))
        return lane  # type: ignore[no-any-return]

    def add_lane(self, lane: L) -> L:
        """Add a lane: it is started, stopped and joined with the pipeline."""
        self.lanes.append(lane)
        return lane

    # -- advancing nodes, under the lock

    def advance(self, node: Node, now: float) -> None:
        """Call ``node.advance``, which moves items, marks and the end of the stream.

        Neighbours that can advance because of it are queued and advance afterwards, not recursively, so the length of
        the pipeline is not limited by the stack.
        """
        turns = self.turns
        if turns.is_taken:
            turns.waiting.append(node)
            return
        turns.is_taken = True
        node.advance(now)
        turns.is_taken = False
        if turns.waiting:
            self.advance_rest(now)

    def advance_rest(self, now: float) -> None:
        """Second part of ``advance``: the queued nodes."""
        turns = self.turns
        turns.is_taken = True
        while turns.waiting:
            turns.waiting.popleft().advance(now)
        turns.is_taken = False

    # -- failure and the end of nodes, under the lock

    def fail(self, node: Node, error: BaseException, now: float) -> None:
        """Fail a stage: close its output and cancel the stages before it; the stages after it drain."""
        if node.cancelled:
            return
        info = node.info
        add_note(error, f"Pipeline stage: {info.pipeline_id}:{info.stage_id}:{info.stage_name}")
        self.stage_failures.append((info.stage_name, error))
        was_ended = node.ended
        doomed = node.upstream()
        spared = node.downstream()
        block = node.block
        while block is not None:  # a failing path also fails its router and the other paths
            doomed |= {block, *block.members} | block.upstream()
            block = block.block
        if not was_ended:
            node.cancel(now)
        self._cancel_all(doomed - spared, now)

    def cancel_upstream(self, node: Node, now: float) -> None:
        self._cancel_all(node.upstream(), now)

    def _cancel_all(self, doomed: set[object], now: float) -> None:
        for node in reversed(self.nodes):
            if node in doomed and not node.ended:
                node.cancel(now)

    def node_ended(self, node: Node) -> None:
        self.num_live -= 1
        if self.num_live == 0:
            self.ended_at = perf_counter()
            if self.state is EngineState.RUNNING and not self.stage_failures:
                self._judge_paths()
            if self.state is not EngineState.STOPPING:
                self.state = EngineState.FAILED if self.stage_failures else EngineState.ENDED
            self._stop_lanes()

    def _judge_paths(self) -> None:
        """If the pipeline had no outputs, fail those stages of paths whose calls have all failed."""
        last = self.nodes[-1].inboxes[0]
        if last.num_get + len(last.items) > last.num_marks:
            return
        for node in self.nodes:
            if node.block is not None and (error := node.error_if_only_failed()) is not None:
                info = node.info
                add_note(error, f"Pipeline stage: {info.pipeline_id}:{info.stage_id}:{info.stage_name}")
                self.stage_failures.append((info.stage_name, error))

    def _stop_lanes(self) -> None:
        self.stopped.set()
        for lane in self.lanes:
            lane.stop()

    def broken(self, error: BaseException) -> None:
        """Handle a broken invariant of the engine: raise an error in the consumer instead of hanging."""
        if self._is_broken:
            return
        self._is_broken = True
        if not isinstance(error, InternalError):
            wrapped = InternalError(
                f"the engine of pipeline {self.pipeline_id} is broken by a {name_of(error)}; please report this"
            )
            wrapped.__cause__ = error
            error = wrapped
        self.stage_failures.append(("engine", error))
        self.state = EngineState.FAILED
        for node in self.nodes:
            node.cancelled = node.ended = True
            with suppress(Exception):  # its state may be broken
                node.break_off()
        self._stop_lanes()
        self.to_close.append(
            partial(log, self.log, logging.CRITICAL, "pipeline %d is broken", self.pipeline_id, exc_info=error)
        )

    def thread_died(self, error: BaseException) -> None:
        """Not under the lock: fail the engine when a thread dies, instead of hanging."""
        with self.lock:
            self.broken(error)
        self.close_generators()

    # -- counts, under the lock

    def num_counted_calls(self) -> int:
        return sum(node.num_counted_calls for node in self.nodes)

    def note_failure(self, record: FailureRecord) -> None:
        """Count a failed item of any stage."""
        self.num_failures += 1
        if self.places.failures is not None:
            self.places.note_failure(record, self.ledger)
        limit = self.limit
        if limit is None or (self.crossing_failure is not None and limit.is_count):
            return
        if not limit.is_count or limit.exceeded(self.num_failures, 0):
            self.crossing_failure = record

    # -- user code that must not run under the lock

    def tell_failure(self, failure: Failure) -> None:
        """Report a failed item to the log and to the failure watchers."""
        self.report_failure(failure)
        self.watch_failure(failure)

    def watch_failure(self, failure: Failure) -> None:
        """Report a failed item to the failure watchers only: its worker has already logged it."""
        for watch in self.failure_watchers:
            watch(failure)

    def close_later(self, generator: Any) -> None:
        """Under the lock: schedule closing a generator (or ``None``); a thread without the lock closes it."""
        if generator is not None:
            self.to_close.append(partial(_close, generator))

    def close_given_up(self, ticket: Ticket) -> None:
        """Close the generator of a call that was given up, when its step has returned: no other thread will."""
        with self.lock:
            generator, ticket.generator = ticket.generator, None
            self.close_later(generator)

    def close_generators(self) -> None:
        """Not under the lock: run what was scheduled."""
        while True:
            try:
                close = self.to_close.popleft()
            except IndexError:
                return
            try:
                close()
            except BaseException as exc:  # noqa: BLE001 - user code, and there is no caller to raise to
                text = "closing a generator of pipeline %d failed"
                log(self.log, logging.ERROR, text, self.pipeline_id, exc_info=exc)


def _close(generator: Any) -> None:
    close = getattr(generator, "close", None)
    if close is not None:
        close()


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
        "inbox",
        "inboxes",
        "info",
        "num_hooks",
        "out",
        "outs",
    )

    inbox: Channel  #: The first of ``inboxes``, and of most nodes the only one.
    out: Channel  #: The same of ``outs``.
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
            self.inbox = inboxes[0]
        for channel in outs:
            channel.producer = self
            self.out = outs[0]

    def link(self) -> None:
        """Called once by the graph, when all nodes are connected."""

    # -- notifications from neighbours

    def on_input(self, now: float) -> None:
        """An entry was put into an inbox, or the inbox was closed."""
        self.engine.advance(self, now)

    def on_room(self) -> None:
        """An entry was taken from an output channel."""
        self.engine.advance(self, self.engine.clock())

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


def swap_methods(of: object, *swaps: tuple[str, Wrap]) -> None:
    """Let one engine, node, lane or channel call ``wrap(method)`` in place of a method. The others have no cost.

    Its class is swapped for a subclass; to undo it, give the object its class back. Under the lock, once it runs.
    """
    of.__class__ = _class_with(type(of), swaps)  # type: ignore[arg-type] # a class is hashable


@lru_cache
def _class_with(cls: type, swaps: tuple[tuple[str, Wrap], ...]) -> type:
    methods = {name: wrap(getattr(cls, name)) for name, wrap in swaps}
    # Without slots of its own, so that objects can change to it and back.
    return type(cls.__name__, (cls,), {**methods, "__slots__": (), "__doc__": cls.__doc__, "__module__": __name__})
