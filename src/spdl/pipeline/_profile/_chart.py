"""The chart of a profile: one panel per stage, its rate over its concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from spdl.pipeline._observe._html import SERIES, circle, line, nice_limit, polyline, svg, text

from ._results import ProfileResult, rate

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
