"""Records what happens to each item while a trace runs, without any cost at other times.

A trace swaps methods of the nodes (``swap_methods``), and swaps them back when it ends. Both happen under the engine's
lock, which also guards everything that is called here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spdl._errors import PipelineStateError
from spdl._reports import name_of

from ._channel import MARK, Channel, Entry
from ._core import Node, Wrap, swap_methods
from ._engine import Engine, Sink, Wait
from ._origin import Origin, Part, SourcePosition, roots_of
from ._stages._call import CallStage
from ._stages._generator import AsyncGeneratorStage
from ._stages._source import SourceNode

if TYPE_CHECKING:
    from ._ticket import Ticket

#: Maximum number of records that wait to be written. If there are more, records are dropped and counted.
_MOST_NOTES: Final = 50_000
#: Steps of a source that are shorter than this, in seconds, are not recorded: they would be a third of most traces and
#: have no information.
_SHORT_STEP: Final = 10e-6

#: Something that began and ended, by ``perf_counter``: node, begin, end, item (``None``: the consumer waited),
#: and the class of the exception of the call. A plain tuple, because one is made per call.
Note: TypeAlias = "tuple[Node, float, float, Origin | None, str | None]"


class Tracer:
    """The records of an engine for one trace: items whose position is a multiple of ``every``, and all batches."""

    def __init__(self, engine: Engine, every: int = 1) -> None:
        self.engine = engine
        self.every = every
        self.notes: deque[Note] = deque()
        self.num_lost = 0
        self.source_times: dict[Node, float] = {}
        self.opened: tuple[Origin, float] | None = None  # the item that the consumer has, and since when
        self._classes: list[tuple[Any, type]] = []

    # -- not under the lock

    def begin(self) -> None:
        """Start recording. Raises ``PipelineStateError`` if the pipeline is already being traced."""
        engine = self.engine
        with engine.lock:
            if engine.tracer is not None:
                raise PipelineStateError(f"pipeline {engine.pipeline_id} is being traced already: one trace at a time")
            engine.tracer = self
            for node in engine.nodes:
                if isinstance(node, SourceNode):
                    self.source_times[node] = node.counters.other_time
                self._instrument(node)
            self._instrument(engine.sink.inbox)

    def end(self) -> None:
        """Stop recording."""
        with self.engine.lock:
            if self.engine.tracer is self:
                self.close_item(perf_counter())
                self.engine.tracer = None
                for changed, original in self._classes:
                    changed.__class__ = original
                self._classes.clear()

    def take(self) -> tuple[list[Note], int]:
        """Return the records since the last call, and how many were dropped."""
        with self.engine.lock:
            notes, self.notes = self.notes, deque()
            num_lost, self.num_lost = self.num_lost, 0
        return list(notes), num_lost

    def fills(self) -> list[tuple[Node, int]]:
        """Return the number of items that wait after each node, and before the sink."""
        with self.engine.lock:
            return [(node, sum(len(channel.items) for channel in node.outs)) for node in self.engine.nodes if node.outs]

    # -- under the lock

    def _instrument(self, what: Any) -> None:
        instruments = next((found for cls, found in _INSTRUMENTS if isinstance(what, cls)), None)
        if instruments is not None:
            self._classes.append((what, type(what)))
            swap_methods(what, *instruments)

    def add(self, node: Node, began: float, ended: float, origin: Origin | None, error: str | None = None) -> None:
        if self.every > 1 and not self._is_sampled(origin):
            return
        if len(self.notes) < _MOST_NOTES:
            self.notes.append((node, began, ended, origin, error))
        else:
            self.num_lost += 1

    def _is_sampled(self, origin: Origin | None) -> bool:
        while isinstance(origin, Part):
            origin = origin.branch.parent
        if isinstance(origin, SourcePosition):
            origin = origin.position
        return not isinstance(origin, int) or origin % self.every == 0

    def add_call(self, node: Node, ticket: Ticket, now: float) -> None:
        failure = ticket.fatal if ticket.error is None else ticket.error.error
        self.add(node, ticket.started, now, ticket.origin, None if failure is None else name_of(failure))

    def close_item(self, now: float) -> None:
        """Record that the consumer has finished with its current item."""
        if self.opened is not None:
            (origin, began), self.opened = self.opened, None
            self.add(self.engine.sink, began, now, origin)


# The instruments: each takes a method of a class and returns the one that is called while a trace runs.


def _traced_hand_on(hand_on: Callable[..., bool]) -> Callable[..., bool]:
    """The hot path: ``Tracer.add`` is inlined for most calls."""

    def traced(self: CallStage, ticket: Ticket, now: float, min_score: int) -> bool:
        began = ticket.started
        if self.next_call is None or not hand_on(self, ticket, now, min_score):
            return False  # and ``finish`` follows
        tracer = self.engine.tracer
        if tracer.every == 1 and len(tracer.notes) < _MOST_NOTES:
            tracer.notes.append((self, began, now, ticket.origin, None))
        else:
            tracer.add(self, began, now, ticket.origin)
        return True

    return traced


def _traced_finish(finish: Callable[..., None]) -> Callable[..., None]:
    """The hot path: ``Tracer.add_call`` is inlined for most calls."""

    def traced(self: CallStage, ticket: Ticket, now: float) -> None:
        tracer = self.engine.tracer
        if tracer.every == 1 and ticket.error is None and ticket.fatal is None and len(tracer.notes) < _MOST_NOTES:
            tracer.notes.append((self, ticket.started, now, ticket.origin, None))
        else:
            tracer.add_call(self, ticket, now)
        finish(self, ticket, now)

    return traced


def _traced_account(account: Callable[..., bool]) -> Callable[..., bool]:
    """For async generators: one call has many steps, and each is recorded."""

    def traced(self: AsyncGeneratorStage, ticket: Ticket, now: float) -> bool:
        self.engine.tracer.add_call(self, ticket, now)
        return account(self, ticket, now)

    return traced


def _traced_next_origin(next_origin: Callable[[SourceNode], Origin]) -> Callable[[SourceNode], Origin]:
    def traced(self: SourceNode) -> Origin:
        tracer, total = self.engine.tracer, self.counters.other_time
        times = tracer.source_times
        seconds = total - times[self]
        times[self] = total
        if seconds < _SHORT_STEP:  # most steps
            return next_origin(self)
        now = perf_counter()
        origin = next_origin(self)
        tracer.add(self, now - seconds, now, origin)
        return origin

    return traced


def _traced_next_origins(_: Callable[..., Any]) -> Callable[..., list[Origin]]:
    return lambda self, number: [self.next_origin() for _ in range(number)]


def _traced_begin_wait(begin_wait: Callable[..., None]) -> Callable[..., None]:
    def traced(self: Sink, wait: Wait) -> None:
        if not wait.has_begun:
            self.engine.tracer.close_item(wait.began)
        begin_wait(self, wait)

    return traced


def _traced_end_wait(end_wait: Callable[..., None]) -> Callable[..., None]:
    def traced(self: Sink, wait: Wait, now: float) -> None:
        if wait.has_begun:
            tracer = self.engine.tracer
            opened = tracer.opened  # since a moment ago, if the wait ended with an item
            ended = opened[1] if opened is not None and opened[1] > wait.began else now
            tracer.add(self, wait.began, ended, None)
        end_wait(self, wait, now)

    return traced


def _traced_take(take: Callable[..., Entry]) -> Callable[..., Entry]:
    """For the channel that the consumer reads."""

    def traced(self: Channel, now: float | None = None) -> Entry:
        entry = take(self, now)
        tracer = self.consumer.engine.tracer  # type: ignore[attr-defined] # its consumer is the sink
        now = perf_counter()
        tracer.close_item(now)
        if entry is not MARK:
            tracer.opened = entry[1], now
        return entry

    return traced


#: The instruments of a node; the first class that matches is used. Other nodes make no calls.
_INSTRUMENTS: Final[tuple[tuple[type, tuple[tuple[str, Wrap], ...]], ...]] = (
    (AsyncGeneratorStage, (("account", _traced_account),)),
    (CallStage, (("hand_on", _traced_hand_on), ("finish", _traced_finish))),
    (SourceNode, (("next_origin", _traced_next_origin), ("next_origins", _traced_next_origins))),
    (Sink, (("begin_wait", _traced_begin_wait), ("end_wait", _traced_end_wait))),
    (Channel, (("take", _traced_take),)),
)


# -- for the writer


def label_of(origin: Origin) -> str:
    """Return a short name of an item: ``17``, ``17.3`` for output 3 of a call, ``0 and 31 more`` for a batch.

    With several sources, the number of the source comes first: ``1:17``.
    """
    after: list[str] = []
    while True:
        if isinstance(origin, Part):
            after.append(f".{origin.index}")
            origin = origin.branch.parent
        elif isinstance(origin, SourcePosition):
            after.append(f"{origin.source}:{origin.position}")
            break
        elif isinstance(origin, tuple):
            if not origin:
                return "flush"
            if len(origin) > 1:
                after.append(f" and {len(origin) - 1} more")
            origin = origin[0]
        else:
            after.append(str(origin))
            break
    return "".join(reversed(after))


def root_of(origin: Origin) -> tuple[int, int] | None:
    """Return the source and the position that an item comes from; of a batch, those of its first item."""
    if type(origin) is int:
        return 0, origin
    roots = roots_of(origin)
    if not roots:
        return None
    first = roots[0]
    return first if isinstance(first, SourcePosition) else (0, first)
