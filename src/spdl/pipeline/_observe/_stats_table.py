"""Formats ``PipelineStats`` as a table of at most 100 columns, or fewer: a line for the pipeline, and one per stage."""

from collections.abc import Sequence
from textwrap import wrap

from spdl.pipeline._info import StageInfo
from spdl.pipeline._observe._stats import PipelineStats, StageStats
from spdl.pipeline._observe._units import count, rate, seconds, share

#: Maximum number of columns of the table.
WIDTH = 100
#: The column of names is shortened to make room for the others, but not below this width.
_NAME = 16
#: Columns that are left out, in this order, where there is no room. ``dropped`` comes last: it shows lost items.
_OPTIONAL = ("full", "CPU", "running", "mean", "calls", "dropped")


def stats_table(stats: PipelineStats, width: int = WIDTH) -> str:
    """Return the table that ``str(stats)`` shows; ``->`` marks the limiting stage.

    Below 72 columns or so, columns of numbers no longer fit, and lines are longer than ``width``.
    """
    return "\n".join([*wrap(headline(stats), width, subsequent_indent="   "), *stage_lines(stats, width)])


def stage_lines(stats: PipelineStats, width: int = WIDTH) -> list[str]:
    """Return the lines of the table that follow the headline: those about stages."""
    limiting, sentence = stats._explained()
    rows = [(_marker(stage is limiting), stage_cells(stage, stats)) for stage in stats.stages]
    lines = _table(rows, width) if rows else []
    for stage in stats.stages:
        lines += wrap(text, width, subsequent_indent="   ") if (text := stage_losses(stage)) else []
    if limiting is not None:
        lines += wrap(f"-> limiting stage: {_describe(limiting, stats)}", width, subsequent_indent="   ")
        lines += wrap(sentence, width)
    return lines


def headline(stats: PipelineStats) -> str:
    """Return the line about the whole pipeline."""
    unit = {"items": "item", "batches": "batch"}[stats.unit] if stats.num_items == 1 else stats.unit
    items = f"{stats.num_items} {unit}"
    threads = "1 thread" if stats.num_threads == 1 else f"{stats.num_threads} threads"
    waited = f"; the consumer waited {share(stats.consumer_wait, stats.elapsed)} of the time" if stats.elapsed else ""
    return f"{stats.state}, {seconds(stats.elapsed)}, {threads}: {items}, {rate(stats.rate)}/s{waited}"


def stage_cells(stage: StageStats, stats: PipelineStats) -> dict[str, str]:
    """Return the cells of a stage by column; shares refer to the elapsed time, ``busy`` to that of all usable slots.

    The sink makes no calls, and its queue is read by the consumer.
    """
    is_sink = stage is stats.stages[-1]
    elapsed = stage.elapsed
    cells = {"stage": str(stage.info), "calls": "" if is_sink else count(stage.num_calls)}
    cells["failed"] = count(stage.num_failures) if stage.num_failures else ""
    cells["dropped"] = count(stage.num_dropped) if stage.num_dropped else ""
    cells["running"] = count(stage.num_in_flight) if stage.num_in_flight else ""
    cells["mean"] = "" if is_sink or not stage.num_success else seconds(stage.wall_per_call)
    cells["CPU"] = _cpu(stage)
    cells["busy"] = "" if is_sink else share(stage.busy, elapsed * _slots(stage, stats))
    cells["starved"] = "" if is_sink else share(stage.starved, elapsed)
    cells["blocked"] = "" if is_sink else share(stage.blocked, elapsed)
    cells["queue"] = f"{stage.queue_len}/{stage.queue_capacity}" if stage.queue_capacity else ""
    cells["full"] = share(stage.occupancy) if stage.queue_capacity else ""
    cells["items/s"] = rate(stage.rate)
    return cells


