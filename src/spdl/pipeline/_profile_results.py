"""The results of a profile: records, their arithmetic, the table and the chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2
from os import PathLike

from spdl.pipeline._observe._document import written
from spdl.pipeline._observe._html import SERIES, circle, line, nice_limit, polyline, svg, text
from spdl.pipeline._observe._units import duration

#: A lower concurrency counts as good as the best if its rate is at least this share of the highest rate.
_AS_GOOD = 0.9
_BAR = 24


@dataclass(frozen=True, slots=True)
class ProfileStats:
    """One run of one stage.

    Attributes:
        concurrency: Maximum number of calls in flight, and number of worker threads.
        qps: Number of outputs per second.
        occupancy_rate: Share of time in which the stage's output was not empty, 0 to 1.
        elapsed: Duration of the run, in seconds.
        num_inputs: Number of items that the stage received.
        num_outputs: Number of items that it emitted.
        num_failures: Number of calls that failed.
        wall_per_call: Mean wall time of a successful call, in seconds.
        cpu_per_call: Mean CPU time of a successful call, in seconds; ``None`` if it cannot be measured.
    """

    concurrency: int
    qps: float
    occupancy_rate: float
    elapsed: float = 0.0
    num_inputs: int = 0
    num_outputs: int = 0
    num_failures: int = 0
    wall_per_call: float = 0.0
    cpu_per_call: float | None = None


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """All runs of one stage. ``str()`` gives a table of at most 100 columns.

    Attributes:
        name: Name of the stage.
        stats: The runs, in the order in which they were made: from the highest concurrency to 1.
    """

    name: str
    stats: list[ProfileStats]

    @property
    def scales_to(self) -> int:
        """The concurrency at which the stage stops scaling: the lowest one with 90 % of the highest rate."""
        return min((run.concurrency for run in self.stats if run.qps >= _AS_GOOD * self.best_qps), default=1)

    @property
    def best_qps(self) -> float:
        """The highest rate of all runs."""
        return max((run.qps for run in self.stats), default=0.0)

    def __str__(self) -> str:
        return "\n".join([self._title(), *_table(self)])

    def _repr_html_(self) -> str:
        return ProfileResults([self])._repr_html_()

    def _title(self) -> str:
        num_inputs = max((run.num_inputs for run in self.stats), default=0)
        name = self.name if len(self.name) <= 50 else f"{self.name[:49]}…"
        if len(self.stats) < 2:
            return f"{name}: {num_inputs} items, concurrency 1 only"
        return f"{name}: {num_inputs} items; stops scaling at concurrency {self.scales_to}"


class ProfileResults(list[ProfileResult]):
    """The results of all stages: a list with a table (``str()``) and a chart (``to_svg()``)."""

    def __init__(self, results: Iterable[ProfileResult] = ()) -> None:
        super().__init__(results)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self)) if self else "no stage was profiled"

    def to_svg(self, path: str | PathLike[str] | None = None) -> str:
        """Return a chart of the rate of each stage over its concurrency, as text of an SVG image.

        A dashed line shows perfect scaling; a ring marks where the stage stops scaling.

        Args:
            path: File to write the image to as well.
        """
        return written(chart(self), path)

    def _repr_html_(self) -> str:
        return self.to_svg()


def _table(result: ProfileResult) -> list[str]:
    header = ("concurrency", "items/s", "scaling", "per call", "CPU", "occupied", "failed", "")
    rows: list[tuple[str, ...]] = [header]
    runs = sorted(result.stats, key=lambda run: run.concurrency)
    best = result.best_qps
    for run in runs:
        scaling = run.qps / runs[0].qps if runs[0].qps > 0 else 0.0
        is_knee = len(runs) > 1 and run.concurrency == result.scales_to
        bar = "█" * round(_BAR * run.qps / best) if best > 0 else ""
        rows.append(
            (
                str(run.concurrency),
                rate(run.qps),
                f"{scaling:.1f}x",
                duration(run.wall_per_call) if run.wall_per_call else "-",
                "-" if run.cpu_per_call is None else duration(run.cpu_per_call),
                f"{run.occupancy_rate * 100:.0f} %",
                str(run.num_failures) if run.num_failures else "-",
                f"{bar} <" if is_knee else bar,
            )
        )
    widths = [max(len(row[k]) for row in rows) for k in range(len(header))]
    return [
        "  ".join([*(c.rjust(w) for c, w in zip(row, widths[:-1], strict=False)), row[-1]]).rstrip() for row in rows
    ]


def rate(per_second: float) -> str:
    """Format a rate with three digits: ``"0.25"``, ``"812"``, ``"12.4 k"``."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if per_second >= 0.9995 * size:
            return f"{per_second / size:.3g} {unit}"
    return f"{per_second:.3g}"


_WIDTH, _HEIGHT = 300, 210  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 14, 44, 36
_COLUMNS = 3


def chart(results: Sequence[ProfileResult]) -> str:
    """Return an SVG image."""
    columns = max(1, min(_COLUMNS, len(results)))
    num_rows = max(1, -(-len(results) // columns))
    parts = [
        f'<g transform="translate({k % columns * _WIDTH},{k // columns * _HEIGHT})">{_panel(result, k)}</g>'
        for k, result in enumerate(results)
    ]
    if not results:
        parts = [text(20, 40, "no stage was profiled")]
    return svg(columns * _WIDTH, num_rows * _HEIGHT, parts, "rate of each stage over its concurrency")


def _panel(result: ProfileResult, number: int) -> str:
    runs = sorted(result.stats, key=lambda run: run.concurrency)
    name = result.name if len(result.name) <= 30 else f"{result.name[:29]}…"
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    last = max(log2(max((run.concurrency for run in runs), default=1)), 1.0)
    top = nice_limit(result.best_qps)

    def x(concurrency: float) -> float:
        return _LEFT + log2(concurrency) / last * (right - _LEFT)

    def y(per_second: float) -> float:
        return bottom - per_second / top * (bottom - _TOP)

    said = f"{rate(result.best_qps)} items/s"
    said += f", stops scaling at {result.scales_to}" if len(runs) > 1 else ", concurrency 1 only"
    parts = [
        text(_LEFT, 16, name, cls="bold"),
        text(_LEFT, 32, said, cls="dim"),
        line(_LEFT, bottom, right, bottom, "axis"),
        line(_LEFT, _TOP, _LEFT, bottom, "axis"),
        text(_LEFT - 6, _TOP + 8, rate(top), cls="dim", anchor="end"),
        text(_LEFT - 6, bottom, "0", cls="dim", anchor="end"),
        text((_LEFT + right) / 2, _HEIGHT - 4, "calls in flight", cls="dim", anchor="middle"),
    ]
    parts += [text(x(run.concurrency), bottom + 16, str(run.concurrency), anchor="middle") for run in runs]
    if len(runs) > 1 and runs[0].qps > 0:
        one_call = runs[0].qps / runs[0].concurrency
        steps = [2 ** (last * k / 24) for k in range(25)]
        parts.append(polyline([(x(c), y(one_call * c)) for c in steps if one_call * c <= top], "ideal"))
    colour = number % SERIES
    points = [(x(run.concurrency), y(run.qps)) for run in runs]
    parts.append(polyline(points, f"curve s{colour}"))
    parts += [circle(*point, 3, f"f{colour}") for point in points]
    parts += [
        circle(*point, 7, f"ring s{colour}")
        for run, point in zip(runs, points, strict=True)
        if len(runs) > 1 and run.concurrency == result.scales_to
    ]
    return "".join(parts)
