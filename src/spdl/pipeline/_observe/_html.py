"""HTML reports, made from the documents of ``_document``: one page, which needs no scripts, other files or network."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from spdl.pipeline._observe._document import Document, cells
from spdl.pipeline._observe._units import duration, share

#: Number of colours for the lines of one chart; further lines reuse them from the first.
SERIES = 8

_LIGHT = ("#2563eb", "#c2410c", "#15803d", "#9333ea", "#b45309", "#0e7490", "#be185d", "#4d7c0f")
_DARK = ("#7aa2ff", "#ff9e64", "#73daca", "#c79bff", "#e0af68", "#5ccfe6", "#ff7eb6", "#b5d95c")


def _colours(colours: Sequence[str]) -> str:
    return "".join(f".spdl-svg .s{k}{{stroke:{c}}}.spdl-svg .f{k}{{fill:{c}}}" for k, c in enumerate(colours))


STYLE = (
    ".spdl-svg{font:12px system-ui,sans-serif}.spdl-svg text{fill:#222}.spdl-svg .dim{fill:#667}"
    ".spdl-svg .bold{font-weight:600}.spdl-svg .small{font-size:10px}.spdl-svg .axis{stroke:#aab;stroke-width:1}"
    ".spdl-svg .ideal{stroke:#99a;stroke-dasharray:4 3;fill:none}"
    ".spdl-svg .curve{fill:none;stroke-width:2;stroke-linejoin:round}.spdl-svg .ring{fill:none;stroke-width:2}"
    ".spdl-svg .box{fill:#f4f6fa;stroke:#aab}.spdl-svg .hot{stroke:#c2410c;stroke-width:2}"
    ".spdl-svg .edge{stroke:#889;fill:none;stroke-width:1.5}.spdl-svg .tip{fill:#889}"
    + _colours(_LIGHT)
    + "@media(prefers-color-scheme:dark){.spdl-svg text{fill:#dde}.spdl-svg .dim{fill:#9aa}"
    ".spdl-svg .axis{stroke:#556}.spdl-svg .ideal{stroke:#667}.spdl-svg .box{fill:#232733;stroke:#556}"
    ".spdl-svg .hot{stroke:#ff9e64}" + _colours(_DARK) + "}"
)

_STYLE = (
    ".spdl-report{font:14px/1.45 system-ui,sans-serif;max-width:1100px;margin:0 auto;color:#1c1e26}"
    ".spdl-report h1{font-size:1.5em;margin:.6em 0 .2em}.spdl-report h2{font-size:1.15em;margin:1.6em 0 .4em}"
    ".spdl-report .tiles{display:flex;flex-wrap:wrap;gap:10px;margin:.8em 0}"
    ".spdl-report .tile{background:#f4f6fa;border-radius:8px;padding:8px 14px;min-width:90px}"
    ".spdl-report .tile b{display:block;font-size:1.25em}.spdl-report .tile span{color:#667}"
    ".spdl-report .verdict{background:#fff4e5;border-left:4px solid #c2410c;padding:8px 12px;white-space:pre-wrap}"
    ".spdl-report .wide{overflow-x:auto}.spdl-report table{border-collapse:collapse;font-size:13px}"
    ".spdl-report td,.spdl-report th{padding:3px 9px;text-align:right;border-bottom:1px solid #dde;white-space:nowrap}"
    ".spdl-report td:first-child,.spdl-report th:first-child,.spdl-report td.text,.spdl-report th.text{text-align:left}"
    ".spdl-report td:first-child{white-space:normal;max-width:260px;overflow-wrap:anywhere}"
    ".spdl-report td.text{white-space:normal;overflow-wrap:anywhere}.spdl-report tr.hot td{font-weight:600}"
    ".spdl-report .dim{color:#667}.spdl-report .busy{color:#2563eb}.spdl-report .starved{color:#15803d}"
    ".spdl-report .blocked{color:#c2410c}"
    "@media(prefers-color-scheme:dark){.spdl-report{color:#dde}.spdl-report .tile{background:#232733}"
    ".spdl-report .verdict{background:#33271c;border-color:#ff9e64}"
    ".spdl-report td,.spdl-report th{border-color:#3a3f4d}"
    ".spdl-report .tile span,.spdl-report .dim{color:#9aa}.spdl-report .busy{color:#7aa2ff}"
    ".spdl-report .starved{color:#73daca}.spdl-report .blocked{color:#ff9e64}}"
)

_PAGE_STYLE = (
    ":root{color-scheme:light dark}body{margin:0;padding:16px}"
    "@media(prefers-color-scheme:dark){body{background:#171a22}}"
)

_LEGEND = (
    '<p class="dim">Bars: share of the time in which <b class="busy">calls ran</b> (of all calls at once), the stage '
    'was <b class="starved">starved</b> (a free slot and no input), and <b class="blocked">blocked</b> '
    "(a result and no room).</p>"
)


def page(documents: Sequence[Document], titles: Sequence[str] = ()) -> str:
    """Return a page about one or several pipelines. ``titles``: of each; by default the number of the pipeline."""
    names = list(titles) or [f"Pipeline {document['pipeline']}" for document in documents]
    parts = [_section(document, title, "h1") for document, title in zip(documents, names, strict=True)]
    data = json.dumps(list(documents)).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(', '.join(names))}</title><style>{_PAGE_STYLE}{_STYLE}{STYLE}</style></head><body>"
        f'<main class="spdl-report">{"".join(parts)}</main>'
        f'<script type="application/json" id="spdl-stats">{data}</script></body></html>\n'
    )


def fragment(document: Document) -> str:
    """Return the report as a part of a page, for notebooks."""
    section = _section(document, f"Pipeline {document['pipeline']}", "h3")
    return f'<div class="spdl-report"><style>{_STYLE}{STYLE}</style>{section}</div>'


def _section(document: Document, title: str, heading: str) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(document["time"]))
    parts = [
        f'<section><{heading}>{escape(title)}</{heading}><div class="dim">{escape(document["state"])}, {at}</div>',
        _tiles(document),
        _verdict(document),
        f'<h2>Stages</h2><div class="wide">{graph(document)}</div>{_LEGEND}<div class="wide">{_table(document)}</div>',
    ]
    if (rates := rates_over_time(document)) is not None:
        parts.append(f"<h2>Rates over time</h2>{rates}")
        parts.append(f"<h2>Waits of the consumer over time</h2>{waits_over_time(document)}")
    else:
        parts.append(
            '<p class="dim">There are no rates over time: they are between the calls of <code>stats()</code>, and '
            "between the reports of <code>build(report_stats_interval=)</code>.</p>"
        )
    parts.append(_failures(document))
    return "".join([*parts, "</section>"])


def _tiles(document: Document) -> str:
    elapsed = document["elapsed"]
    failures = sum(stage["num_failures"] for stage in document["stages"])
    tiles = (
        (f"{document['num_items']}", "items"),
        (f"{document['num_items'] / elapsed:.4g}/s" if elapsed else "-", "rate"),
        (share(document["consumer_wait"], elapsed).replace("%", " %"), "consumer waited"),
        (str(failures), "failures"),
        (duration(elapsed), "time"),
        (str(document["num_threads"]), "threads"),
    )
    parts = (f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in tiles)
    return f'<div class="tiles">{"".join(parts)}</div>'


def _verdict(document: Document) -> str:
    said = document["verdict"] or ""
    if document["limiting"] is not None:
        stages = {stage["id"]: stage["name"] for stage in document["stages"]}
        name = stages[document["limiting"]]
        if document["limiting"] == document["stages"][-1]["id"]:
            said = f"{said}\nLimiting stage: the consumer. It takes longer than the pipeline."
        elif name not in said:
            said = f"{said}\nLimiting stage: {name}"
    return f'<div class="verdict">{escape(said.strip())}</div>' if said else ""


#: Columns that are left out if nothing is in them: few pipelines drop items, few reports are made while calls run.
_OPTIONAL = ("failed", "dropped", "replaced", "missing", "running")


def _table(document: Document) -> str:
    rows = []
    for stage in document["stages"]:
        found = cells(stage, document)
        calls = "" if stage["concurrency"] == 1 else f"[{stage['concurrency']}]"
        found["stage"] = f"{stage['id']} {stage['name']}{calls}"
        found["replaced"] = str(stage.get("num_substituted") or "")  # documents of older versions have neither
        found["missing"] = str(stage.get("num_lost") or "")
        rows.append(found)
    columns = [name for name in rows[0] if name not in _OPTIONAL or any(row[name] for row in rows)] if rows else []
    body = []
    for stage, row in zip(document["stages"], rows, strict=True):
        hot = ' class="hot"' if stage["id"] == document["limiting"] else ""
        body.append(f"<tr{hot}>" + "".join(f"<td>{escape(row[name])}</td>" for name in columns) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _failures(document: Document) -> str:
    rows = [
        f'<tr><td>{escape(stage["name"])}</td><td class="text">{escape(failure["origin"])}</td>'
        f'<td class="text">{escape(failure["item"])}</td><td class="text">{escape(failure["error"])}</td></tr>'
        for stage in document["stages"]
        for failure in stage["failures"]
    ]
    if not rows:
        return ""
    head = '<th>stage</th><th class="text">position</th><th class="text">item</th><th class="text">error</th>'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<h2>Newest failures</h2><div class="wide">{table}</div>'


def svg(width: float, height: float, parts: Sequence[str], label: str, *, style: str = STYLE) -> str:
    """Return an image that scales down with the page."""
    return (
        '<svg class="spdl-svg" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'style="max-width:100%" role="img" aria-label="{escape(label)}">'
        + (f"<style>{style}</style>" if style else "")
        + "".join(parts)
        + "</svg>"
    )


def text(x: float, y: float, words: str, *, cls: str = "", anchor: str = "start") -> str:
    of_class = f' class="{cls}"' if cls else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of_class}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{cls}"/>'


def polyline(points: Sequence[tuple[float, float]], cls: str) -> str:
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" class="{cls}"/>'


def circle(x: float, y: float, radius: float, cls: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{cls}"/>'


def rect(x: float, y: float, width: float, height: float, cls: str, *, title: str = "") -> str:
    inside = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4" class="{cls}">{inside}</rect>'
    )


def nice_limit(largest: float) -> float:
    """Return the end of an axis: 1, 2, 2.5 or 5 times a power of ten, not below ``largest``."""
    if largest <= 0:
        return 1.0
    power = 10.0 ** int(f"{largest:e}".partition("e")[2])
    return next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= largest * (1 - 1e-9))


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
            title = f"{what} {seconds / elapsed * 100:.0f} % of the time"
            parts.append(rect(begin, y + 44, width, 6, colour, title=title))
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
