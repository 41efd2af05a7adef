"""Formats ``PipelineStats`` as a table: one line for the pipeline and one per stage."""

from spdl.pipeline._observe._stats import PipelineStats, StageStats

__all__ = ["stats_table"]

_HEADER = (
    "stage",
    "calls",
    "failed",
    "dropped",
    "in flight",
    "mean ms",
    "cpu ms",
    "busy s",
    "starved s",
    "blocked s",
    "queue",
    "occupied",
    "items/s",
)


def stats_table(stats: PipelineStats) -> str:
    """Return the table that ``str(stats)`` shows; a ``*`` marks the limiting stage."""
    limiting = stats.limiting_stage
    rows = [_HEADER] + [_row(stage, stage is limiting) for stage in stats.stages]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADER))]
    lines = [
        f"{stats.state}, {stats.elapsed:.3f} s, {stats.num_items} items ({stats.rate:.1f}/s), "
        f"{stats.num_threads} threads, consumer waited {stats.consumer_wait:.3f} s"
    ]
    for row in rows:
        # Names are left-aligned, numbers right-aligned.
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    if limiting is not None:
        lines.append(f"* limiting stage: {_describe(limiting, stats)}")
    return "\n".join(lines)


def _row(stage: StageStats, limiting: bool) -> tuple[str, ...]:
    return (
        f"{'*' if limiting else ' '} {stage.info}",
        str(stage.num_calls),
        str(stage.num_failures),
        str(stage.num_dropped),
        str(stage.num_in_flight),
        f"{stage.wall_per_call * 1e3:.3f}" if stage.num_success else "-",
        "-" if stage.cpu_per_call is None else f"{stage.cpu_per_call * 1e3:.3f}",
        f"{stage.busy:.3f}",
        f"{stage.starved:.3f}",
        f"{stage.blocked:.3f}",
        f"{stage.queue_len}/{stage.queue_capacity}",
        f"{stage.occupancy * 100:.0f} %",
        f"{stage.rate:.1f}",
    )


def _describe(stage: StageStats, stats: PipelineStats) -> str:
    if stage is stats.stages[-1]:
        return f"{stage.info}, which stands for the consumer: it waited only {stats.consumer_wait:.3f} s for items"
    return str(stage.info)
