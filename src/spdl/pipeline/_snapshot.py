"""Copies the engine's counters into ``PipelineStats``."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from ._engine._stages import SourceNode
from ._observe import ItemFailure, PipelineStats, StageStats

if TYPE_CHECKING:
    from ._engine import Engine
    from ._engine._node import Node

__all__ = ["take_stats"]


def take_stats(engine: Engine) -> PipelineStats:
    """Return a consistent snapshot: all counters are copied under one acquisition of the lock."""
    with engine.lock:
        now = engine.ended_at if engine.ended_at is not None else perf_counter()
        elapsed = max(0.0, now - engine.started) if engine.started else 0.0
        nodes = sorted(engine.nodes, key=lambda node: int(node.info.stage_id))
        return PipelineStats(
            elapsed=elapsed,
            state=engine.state.value,
            num_threads=engine.num_threads,
            num_items=engine.num_items,
            consumer_wait=engine.consumer_wait,
            stages=tuple(_stage(node, elapsed, now, engine) for node in nodes),
        )


def _stage(node: Node, elapsed: float, now: float, engine: Engine) -> StageStats:
    counters = node.counters
    channels = node.outs or node.inboxes
    is_sink = node is engine.sink
    is_source = isinstance(node, SourceNode)
    cpu_share = counters.cpu_share
    num_calls, num_emitted = counters.num_calls, counters.num_emitted
    if is_sink:
        num_calls = num_emitted = engine.num_items
    elif isinstance(node, SourceNode):
        num_calls = num_emitted = node.positions.num_issued
    return StageStats(
        info=node.info,
        elapsed=elapsed,
        num_calls=num_calls,
        num_failures=counters.num_failures,
        num_success=num_calls - counters.num_failures,
        num_dropped=counters.num_dropped,
        num_in_flight=node.num_in_flight,
        num_emitted=num_emitted,
        busy=counters.busy,
        starved=counters.starved_until(now),
        blocked=counters.blocked_until(now),
        wall_time=counters.busy if is_source else counters.success_time,
        cpu_time=0.0 if cpu_share is None else counters.success_time * cpu_share,
        num_cpu_samples=0 if cpu_share is None else num_calls - counters.num_failures,
        queue_len=sum(min(len(channel.items), channel.capacity) for channel in channels),
        queue_capacity=sum(channel.capacity for channel in channels),
        occupied=max(channel.occupied_until(now) for channel in channels),
        failures=tuple(ItemFailure(*record) for record in node.failures),
    )
