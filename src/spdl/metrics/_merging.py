"""Merges traces of pipelines and of torch's profiler into one file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any


def merge_traces(paths: Iterable[str | PathLike[str]], path: str | PathLike[str]) -> int:
    """Merge several traces into one file with a common timeline.

    .. code-block:: python

        with torch.profiler.profile() as profile, pipeline.trace("pipeline.json"):
            train()
        profile.export_chrome_trace("torch.json")
        metrics.merge_traces(["torch.json", "pipeline.json"], "run.perfetto.json")

    Args:
        paths: Files of ``Pipeline.trace`` and of ``torch.profiler``, from one machine or from several with synchronised
            clocks. They may be compressed with gzip. Files of pipelines may be truncated.
        path: File to write.

    Returns:
        The number of events written.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: A file is not a trace.
    """
    traces = [_read(fspath(each)) for each in paths]
    if not traces:
        raise ValueError("paths must name at least one trace, got none")
    base = _base_of(*traces[0])
    merged: dict[str, Any] = {}
    events: list[dict[str, Any]] = []
    named: set[Any] = set()  # processes that already have a name
    for header, found in traces:
        shift = (_base_of(header, found) - base) / 1e3
        merged = {**header, **merged}
        for event in found:
            if event.get("name") == "process_name" and event.get("ph") == "M":
                if event.get("pid") in named:
                    continue
                named.add(event.get("pid"))
            if shift and "ts" in event:
                event["ts"] = event["ts"] + shift
            events.append(event)
    merged["baseTimeNanoseconds"] = base
    merged["traceEvents"] = events
    with open(fspath(path), "w", encoding="utf-8") as file:
        json.dump(merged, file, separators=(",", ":"))
    return len(events)


def _read(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the metadata of the trace, and the events."""
    with open(path, "rb") as file:
        data = file.read()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", errors="replace")
    try:
        found = json.loads(text)
    except ValueError as exc:
        if not text.startswith("[\n"):
            raise ValueError(f"{path} is not a trace: {exc}") from exc
        found = list(_whole_lines(text))
    if isinstance(found, dict) and isinstance(found.get("traceEvents"), list):
        events = found.pop("traceEvents")
        return found, events
    if isinstance(found, list):
        return {}, found
    raise ValueError(f"{path} is not a trace: it has no list of events")


def _whole_lines(text: str) -> Iterable[dict[str, Any]]:
    """The events of a file with one event per line, up to where it is truncated."""
    for line in text.split("\n")[1:]:
        try:
            yield json.loads(line.rstrip(","))
        except ValueError:
            return


def _base_of(header: dict[str, Any], events: list[dict[str, Any]]) -> int:
    """Return the time origin of the trace, in nanoseconds of Unix time."""
    if "baseTimeNanoseconds" in header:
        return int(header["baseTimeNanoseconds"])
    for event in events[:8]:
        if event.get("name") == "spdl_clock":
            return int(event["args"]["base_time_ns"])
    return 0  # older versions of torch write Unix times
