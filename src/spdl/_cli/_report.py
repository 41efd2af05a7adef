"""What ``spdl load`` shows: its progress, and its result as text or JSON."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from spdl import __version__
from spdl._addresses import redacted
from spdl._cli._find import Found, describe_unsupported
from spdl._cli._options import ExitCode, LoadOptions
from spdl._reports import printable
from spdl.pipeline import PipelineStats, StageStats
from spdl.pipeline._observe._document import aligned, cells, document_of
from spdl.pipeline._observe._units import share

_FEW = 10  # batches; with fewer, start-up dominates the measurement
_NAMED = 5  # number of failed files in the text; --json lists all

#: What the JSON has of each stage.
_OF_STAGES = (
    *("name", "concurrency", "num_calls", "num_failures", "num_emitted", "wall_per_call", "cpu_per_call"),
    *("busy", "starved", "blocked", "queue_capacity", "occupancy"),
)

_STATUS = {
    ExitCode.OK: "ok",
    ExitCode.NOTHING_LOADED: "nothing loaded",
    ExitCode.CORRUPT_FILE: "corrupt file",
    ExitCode.INTERRUPTED: "interrupted",
}

_ON_TERMINAL = 0.1  # s between two updates: looks live at negligible cost
_ELSEWHERE = 10.0  # s between two lines in a log


@dataclass(slots=True)
class Counts:
    """Counts of the pipeline's output so far."""

    images: int = 0
    batches: int = 0
    failures: int = 0
    num_bytes: int = 0


class Progress:
    """Shows the progress of a run. Made and used by one thread.

    ``total`` is of all epochs. Without a ``stream``, nothing is shown. ``width`` is called at each update.
    """

    def __init__(
        self,
        stream: TextIO | None,
        total: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        width: Callable[[], int] = lambda: shutil.get_terminal_size().columns,
    ) -> None:
        self._stream = stream
        self._total = total
        self._clock = clock
        self._width = width
        self._rewrites = stream is not None and stream.isatty()
        self._interval = _ON_TERMINAL if self._rewrites else _ELSEWHERE
        self._start = self._last = clock()
        self._drawn = False

    def update(self, counts: Counts) -> None:
        """Show the counts, unless the last update was too recent."""
        if self._stream is None:
            return
        now = self._clock()
        if now - self._last < self._interval:
            return
        self._last = now
        text = self._line(counts, now - self._start)
        if self._rewrites:
            self._stream.write("\r\x1b[K" + text[: max(1, self._width() - 1)])
            self._drawn = True
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Erase the line, so that other output can be written in its place."""
        if self._stream is not None and self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False

    def _line(self, counts: Counts, elapsed: float) -> str:
        done = counts.images + counts.failures
        rate = done / elapsed if elapsed > 0 else 0.0
        left = f"{_duration((self._total - done) / rate)} left" if rate > 0 else "starting"
        share = 100 * done / self._total if self._total else 100.0
        failed = f"{counts.failures} failed, " if counts.failures else ""
        batches = _count(counts.batches, "batch", "batches")
        return f"{done} of {self._total} images ({share:.0f}%), {batches}, {failed}{rate:.0f} images/s, {left}"


def _duration(seconds: float) -> str:
    """``9 s``, ``3:09 min``, ``1:03:09 h``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d} h"
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"


@dataclass(slots=True)
class FailedFile:
    """A file that could not be loaded, its first error, and the number of failures: one per epoch."""

    path: str
    error: str
    times: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run, complete or not: options, counts, failures and statistics."""

    options: LoadOptions
    found: Found
    code: ExitCode
    counts: Counts
    failed: tuple[FailedFile, ...]
    elapsed: float  #: s, from the start of the pipeline to its last batch
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
            **{name: getattr(options, name) for name in ("batch_size", "width", "height", "pix_fmt", "epochs")},
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
            "stages": [{name: stage[name] for name in _OF_STAGES} for stage in document_of(stats)["stages"]],
            "limiting_stage": limiting.info.stage_name if limiting is not None else None,
            "verdict": verdict(stats),
        },
        indent=1,
    )


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
    early = {ExitCode.INTERRUPTED: "interrupted after ", ExitCode.CORRUPT_FILE: "ended by --strict after "}
    ended = early.get(outcome.code, "")
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
    """One line per stage."""
    document, limiting = document_of(stats), _limiting(stats)
    rows = []
    for stage in document["stages"]:
        found = cells(stage, document)
        shown = {"stage": stage["name"].partition("(")[0]}  # the name of an aggregate contains its arguments
        shown |= {column: found[column] for column in ("calls", "mean", "busy", "starved", "blocked")}
        is_limiting = limiting is not None and stage["id"] == limiting.info.stage_id
        rows.append((is_limiting, {**shown, "queue fill": found["full"]}))
    return aligned(rows)


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
    busy = busy_share(stage, stats)
    slots = _slots(stage, stats)
    threads = "thread was" if slots == 1 else f"{slots} threads were"
    said = f"{name} holds the pipeline back: its {threads} busy {share(busy)} of the time"
    cpu, wall = stage.cpu_per_call, stage.wall_per_call
    if busy < 0.5:
        return f"{said}; the run was too short, or the cores were shared, for more detail."
    if cpu is None or wall <= 0:
        return f"{said}."
    if cpu / wall >= 0.8:
        return f"{said}, {share(cpu, wall)} of it computing: more cores or a smaller size would help."
    return (
        f"{said}, {share(1 - cpu / wall)} of it waiting: for files (more threads would help), or for cores that are"
        " in use by others."
    )


def _limiting(stats: PipelineStats) -> StageStats | None:
    """Return the limiting stage; ``None`` if the run was too short."""
    return stats.limiting_stage if stats.num_items >= _FEW else None


def busy_share(stage: StageStats, stats: PipelineStats) -> float:
    """Return the share of time that the stage's slots were busy, 0 to 1."""
    return min(1.0, stage.busy / (stats.elapsed * _slots(stage, stats))) if stats.elapsed > 0 else 0.0


def _slots(stage: StageStats, stats: PipelineStats) -> int:
    return max(1, min(stage.info.concurrency or 1, stats.num_threads))


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
