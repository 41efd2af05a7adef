"""The charts of a report: the graph of the stages, and lines over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from spdl.pipeline._observe._durations import duration
from spdl.pipeline._observe._svg import SERIES, line, nice_limit, polyline, rect, svg, text

Document = Mapping[str, Any]

_BOX, _GAP, _ROW = 168, 36, 84
_NAME, _WORDS = 18, 20  # maximum number of characters of a name, and of a name with the number of calls
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 1060, 260, 60, 40
#: Maximum number of lines: more could not be distinguished. Further stages have no line.
_MOST_LINES = SERIES


def graph(document: Document) -> str:
    """Return boxes from the sources on the left to the consumer on the right."""
    stages = document["stages"]
    columns = _columns(stages)
    rows: dict[int, int] = {}
    at: dict[str, tuple[float, float]] = {}
    for stage in stages:
        column = columns[stage["id"]]
        row = rows[column] = rows.get(column, -1) + 1
        at[stage["id"]] = 8 + column * (_BOX + _GAP), 8 + row * _ROW
    fills = {stage["id"]: (stage["queue_len"], stage["queue_capacity"]) for stage in stages}
    parts = [
        _edge(at[source], at[stage["id"]], fills[source])
        for stage in stages
        for source in stage["inputs"]
        if source in at
    ]
    parts += [_box(stage, at[stage["id"]], document) for stage in stages]
    width = 16 + (max(columns.values(), default=0) + 1) * (_BOX + _GAP) - _GAP
    image = svg(width, 8 + (max(rows.values(), default=0) + 1) * _ROW, parts, "graph of the stages", style="")
    return image.replace("max-width:100%", "min-width:100%" if width < _WIDTH and len(stages) > 4 else "max-width:none")


def _columns(stages: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the column of each stage: to the right of all stages that it reads from."""
    inputs = {stage["id"]: stage["inputs"] for stage in stages}
    found: dict[str, int] = {}
    waiting = list(inputs)
    while waiting:
        ready = [each for each in waiting if all(source in found or source not in inputs for source in inputs[each])]
        if not ready:  # a circle, which pipelines do not have
            return dict(zip(inputs, range(len(inputs)), strict=True))
        for each in ready:
            found[each] = 1 + max((found[source] for source in inputs[each] if source in found), default=-1)
        waiting = [each for each in waiting if each not in found]
    return found


def _edge(source: tuple[float, float], target: tuple[float, float], fill: tuple[int, int]) -> str:
    """Return an arrow with the number of items in the buffer, and the buffer's capacity."""
    x1, y1, x2, y2 = source[0] + _BOX, source[1] + 33, target[0], target[1] + 33
    middle = (x1 + x2) / 2
    return (
        f'<path d="M{x1:g} {y1:g}C{middle:g} {y1:g} {middle:g} {y2:g} {x2 - 6:g} {y2:g}" class="edge"/>'
        f'<path d="M{x2:g} {y2:g}l-8 -4v8z" class="tip"/>'
        + (text(x1 + _GAP / 2, y1 - 6, f"{fill[0]}/{fill[1]}", cls="dim small", anchor="middle") if fill[1] else "")
    )


