"""Statistics as a document of plain values that has all that is shown of them, and as text and numbers made of it.

The document is what ``to_json`` writes; ``_html.py`` makes a page of documents. Functions that take a ``PipelineStats``
have ``Any`` as its type, because its file imports this one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from textwrap import wrap
from typing import Any, Final, TypeAlias

from spdl._reports import describe_exception, shown
from spdl.pipeline._info import StageInfo
from spdl.pipeline._observe._units import count, rate, seconds, share

Document: TypeAlias = Mapping[str, Any]

VERSION: Final = 1


def document_of(stats: Any) -> dict[str, Any]:
    """Return the statistics as a dictionary of plain values."""
    limiting, sentence = stats._explained()
    return {
        "spdl_stats": VERSION,
        "time": time.time(),
        "pipeline": stats.stages[0].info.pipeline_id if stats.stages else None,
        **{
            name: getattr(stats, name)
            for name in ("state", "elapsed", "num_threads", "num_items", "unit", "consumer_wait")
        },
        "limiting": None if limiting is None else limiting.info.stage_id,
        "verdict": sentence or None,
        "stages": [_stage(stage) for stage in stats.stages],
        "history": [[*moment[:3], list(moment[3])] for moment in stats.history],
    }


def _stage(stage: Any) -> dict[str, Any]:
    return {
        "id": stage.info.stage_id,
        "name": stage.info.stage_name,
        "concurrency": stage.info.concurrency or 1,
        "inputs": list(stage.inputs),
        **{name: getattr(stage, name) for name in STAGE_FIELDS},
        "failures": [
            {"origin": shown(failure.origin), "item": failure.item_repr, "error": describe_exception(failure.error)}
            for failure in stage.failures
        ],
    }


def written(text: str, path: str | PathLike[str] | None) -> str:
    """Return ``text``, and write it to a file if ``path`` is given."""
    if path is not None:
        with open(fspath(path), "w", encoding="utf-8") as file:
            file.write(text)
    return text


_PIPELINE_FIELDS: Final = ("elapsed", "num_threads", "num_items", "rate", "consumer_wait")
#: The attributes of ``StageStats`` that are numbers. Their names are part of the public contract.
STAGE_FIELDS: Final = (
    *("num_calls", "num_failures", "num_dropped", "num_substituted", "num_lost", "num_redealt", "num_in_flight"),
    *("num_emitted", "busy", "starved", "blocked", "wall_per_call", "cpu_per_call", "queue_len", "queue_capacity"),
    *("occupancy", "rate"),
)


def flat(stats: Any, prefix: str) -> dict[str, float]:
    """Return ``{prefix + name: number}`` of the pipeline, and ``{prefix + stage/name: number}`` of each stage."""
    found = {prefix + name: getattr(stats, name) for name in _PIPELINE_FIELDS}
    for key, stage in zip(stage_keys(stats), stats.stages, strict=True):
        for name in STAGE_FIELDS:
            if (value := getattr(stage, name)) is not None:
                found[f"{prefix}{key}/{name}"] = value
    return found


def stage_keys(stats: Any) -> list[str]:
    """Return a name for each stage: letters, digits, ``_``, ``-`` and ``.``, each name once.

    Several stages of one name get their numbers: ``decode.1`` and ``decode.4``.
    """
    names = [re.sub(r"[^A-Za-z0-9_.-]+", "_", stage.info.stage_name).strip("_") or "stage" for stage in stats.stages]
    return [
        name if names.count(name) == 1 else f"{name}.{stage.info.stage_id}"
        for name, stage in zip(names, stats.stages, strict=True)
    ]


# --------------------------------------------------------------------------------------------------------------- table

#: Maximum number of columns of the table.
WIDTH = 100
#: The column of names is shortened to make room for the others, but not below this width.
_NAME = 16
#: Columns that are left out, in this order, where there is no room. ``dropped`` comes last: it shows lost items.
_OPTIONAL = ("full", "CPU", "running", "mean", "calls", "dropped")


def table(document: Document, width: int = WIDTH) -> str:
    """Return the table that ``str(stats)`` shows; ``->`` marks the limiting stage.

    Below 72 columns or so, columns of numbers no longer fit, and lines are longer than ``width``.
    """
    return "\n".join([*wrap(headline(document), width, subsequent_indent="   "), *stage_lines(document, width)])


def headline(document: Document) -> str:
    """Return the line about the whole pipeline."""
    elapsed, num_items, num_threads = document["elapsed"], document["num_items"], document["num_threads"]
    unit = {"items": "item", "batches": "batch"}[document["unit"]] if num_items == 1 else document["unit"]
    threads = "1 thread" if num_threads == 1 else f"{num_threads} threads"
    waited = f"; the consumer waited {share(document['consumer_wait'], elapsed)} of the time" if elapsed else ""
    made = rate(num_items / elapsed if elapsed > 0 else 0.0)
    return f"{document['state']}, {seconds(elapsed)}, {threads}: {num_items} {unit}, {made}/s{waited}"


def stage_lines(document: Document, width: int = WIDTH) -> list[str]:
    """Return the lines of the table that follow the headline: those about stages."""
    stages = document["stages"]
    names = {stage["id"]: _name(stage, document) for stage in stages}
    rows = [(stage["id"] == document["limiting"], cells(stage, document)) for stage in stages]
    lines = aligned(rows, width)
    for stage in stages:
        lines += wrap(text, width, subsequent_indent="   ") if (text := _losses(stage, names[stage["id"]])) else []
    if document["limiting"] is not None:
        limiting = names[document["limiting"]]
        if document["limiting"] == stages[-1]["id"]:
            waited = share(document["consumer_wait"], document["elapsed"])
            limiting += f", which stands for the consumer: it waited only {waited} of the time"
        lines += wrap(f"-> limiting stage: {limiting}", width, subsequent_indent="   ")
        lines += wrap(document["verdict"] or "", width)
    return lines


def cells(stage: Document, document: Document) -> dict[str, str]:
    """Return the cells of a stage by column; shares refer to the elapsed time, ``busy`` to that of all usable slots.

    The sink makes no calls, and its queue is read by the consumer.
    """
    is_sink = stage is document["stages"][-1]
    elapsed, wall, cpu = document["elapsed"], stage["wall_per_call"], stage["cpu_per_call"]
    length, capacity = stage["queue_len"], stage["queue_capacity"]
    # Calls whose CPU time is not measured run outside the worker threads.
    is_outside = wall > 0 and cpu is None
    slots = stage["concurrency"] if is_outside else max(1, min(stage["concurrency"], document["num_threads"]))
    return {
        "stage": _name(stage, document),
        "calls": "" if is_sink else count(stage["num_calls"]),
        **{
            name: count(stage[f"num_{of}"]) if stage[f"num_{of}"] else ""
            for name, of in (("failed", "failures"), ("dropped", "dropped"), ("running", "in_flight"))
        },
        "mean": "" if is_sink or not wall else seconds(wall),
        "CPU": "" if cpu is None or wall <= 0 else share(cpu, wall),  # of a call, that its thread was on a CPU
        "busy": "" if is_sink else share(stage["busy"], elapsed * slots),
        "starved": "" if is_sink else share(stage["starved"], elapsed),
        "blocked": "" if is_sink else share(stage["blocked"], elapsed),
        "queue": f"{length}/{capacity}" if capacity else "",
        "full": share(stage["occupancy"]) if capacity else "",
        "items/s": rate(stage["rate"]),
    }


def _name(stage: Document, document: Document) -> str:
    calls = stage["concurrency"]
    return str(StageInfo(document["pipeline"], stage["id"], stage["name"], calls if calls > 1 else None))


def _losses(stage: Document, name: str) -> str:
    """Return the substitutes of a stage and the parts missing from its results, as a line; empty if there are none.

    This is a line rather than a column, because columns are left out when there is no room.
    """
    substituted, lost, redealt = (stage.get(each, 0) for each in ("num_substituted", "num_lost", "num_redealt"))
    parts = []
    if substituted:
        have = "has" if substituted == 1 else "have"
        parts.append(f"{count(substituted)} of {count(stage['num_failures'])} failed calls {have} a substitute")
    if lost:
        are = "part, such as an image of a batch, is" if lost == 1 else "parts, such as images of a batch, are"
        parts.append(f"{count(lost)} {are} missing from results")
    if redealt:
        were = "item was" if redealt == 1 else "items were"
        parts.append(f"{count(redealt)} {were} sent again because a worker died")
    return f"   {_shortened(name, _NAME * 2)}: {'; '.join(parts)}" if parts else ""


def aligned(rows: Sequence[tuple[bool, dict[str, str]]], width: int = WIDTH) -> list[str]:
    """Return a header and a line for each row of cells. A row that is ``True`` is marked with ``->``."""
    if not rows:
        return []
    columns = [name for name in rows[0][1] if name not in ("failed", "dropped") or any(each[name] for _, each in rows)]
    for optional in ("", *_OPTIONAL):
        columns = [name for name in columns if name != optional]
        widths = {name: max(len(name), *(len(each[name]) for _, each in rows)) for name in columns}
        room = width - 3 - sum(widths[name] + 2 for name in columns[1:])
        if room >= min(_NAME, widths["stage"]):
            break
    widths["stage"] = min(widths["stage"], max(room, _NAME))
    lines = []
    for is_marked, each in ((False, {name: name for name in columns}), *rows):
        name = _shortened(each["stage"], widths["stage"]).ljust(widths["stage"])  # numbers are on the right
        numbers = (each[column].rjust(size) for column, size in widths.items() if column != "stage")
        lines.append("  ".join((f"{'->' if is_marked else '':2} {name}", *numbers)).rstrip())
    return lines


def _shortened(name: str, width: int) -> str:
    """Leave out the middle of a long name: the ends differ most between stages."""
    if len(name) <= width:
        return name
    tail = (width - 1) // 3
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


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