def stage_losses(stage: StageStats) -> str:
    """Return the substitutes of a stage and the parts missing from its results, as a line; empty if there are none.

    This is a line rather than a column, because columns are left out when there is no room.
    """
    parts = []
    if stage.num_substituted:
        have = "has" if stage.num_substituted == 1 else "have"
        parts.append(f"{count(stage.num_substituted)} of {count(stage.num_failures)} failed calls {have} a substitute")
    if stage.num_lost:
        are = (
            "part, such as an image of a batch, is" if stage.num_lost == 1 else "parts, such as images of a batch, are"
        )
        parts.append(f"{count(stage.num_lost)} {are} missing from results")
    if stage.num_redealt:
        were = "item was" if stage.num_redealt == 1 else "items were"
        parts.append(f"{count(stage.num_redealt)} {were} sent again because a worker died")
    return f"   {_shortened(str(stage.info), _NAME * 2)}: {'; '.join(parts)}" if parts else ""


def _cpu(stage: StageStats) -> str:
    """The share of a call that its thread was on a CPU."""
    if stage.cpu_per_call is None or stage.wall_per_call <= 0:
        return ""
    return share(stage.cpu_per_call, stage.wall_per_call)


def _slots(stage: StageStats, stats: PipelineStats) -> int:
    """Return how many calls could run at once. Calls whose CPU time is not measured run outside the worker threads."""
    slots = stage.info.concurrency or 1
    if stage.num_success and stage.cpu_per_call is None:
        return slots
    return max(1, min(slots, stats.num_threads))


def _marker(is_limiting: bool) -> str:
    return "->" if is_limiting else ""


def _table(rows: list[tuple[str, dict[str, str]]], width: int) -> list[str]:
    columns = [
        name for name in rows[0][1] if name not in ("failed", "dropped") or any(cells[name] for _, cells in rows)
    ]
    for optional in ("", *_OPTIONAL):
        columns = [name for name in columns if name != optional]
        widths = {name: max(len(name), *(len(cells[name]) for _, cells in rows)) for name in columns}
        room = width - 3 - sum(widths[name] + 2 for name in columns[1:])
        if room >= min(_NAME, widths["stage"]):
            break
    widths["stage"] = min(widths["stage"], max(room, _NAME))
    lines = [_line("", {name: name for name in columns}, widths)]
    return lines + [_line(marker, cells, widths) for marker, cells in rows]


def _line(marker: str, cells: dict[str, str], widths: dict[str, int]) -> str:
    name = _shortened(cells["stage"], widths["stage"]).ljust(widths["stage"])  # names on the left, numbers on the right
    numbers = (cells[column].rjust(width) for column, width in widths.items() if column != "stage")
    return "  ".join((f"{marker:2} {name}", *numbers)).rstrip()


def _shortened(name: str, width: int) -> str:
    """Leave out the middle of a long name: the ends differ most between stages."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 3
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def _describe(stage: StageStats, stats: PipelineStats) -> str:
    if stage is stats.stages[-1]:
        waited = share(stats.consumer_wait, stats.elapsed)
        return f"{stage.info}, which stands for the consumer: it waited only {waited} of the time"
    return str(stage.info)


def graph_text(
    pipeline_id: int, state: str, num_threads: int, stages: Sequence[tuple[StageInfo, tuple[str, ...]]]
) -> str:
    """Return a line about the pipeline and one per stage: its id, name, and how many calls it may run at once.

    ``<-`` names the stages that a stage reads from, unless it reads from the stage above.
    """
    lines = [f"<Pipeline {pipeline_id}, {state}, {num_threads} threads>"]
    width = max((len(info.stage_id) for info, _ in stages), default=0)
    before: tuple[str, ...] = ()
    for info, inputs in stages:
        calls = "" if info.concurrency is None else f"[{info.concurrency}]"
        reads = f"  <- {', '.join(inputs)}" if inputs and inputs != before else ""
        lines.append(f"  {info.stage_id:>{width}}  {info.stage_name}{calls}{reads}")
        before = (info.stage_id,)
    return "\n".join(lines)
