"""The result of ``spdl load``: text for people, JSON for programs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from spdl import __version__
from spdl._cli._exits import ExitCode
from spdl._cli._find import Found, describe_unsupported
from spdl._cli._load_options import LoadOptions
from spdl._cli._progress import Counts
from spdl.pipeline import PipelineStats, StageStats

__all__ = ["FailedFile", "Outcome", "as_json", "as_text", "one_line", "verdict"]

_FEW = 10  # batches; with fewer, what starting costs outweighs what the stages do
_NAMED = 5  # failed files in the text; --json has all
_STATUS = {
    ExitCode.OK: "ok",
    ExitCode.NOTHING_LOADED: "nothing loaded",
    ExitCode.CORRUPT_FILE: "corrupt file",
    ExitCode.INTERRUPTED: "interrupted",
}


@dataclass(slots=True)
class FailedFile:
    """A file that could not be loaded, why (the first time), and how many times: once an epoch."""

    path: str
    error: str
    times: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run, ended in whatever way: what was asked for, what came of it, and how the stages did.

    Attributes:
        elapsed: Seconds from the start of the pipeline to its last batch.
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
        """Images loaded per second."""
        return self.counts.images / self.elapsed if self.elapsed > 0 else 0.0


def one_line(error: BaseException) -> str:
    """First line of an error's message; its type where it has none."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


# ---------------------------------------------------------------------------------------------------------------- JSON


def as_json(outcome: Outcome) -> str:
    """The whole outcome as one JSON object, times in seconds."""
    options, counts, stats = outcome.options, outcome.counts, outcome.stats
    limiting = _limiting(stats)
    return json.dumps(
        {
            "version": __version__,
            "status": _STATUS[outcome.code],
            "exit_code": int(outcome.code),
            "paths": [printable(str(path)) for path in options.paths],
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
    """What a person wants to know: how many, how fast, what failed, and which stage holds it back."""
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
    """One stage a line. Shares are of the time of the run; ``busy`` of that time in all slots a stage could use."""
    limiting = _limiting(stats)
    rows = [("", "stage", "calls", "mean", "busy", "starved", "blocked", "queue fill")]
    for stage in stats.stages:
        is_sink = stage is stats.stages[-1]  # its "queue" is the consumer's hand, and it makes no calls
        rows.append(
            (
                "->" if limiting is not None and stage.info == limiting.info else "",
                stage.info.stage_name.partition("(")[0],  # an aggregate's name holds its arguments
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
    """One sentence: the stage that holds the pipeline back, by what, and what would help."""
    stage = _limiting(stats)
    if stage is None:
        return f"Too few batches to tell which stage holds the pipeline back: it takes {_FEW}."
    name = stage.info.stage_name
    if stage.info == stats.stages[-1].info:
        return "The consumer holds the pipeline back: batches wait for it."
    if stage.info == stats.stages[0].info:
        return f"{name} holds the pipeline back: its stages wait for paths."
    share = busy_share(stage, stats)
    slots = _slots(stage, stats)
    threads = "thread was" if slots == 1 else f"{slots} threads were"
    said = f"{name} holds the pipeline back: its {threads} busy {_share(share)} of the time"
    cpu, wall = stage.cpu_per_call, stage.wall_per_call
    if share < 0.5:
        return f"{said}; the run was too short, or shared its cores, to say more."
    if cpu is None or wall <= 0:
        return f"{said}."
    if cpu / wall >= 0.8:
        return f"{said}, {_share(min(1.0, cpu / wall))} of it computing: more cores or a smaller size would help."
    return (
        f"{said}, {_share(1 - cpu / wall)} of it waiting: for files (more threads would help), or for cores that are"
        " in use by others."
    )


def _limiting(stats: PipelineStats) -> StageStats | None:
    """The stage that holds the pipeline back; ``None`` after a run too short to tell."""
    return stats.limiting_stage if stats.num_items >= _FEW else None


def busy_share(stage: StageStats, stats: PipelineStats) -> float:
    """Share of the time that the stage's slots were at work, 0 to 1."""
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


def printable(text: str) -> str:
    """The text without what a terminal or UTF-8 cannot take: file names may hold any byte."""
    plain: Sequence[str] = [
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text
    ]
    return "".join(plain)