def _box(stage: Mapping[str, Any], at: tuple[float, float], document: Document) -> str:
    x, y = at
    elapsed = document["elapsed"] or 1.0
    calls = "" if stage["concurrency"] == 1 else f" [{stage['concurrency']}]"
    room = min(_NAME, _WORDS - len(calls))
    name = stage["name"] if len(stage["name"]) <= room else f"{stage['name'][: room - 1]}…"
    cls = "box hot" if stage["id"] == document["limiting"] else "box"
    is_sink = stage is document["stages"][-1]
    title = f"{stage['name']}: {stage['num_calls']} calls, {stage['num_failures']} failed"
    said = f"{stage['rate']:.4g}/s"
    if stage["wall_per_call"]:
        said += f", {duration(stage['wall_per_call'])} each"
    parts = [
        rect(x, y, _BOX, 66, cls, title=title),
        text(x + 8, y + 18, name + calls, cls="bold"),
        text(x + 8, y + 35, said, cls="dim"),
    ]
    shares = (
        [(document["consumer_wait"], "f2", "waits")]
        if is_sink
        else [
            (stage["busy"] / stage["concurrency"], "f0", "busy"),
            (stage["starved"], "f2", "starved"),
            (stage["blocked"], "f1", "blocked"),
        ]
    )
    begin = x + 8
    for seconds, colour, what in shares:
        width = max(0.0, min((_BOX - 16) * seconds / elapsed, x + _BOX - 8 - begin))
        if width >= 1:
            share = f"{what} {seconds / elapsed * 100:.0f} % of the time"
            parts.append(rect(begin, y + 44, width, 6, colour, title=share))
            begin += width
    if stage["num_failures"]:
        parts.append(text(x + 8, y + 62, f"{stage['num_failures']} failed", cls="f1"))
    if stage["num_in_flight"]:
        parts.append(text(x + _BOX - 8, y + 62, f"{stage['num_in_flight']} running", cls="dim", anchor="end"))
    return "".join(parts)


def rates_over_time(document: Document) -> str | None:
    """Return a chart of items per second: of the consumer and of the stages. ``None``: there is only one moment."""
    moments = _moments(document)
    if len(moments) < 3:
        return None
    series = {"consumer": _rates([(moment[0], moment[1]) for moment in moments])}
    for position, stage in enumerate(document["stages"][:-1]):
        if len(series) < _MOST_LINES:
            name = f"{stage['id']} {stage['name']}"
            series[name] = _rates([(moment[0], moment[3][position]) for moment in moments])
    return _chart(series, "items/s", nice_limit(max(value for line in series.values() for _, value in line)))


def waits_over_time(document: Document) -> str:
    """Return a chart of the share of time, in percent, that the consumer waited."""
    waits = _rates([(moment[0], moment[2]) for moment in _moments(document)])
    return _chart({"consumer": [(at, min(100.0, 100 * value)) for at, value in waits]}, "% of each interval", 100.0)


def _moments(document: Document) -> list[Any]:
    """Return the moments, and add one for the start if it is missing, as in statistics of an interval."""
    history = document["history"]
    if not history or history[0][0] > document["elapsed"]:
        return list(history)
    zeros = [0] * len(document["stages"])
    return [[0.0, 0, 0.0, zeros], *(moment for moment in history if moment[0] > 0)]


def _rates(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return steps: the increase per second between two moments, at both of them."""
    found: list[tuple[float, float]] = []
    for (began, before), (ended, after) in pairwise(points):
        if ended > began:
            value = max(0.0, (after - before) / (ended - began))
            found += [(began, value), (ended, value)]
    return found


def _chart(series: Mapping[str, Sequence[tuple[float, float]]], unit: str, top: float) -> str:
    times = [at for points in series.values() for at, _ in points]
    first, last = min(times), max(times)
    right, bottom, head = _WIDTH - 190, _HEIGHT - _BOTTOM, 14

    def x(at: float) -> float:
        return _LEFT + (at - first) / (last - first) * (right - _LEFT)

    def y(value: float) -> float:
        return bottom - value / top * (bottom - head)

    parts = [line(_LEFT, bottom, right, bottom, "axis"), line(_LEFT, head, _LEFT, bottom, "axis")]
    for k in range(5):
        value, at = top * k / 4, first + (last - first) * k / 4
        parts.append(text(_LEFT - 6, y(value) + 4, f"{value:.4g}", cls="dim", anchor="end"))
        parts.append(text(x(at), bottom + 17, duration(at), cls="dim", anchor="middle"))
    parts.append(text(_LEFT, _HEIGHT - 4, f"{unit}, by the time since the start", cls="dim"))
    for number, (name, points) in enumerate(series.items()):
        colour = number % SERIES
        parts.append(polyline([(x(at), y(value)) for at, value in points], f"curve s{colour}"))
        parts.append(rect(right + 14, 14 + 20 * number, 12, 12, f"f{colour}"))
        parts.append(text(right + 32, 24 + 20 * number, name if len(name) <= 22 else f"{name[:21]}…"))
    return svg(_WIDTH, _HEIGHT, parts, unit, style="")
