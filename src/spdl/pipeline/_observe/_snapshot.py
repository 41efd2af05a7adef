"""Makes ``PipelineStats`` from the engine's counters, and keeps those of earlier moments, for rates over time."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Final

from spdl.pipeline._observe._stats import ItemFailure, Measured, Moment, PipelineStats, StageStats
from spdl.pipeline._records import EngineCounts, NodeCounts


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
    values = node._asdict()
    success_time, cpu_share = values.pop("success_time"), values.pop("cpu_share")
    values["failures"] = tuple(ItemFailure(*failed) for failed in node.failures)
    num_success = node.num_calls - node.num_failures
    return StageStats(
        elapsed=elapsed,
        num_success=num_success,
        cpu_time=0.0 if cpu_share is None else success_time * cpu_share,
        num_cpu_samples=0 if cpu_share is None else num_success,
        **values,
    )


_MOST_MOMENTS: Final = 512


class History:
    """The moments of one pipeline at which statistics were requested, oldest first. Thread-safe.

    Moments closer together than ``spacing`` are not kept. When there are too many, every second one is dropped and the
    spacing doubled, so that the history covers the whole run.
    """

    def __init__(self) -> None:
        self.spacing = 0.05  # s
        self.moments: list[Moment] = []
        self._lock = threading.Lock()

    def extended(self, stats: PipelineStats) -> PipelineStats:
        """Add the moment of ``stats``, and return ``stats`` with the history."""
        emitted = tuple(stage.num_emitted for stage in stats.stages)
        moment = Moment(stats.elapsed, stats.num_items, stats.consumer_wait, emitted)
        with self._lock:
            moments = self.moments
            if not moments or moment.elapsed >= moments[-1].elapsed + self.spacing:
                moments.append(moment)
                if len(moments) > _MOST_MOMENTS:
                    del moments[1::2]
                    self.spacing *= 2
            kept = tuple(moments)
        if kept[-1].elapsed < moment.elapsed:
            kept = (*kept, moment)
        return replace(stats, history=kept)
