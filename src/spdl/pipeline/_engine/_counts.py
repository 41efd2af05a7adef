"""Copies the counters of the engine for observers."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from spdl.pipeline._records import (
    CallCounts,
    CallInFlight,
    CallReader,
    ChannelCounts,
    ChannelReader,
    EngineCounts,
    FailedCall,
    NodeCounts,
)

from ._stages._call import CallStage

if TYPE_CHECKING:
    from spdl.pipeline._info import StageInfo

    from ._channel import Channel
    from ._core import Core, Node
    from ._engine import Engine


def call_reader(engine: Core, node: Node) -> CallReader:
    """Return a function that copies the counters of the calls of ``node``."""

    def read() -> CallCounts:
        with engine.lock:
            return node.counters.counts()

    return read


def channel_reader(engine: Core, channel: Channel) -> ChannelReader:
    """Return a function that copies the counters of ``channel``."""

    def read() -> ChannelCounts:
        with engine.lock:
            return channel.counts(engine.started, _now(engine))

    return read


def take_counts(engine: Engine) -> EngineCounts:
    """Return a consistent snapshot: all counters are copied under one acquisition of the lock."""
    with engine.lock:
        now = _now(engine)
        open_times: dict[object, float] = {}
        for lane in engine.lanes:
            for stage, seconds in lane.open_times(now):
                open_times[stage] = open_times.get(stage, 0.0) + seconds
        nodes = sorted(engine.nodes, key=lambda node: int(node.info.stage_id))
        return EngineCounts(
            elapsed=max(0.0, now - engine.started) if engine.started else 0.0,
            state=engine.state.value,
            num_threads=engine.num_threads,
            num_items=engine.num_items,
            consumer_wait=engine.consumer_wait_until(now),
            nodes=tuple(_counts_of(node, now, engine, open_times.get(node, 0.0)) for node in nodes),
            unit=engine.unit,
        )


def take_calls(engine: Engine) -> tuple[CallInFlight, ...]:
    """Return the calls that have not returned, those closest to the consumer first. Runs ``repr`` of the items."""
    if engine.is_over:
        return ()
    now = perf_counter()
    order = {str(node.info): -int(node.info.stage_id) for node in engine.nodes}
    calls = [call for lane in engine.lanes for call in (*lane.running(), *lane.reading())]
    calls.sort(key=lambda call: (order.get(call.stage, 0), call.started))
    return tuple(
        CallInFlight(
            call.stage, call.item, max(0.0, now - call.started) if call.started else None, call.thread_id, call.stack
        )
        for call in calls
    )


def graph_of(engine: Core) -> list[tuple[StageInfo, tuple[str, ...]]]:
    """Return the stages in order of their ids, each with the ids of the stages that it reads from."""
    nodes = sorted(engine.nodes, key=lambda node: int(node.info.stage_id))
    return [(node.info, tuple(channel.producer.info.stage_id for channel in node.inboxes)) for node in nodes]


def _now(engine: Core) -> float:
    return engine.ended_at if engine.ended_at is not None else perf_counter()


def _counts_of(node: Node, now: float, engine: Engine, open_time: float) -> NodeCounts:
    counters = node.counters
    busy = counters.busy_until(open_time)
    channels = node.outs or node.inboxes
    num_calls, num_emitted = counters.num_calls, counters.num_emitted
    if node is engine.sink:
        num_calls = num_emitted = engine.num_items
    elif (num_issued := node.num_issued) is not None:
        num_calls = num_issued
        num_emitted = num_issued - counters.num_dropped  # without excluded items
    return NodeCounts(
        info=node.info,
        num_calls=num_calls,
        num_failures=counters.num_failures,
        num_dropped=node.num_dropped,
        num_in_flight=node.num_in_flight,
        num_emitted=num_emitted,
        num_substituted=counters.num_substituted,
        num_lost=counters.num_lost,
        num_redealt=counters.num_redealt,
        busy=busy,
        wall_time=counters.success_time if node.num_issued is None else counters.busy,
        success_time=counters.success_time,
        cpu_share=counters.cpu_share,
        starved=counters.starved_until(now),
        blocked=counters.blocked_until(now),
        queue_len=sum(min(len(channel.items), channel.capacity) for channel in channels),
        queue_capacity=sum(channel.capacity for channel in channels),
        occupied=max(channel.occupied_until(now) for channel in channels),
        runs_on=node.lane.runs_on if isinstance(node, CallStage) else node.runs_on,
        failures=tuple(FailedCall(*record[:7]) for record in node.failures),
        inputs=tuple(channel.producer.info.stage_id for channel in node.inboxes),
        num_workers=node.num_workers,
    )
