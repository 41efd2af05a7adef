"""Makes ``PipelineStats`` from the engine's counters."""

from spdl.pipeline._observe._measured import Measured
from spdl.pipeline._observe._probe import EngineCounts, NodeCounts
from spdl.pipeline._observe._stats import ItemFailure, PipelineStats, StageStats


def stats_of(
    counts: EngineCounts, measured: Measured | None = None, since: PipelineStats | None = None
) -> PipelineStats:
    """Return the statistics of a pipeline."""
    return PipelineStats(
        elapsed=counts.elapsed,
        state=counts.state,
        num_threads=counts.num_threads,
        num_items=counts.num_items,
        consumer_wait=counts.consumer_wait,
        stages=tuple(_stage(node, counts.elapsed) for node in counts.nodes),
        measured=measured,
        since=since,
        unit=counts.unit,
        explain=_explained,
    )


def _explained(stats: PipelineStats) -> tuple[str | None, str]:
    from spdl.pipeline._observe._judging import judge  # imported late: few statistics are printed

    verdict = judge(stats)
    if verdict.cause == "consumer":
        return stats.stages[-1].info.stage_name, verdict.sentence
    return None if verdict.cause == "unsure" else verdict.stage, verdict.sentence


def _stage(node: NodeCounts, elapsed: float) -> StageStats:
    num_success = node.num_calls - node.num_failures
    return StageStats(
        info=node.info,
        elapsed=elapsed,
        num_calls=node.num_calls,
        num_failures=node.num_failures,
        num_success=num_success,
        num_dropped=node.num_dropped,
        num_in_flight=node.num_in_flight,
        num_emitted=node.num_emitted,
        num_substituted=node.num_substituted,
        num_lost=node.num_lost,
        num_redealt=node.num_redealt,
        busy=node.busy,
        starved=node.starved,
        blocked=node.blocked,
        wall_time=node.wall_time,
        cpu_time=0.0 if node.cpu_share is None else node.success_time * node.cpu_share,
        num_cpu_samples=0 if node.cpu_share is None else num_success,
        queue_len=node.queue_len,
        queue_capacity=node.queue_capacity,
        occupied=node.occupied,
        runs_on=node.runs_on,
        failures=tuple(ItemFailure(*failed) for failed in node.failures),
        inputs=node.inputs,
        num_workers=node.num_workers,
    )
