"""HTML reports, made from the documents of ``_document``: one page, which needs no scripts, other files or network."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from spdl.pipeline._observe._durations import duration
from spdl.pipeline._observe._html_charts import graph, rates_over_time, waits_over_time
from spdl.pipeline._observe._svg import STYLE

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

Document = Mapping[str, Any]


def page(documents: Sequence[Document], titles: Sequence[str] = ()) -> str:
    """Return a page about one or several pipelines.

    Args:
        documents: Results of ``document_of``.
        titles: A title for each of them; by default the number of the pipeline.
    """
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
        (_share(document["consumer_wait"], elapsed), "consumer waited"),
        (str(failures), "failures"),
        (duration(elapsed), "time"),
        (str(document["num_threads"]), "threads"),
    )
    return f'<div class="tiles">{"".join(_tile(value, name) for value, name in tiles)}</div>'


def _tile(value: str, name: str) -> str:
    return f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'


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


_HEADER = (
    "stage",
    "calls",
    "failed",
    "dropped",
    "replaced",
    "missing",
    "running",
    "per call",
    "CPU",
    "busy",
    "starved",
    "blocked",
    "queue",
    "full",
    "items/s",
)


_OPTIONAL = (2, 3, 4, 5, 6)


def _table(document: Document) -> str:
    rows = [_cells(stage, document) for stage in document["stages"]]
    # Few pipelines drop items, and few reports are made while calls run.
    used = [k for k in range(len(_HEADER)) if k not in _OPTIONAL or any(row[k] for row in rows)]
    body = []
    for stage, row in zip(document["stages"], rows, strict=True):
        hot = ' class="hot"' if stage["id"] == document["limiting"] else ""
        body.append(f"<tr{hot}>" + "".join(f"<td>{escape(row[k])}</td>" for k in used) + "</tr>")
    head = "".join(f"<th>{_HEADER[k]}</th>" for k in used)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _cells(stage: Mapping[str, Any], document: Document) -> tuple[str, ...]:
    elapsed = document["elapsed"]
    calls = "" if stage["concurrency"] == 1 else f"[{stage['concurrency']}]"
    is_sink = stage is document["stages"][-1]
    return (
        f"{stage['id']} {stage['name']}{calls}",
        "" if is_sink else str(stage["num_calls"]),
        str(stage["num_failures"] or ""),
        str(stage["num_dropped"] or ""),
        str(stage.get("num_substituted") or ""),  # documents of older versions have neither
        str(stage.get("num_lost") or ""),
        str(stage["num_in_flight"] or ""),
        duration(stage["wall_per_call"]) if stage["wall_per_call"] else "",
        "" if stage["cpu_per_call"] is None else duration(stage["cpu_per_call"]),
        "" if is_sink else _share(stage["busy"] / stage["concurrency"], elapsed),
        "" if is_sink else _share(stage["starved"], elapsed),
        "" if is_sink else _share(stage["blocked"], elapsed),
        f"{stage['queue_len']}/{stage['queue_capacity']}",
        _share(stage["occupancy"], 1.0),
        f"{stage['rate']:.4g}",
    )


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


def _share(part: float, whole: float) -> str:
    return f"{min(1.0, max(0.0, part / whole)) * 100:.0f} %" if whole > 0 else "-"
