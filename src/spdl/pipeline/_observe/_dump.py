"""``spdl dump``: what the pipelines of this process are doing right now, as records and as text.

The same report is written when a pipeline stalls and on the signal of ``spdl.debug.on_signal``.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

from spdl._processes._child import living_children
from spdl._processes._elsewhere import ELSEWHERE, WorkerElsewhere
from spdl._processes._stacks import stacks_of_all
from spdl._reports import frames_of_threads
from spdl.pipeline._observe._stats import PipelineStats
from spdl.pipeline._observe._units import seconds
from spdl.pipeline._records import CallInFlight


class Moment(NamedTuple):
    """One pipeline at one moment."""

    pipeline_id: int
    stats: PipelineStats
    calls: tuple[CallInFlight, ...]


def dump_as_json(moments: Sequence[Moment], *, with_stacks: bool = True) -> dict[str, Any]:
    """Return what ``text_of_dump`` formats: plain values, for JSON."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found: dict[str, Any] = {
        "pipelines": [
            {
                "id": moment.pipeline_id,
                "table": str(moment.stats),
                "calls": [_call_as_json(call, names) for call in moment.calls],
            }
            for moment in moments
        ],
        "threads": [],
        "processes": [],
    }
    if with_stacks:
        running = {call.thread_id: call.stage for moment in moments for call in moment.calls}
        found["threads"] = _threads(names, running)
        found["processes"] = _processes()
    return found


def dump_as_text(moments: Sequence[Moment]) -> str:
    return text_of_dump(dump_as_json(moments))


def text_of_dump(dump: dict[str, Any]) -> str:
    """Format what ``dump_as_json`` returned, here or in another process."""
    lines: list[str] = []
    for pipeline in dump["pipelines"]:
        lines += [f"pipeline {pipeline['id']}: {pipeline['table']}", *_calls(pipeline["calls"]), ""]
    if not dump["pipelines"]:
        lines += ["no pipeline is running", ""]
    for thread in dump["threads"]:
        what = f", runs {thread['stage']}" if thread["stage"] else ""
        lines += [f"thread {thread['name']}{what}:", thread["stack"], ""]
    for process in dump["processes"]:
        stacks = process["stacks"] or "(its stacks are not available)"
        where = f" on {process['host']}" if process["host"] else ""
        lines += [f"process {process['pid']}{where}, {process['what']}:", _indented(stacks), ""]
    return "\n".join(lines).rstrip()


def _calls(calls: Sequence[dict[str, Any]]) -> list[str]:
    if not calls:
        return ["no call is in flight"]
    lines = ["calls in flight:"]
    for call in calls:
        age = "" if call["age"] is None else f", for {seconds(call['age'])}"
        where = f", on {call['thread']}" if call["thread"] else ""
        lines.append(f"  {call['stage']}: item {call['item']}{age}{where}")
        if call["stack"]:
            lines.append(_indented(call["stack"].rstrip(), 4))
    return lines


def _call_as_json(call: CallInFlight, names: dict[int | None, str]) -> dict[str, Any]:
    return {
        "stage": call.stage,
        "item": call.item,
        "age": call.age,
        "thread": None if call.thread_id is None else names.get(call.thread_id, f"thread {call.thread_id}"),
        "stack": call.stack,
    }


def _threads(names: dict[int | None, str], running: dict[int | None, str]) -> list[dict[str, Any]]:
    """Return the stacks of all Python threads but the calling one: threads with calls first, then the main thread."""
    this, main = threading.get_ident(), threading.main_thread().ident
    found = []
    for ident, frame in frames_of_threads().items():
        if ident == this:
            continue
        stack = "".join(traceback.format_stack(frame)).rstrip()
        name = names.get(ident, f"{ident}")
        # A thread of a pipeline that has nothing to do.
        if ident not in running and name.startswith("spdl-") and stack.endswith("wake_up.acquire()"):
            continue
        found.append((ident not in running, ident != main, name, ident, stack))
    return [
        {"name": name, "id": ident, "stage": running.get(ident), "stack": stack}
        for *_, name, ident, stack in sorted(found)
    ]


def _processes() -> list[dict[str, Any]]:
    """Return the children of this process, and workers that are not its children, with their stacks."""
    everybody = [WorkerElsewhere(pid, None, what) for pid, what in living_children()] + ELSEWHERE.workers()
    here = [worker for worker in everybody if worker.host is None]
    own_stacks = stacks_of_all(worker.pid for worker in here)
    stacks: dict[WorkerElsewhere, str | None] = dict(zip(here, own_stacks, strict=True))
    if len(here) < len(everybody):
        stacks |= {worker: text for worker, text in ELSEWHERE.ask("stacks") if worker.host is not None}
    return [{**worker._asdict(), "stacks": stacks.get(worker)} for worker in everybody]


def _indented(text: str, width: int = 2) -> str:
    return "\n".join(" " * width + line if line else line for line in text.splitlines())
