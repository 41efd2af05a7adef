"""What the fast paths of the engine copy by hand, written with the methods that they bypass; and all that may differ.

``make_slow`` swaps the fast methods of a graph for these. Two graphs of one description that are driven alike then
have the same state, if each fast path does what it copies.
"""

from collections.abc import Callable, Iterator
from typing import Any

from spdl.pipeline._engine._channel import MARK, Channel
from spdl.pipeline._engine._core import Node, swap_methods
from spdl.pipeline._engine._engine import Engine
from spdl.pipeline._engine._origin import plain_origin
from spdl.pipeline._engine._stages._call import CallStage, OrderedCallStage
from spdl.pipeline._engine._stages._source import CollateStage, SourceNode
from spdl.pipeline._engine._ticket import Ticket

__all__ = ["differences_of", "make_slow"]


def _take(_: Callable[..., Ticket]) -> Callable[..., Ticket]:
    def take(self: CallStage, now: float) -> Ticket:
        self.running += 1  # first: taking makes room, and a stage that looks idle would pass a mark on
        value, origin = self.inbox.take(now)
        if not self.inbox.items and self.running < self.limit:
            self.counters.begin_starved(now)
        ticket = self.new_ticket(value, origin, now)
        if isinstance(self, OrderedCallStage):
            self.queue.append(ticket)
        return ticket

    return take


def _finish(_: Callable[..., None]) -> Callable[..., None]:
    def finish(self: CallStage, ticket: Ticket, now: float) -> None:
        self.running -= 1
        if self.cancelled:
            self.discard()
            return
        if self.account(ticket, now):
            self.emit(ticket.result, ticket.origin, now)
        self.after_call(now)

    return finish


def _never(_: Callable[..., bool]) -> Callable[..., bool]:
    return lambda self, ticket, now, min_score: False


def _advance(_: Callable[..., None]) -> Callable[..., None]:
    return lambda self, now: self.engine.advance(self, now)


def _emit(_: Callable[..., None]) -> Callable[..., None]:
    return lambda self, value, now: self.out.put((value, self.next_origin()), now)


def _next_origins(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, number: [self.next_origin() for _ in range(number)]


def make_slow(engine: Engine) -> None:
    """Let the nodes of a graph do everything the long way."""
    for node in engine.nodes:
        if type(node) is CallStage:
            swap_methods(node, ("take", _take), ("finish", _finish), ("hand_on", _never))
        elif type(node) is OrderedCallStage:
            swap_methods(node, ("take", _take))
        elif type(node) is CollateStage:
            swap_methods(node, ("on_input", _advance))
        elif type(node) is SourceNode:
            swap_methods(node, ("emit", _emit), ("next_origins", _next_origins))


#: Parts of counters that say how the time without input is divided into waits. A stage with another free slot lacks
#: input before and after it takes an item: on the long way one wait ends and another begins, on the short one it lasts.
_WAITS = {"starved", "starved_since", "starved_seen", "num_starved", "recent_starved"}


def _counters(node: Node, now: float) -> dict[str, Any]:
    counters = node.counters
    found = {name: getattr(counters, name) for name in type(counters).__slots__}
    found["recent"] = list(counters.recent)
    found["recent_blocked"] = list(counters.recent_blocked)
    found["recent_starved"] = list(counters.recent_starved)
    if isinstance(node, CallStage) and node.info.concurrency is not None:
        found = {name: value for name, value in found.items() if name not in _WAITS}
        since = counters.starved_since
        found["starved"] = counters.starved + (0.0 if since is None else now - since)
    return found


def _channel(channel: Channel, now: float) -> dict[str, Any]:
    items = [entry if entry is MARK else (entry[0], plain_origin(entry[1])) for entry in channel.items]
    occupied = channel.occupied + (now - channel.occupied_since if channel.items else 0.0)
    return {
        "items": items,
        "num_marks": channel.num_marks,
        "num_get": channel.num_get,
        "closed": channel.closed,
        "occupied": occupied,
    }


def _node(node: Node, now: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "counters": _counters(node, now),
        "outs": [_channel(channel, now) for channel in node.outs],
        "ends": (node.ended, node.cancelled),
        "failures": [(record.origin, record.seconds, record.outcome) for record in node.failures],
        "in_flight": node.num_in_flight,
        "free": node.num_free(),
    }
    if isinstance(node, CallStage):
        found["running"] = (node.running, node.cheap_score, node.cpu_countdown, node.seen)
    if isinstance(node, CollateStage):
        found["collected"] = (node.values, [plain_origin(origin) for origin in node.origins])
    return found


def state_of(engine: Engine, now: float) -> dict[str, Any]:
    """Return all that can be seen of a graph: its counters, times, items, origins, failures and ends."""
    return {
        "nodes": [_node(node, now) for node in engine.nodes],
        "ledger": [
            (sorted(positions.pending), positions.next_index, positions.epoch) for positions in engine.ledger.sources
        ],
        "engine": (engine.state, engine.num_items, engine.num_failures, engine.num_live, engine.ended_at),
        "failures": [(stage, type(error)) for stage, error in engine.stage_failures],
    }


def differences_of(fast: Engine, slow: Engine, now: float) -> list[str]:
    """Return what can be seen of one graph and not of the other."""
    return list(_differences("", state_of(fast, now), state_of(slow, now)))


def _differences(where: str, fast: Any, slow: Any) -> Iterator[str]:
    if isinstance(fast, dict) and isinstance(slow, dict) and fast.keys() == slow.keys():
        for key, value in fast.items():
            yield from _differences(f"{where}.{key}", value, slow[key])
    elif isinstance(fast, list) and isinstance(slow, list) and len(fast) == len(slow):
        for number, pair in enumerate(zip(fast, slow, strict=True)):
            yield from _differences(f"{where}[{number}]", *pair)
    elif fast != slow:
        yield f"{where}: {fast!r} by the fast path, {slow!r} by the long way"
