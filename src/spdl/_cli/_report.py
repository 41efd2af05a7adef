"""The result of ``spdl load``, as text or JSON."""

import json
from dataclasses import dataclass

from spdl import __version__
from spdl._addresses import redacted
from spdl._cli._exits import ExitCode
from spdl._cli._find import Found, describe_unsupported
from spdl._cli._load_options import LoadOptions
from spdl._cli._progress import Counts
from spdl._reports import printable
from spdl.pipeline import PipelineStats, StageStats

_FEW = 10  # batches; with fewer, start-up dominates the measurement
_NAMED = 5  # number of failed files in the text; --json lists all
_STATUS = {
    ExitCode.OK: "ok",
    ExitCode.NOTHING_LOADED: "nothing loaded",
    ExitCode.CORRUPT_FILE: "corrupt file",
    ExitCode.INTERRUPTED: "interrupted",
}


@dataclass(slots=True)
class FailedFile:
    """A file that could not be loaded, its first error, and the number of failures: one per epoch."""

    path: str
    error: str
    times: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run, complete or not: options, counts, failures and statistics.

    Attributes:
        elapsed: Time from the start of the pipeline to its last batch, in seconds.
    """

    options: LoadOptions
    found: Found
    code: ExitCode
    counts: Counts
    failed: tuple[FailedFile, ...]
    elapsed: float
    stats: PipelineStats

    @property
    def rate(self) -> float:
        """Number of images loaded per second."""
        return self.counts.images / self.elapsed if self.elapsed > 0 else 0.0


def one_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if there is none."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


# ---------------------------------------------------------------------------------------------------------------- JSON


def as_json(outcome: Outcome) -> str:
    """Format the outcome as one JSON object; times are in seconds."""
    options, counts, stats = outcome.options, outcome.counts, outcome.stats
    limiting = _limiting(stats)
    return json.dumps(
        {
            "version": __version__,
            "status": _STATUS[outcome.code],
            "exit_code": int(outcome.code),
            "paths": [printable(redacted(str(path))) for path in options.paths],
            "batch_size": options.batch_size,
            "width": options.width,
            "height": options.height,
            "pix_fmt": options.pix_fmt,
            "epochs": options.epochs,
            "num_threads": stats.num_threads,
            "num_files": len(outcome.found.images),
            "num_images": counts.images,
            "num_batches": counts.batches,
            "num_failures": counts.failures,
            "num_bytes": counts.num_bytes,
            "elapsed": outcome.elapsed,
            "images_per_second": outcome.rate,
            "failures": [
                {"path": printable(file.path), "error": printable(file.error), "times": file.times}
                for file in outcome.failed
            ],
            "unsupported": outcome.found.unsupported,
            "stages": [_stage_as_dict(stage) for stage in stats.stages],
            "limiting_stage": limiting.info.stage_name if limiting is not None else None,
            "verdict": verdict(stats),
        },
        indent=1,
    )


def _stage_as_dict(stage: StageStats) -> dict[str, object]:
    return {
        "name": stage.info.stage_name,
        "concurrency": stage.info.concurrency or 1,
        "num_calls": stage.num_calls,
        "num_failures": stage.num_failures,
        "num_emitted": stage.num_emitted,
        "wall_per_call": stage.wall_per_call,
        "cpu_per_call": stage.cpu_per_call,
        "busy": stage.busy,
        "starved": stage.starved,
        "blocked": stage.blocked,
        "queue_capacity": stage.queue_capacity,
        "occupancy": stage.occupancy,
    }


# ---------------------------------------------------------------------------------------------------------------- text


def as_text(outcome: Outcome) -> str:
    """Format the outcome as text: counts, speed, failures and the limiting stage."""
    lines = [_headline(outcome)]
    if outcome.found.unsupported:
        lines.append(f"ignored: {describe_unsupported(outcome.found.unsupported)}")
    lines += _failures(outcome)
    if not outcome.options.quiet:
        lines += ["", *_table(outcome.stats), "", verdict(outcome.stats)]
    return "\n".join(lines)


def _headline(outcome: Outcome) -> str:
    options, counts = outcome.options, outcome.counts
    epochs = f" in {options.epochs} epochs" if options.epochs > 1 else ""
    ended = {
        ExitCode.INTERRUPTED: "interrupted after ",
        ExitCode.CORRUPT_FILE: "ended by --strict after ",
    }.get(outcome.code, "")
    return (
        f"{ended}{_count(counts.images, 'image')}{epochs} in {_count(counts.batches, 'batch', 'batches')} of"
        f" {options.batch_size} x {options.width}x{options.height} {options.pix_fmt}: {outcome.elapsed:.2f} s,"
        f" {outcome.rate:.0f} images/s with {_count(outcome.stats.num_threads, 'thread')}"
    )


def _failures(outcome: Outcome) -> list[str]:
    if not outcome.failed:
        return []
    lines = [f"{_count(len(outcome.failed), 'file')} could not be loaded:"]
    lines += [f"  {printable(file.path)}: {printable(file.error)}" for file in outcome.failed[:_NAMED]]
    if len(outcome.failed) > _NAMED:
        lines.append(f"  and {len(outcome.failed) - _NAMED} more; --json names all")
    return lines


def _table(stats: PipelineStats) -> list[str]:
    """One line per stage. Shares refer to the run time; ``busy`` to the run time of all usable slots of a stage."""
    limiting = _limiting(stats)
    rows = [("", "stage", "calls", "mean", "busy", "starved", "blocked", "queue fill")]
    for stage in stats.stages:
        is_sink = stage is stats.stages[-1]  # makes no calls, and its queue is read by the consumer
        rows.append(
            (
                "->" if limiting is not None and stage.info == limiting.info else "",
                stage.info.stage_name.partition("(")[0],  # the name of an aggregate contains its arguments
                "" if is_sink else str(stage.num_calls),
                "" if is_sink or not stage.num_success else _time(stage.wall_per_call),
                "" if is_sink else _share(busy_share(stage, stats)),
                "" if is_sink else _share(_part(stage.starved, stats.elapsed)),
                "" if is_sink else _share(_part(stage.blocked, stats.elapsed)),
                _share(stage.occupancy) if stage.queue_capacity else "",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def verdict(stats: PipelineStats) -> str:
    """Describe in one sentence the limiting stage, the reason, and what would help."""
    stage = _limiting(stats)
    if stage is None:
        return f"Too few batches to tell which stage holds the pipeline back: it takes {_FEW}."
    name = stage.info.stage_name
    if stage.info == stats.stages[-1].info:
        return "The consumer holds the pipeline back: batches wait for it."
    if stage.info == stats.stages[0].info:
        return f"{name} holds the pipeline back: the other stages wait for paths."
    share = busy_share(stage, stats)
    slots = _slots(stage, stats)
    threads = "thread was" if slots == 1 else f"{slots} threads were"
    said = f"{name} holds the pipeline back: its {threads} busy {_share(share)} of the time"
    cpu, wall = stage.cpu_per_call, stage.wall_per_call
    if share < 0.5:
        return f"{said}; the run was too short, or the cores were shared, for more detail."
    if cpu is None or wall <= 0:
        return f"{said}."
    if cpu / wall >= 0.8:
        return f"{said}, {_share(min(1.0, cpu / wall))} of it computing: more cores or a smaller size would help."
    return (
        f"{said}, {_share(1 - cpu / wall)} of it waiting: for files (more threads would help), or for cores that are"
        " in use by others."
    )


def _limiting(stats: PipelineStats) -> StageStats | None:
    """Return the limiting stage; ``None`` if the run was too short."""
    return stats.limiting_stage if stats.num_items >= _FEW else None


def busy_share(stage: StageStats, stats: PipelineStats) -> float:
    """Return the share of time that the stage's slots were busy, 0 to 1."""
    return min(1.0, _part(stage.busy, stats.elapsed * _slots(stage, stats)))


def _slots(stage: StageStats, stats: PipelineStats) -> int:
    return max(1, min(stage.info.concurrency or 1, stats.num_threads))


def _part(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _share(value: float) -> str:
    return f"{100 * value:.0f}%"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
