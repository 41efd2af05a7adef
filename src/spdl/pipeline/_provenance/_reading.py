"""Reads a provenance log."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.resume._values import ResumeError

from ._lines import VERSION, read_place

if TYPE_CHECKING:
    from spdl._random import ItemPlace


class LoggedBatch(NamedTuple):
    """A batch, and the pipeline that made it."""

    step: int
    seed: int
    fingerprint: list[Any]
    place: ItemPlace


def read_batch(path: str | os.PathLike[str], step: int) -> list[LoggedBatch]:
    """Return the batches with this number, one for each run that has it, newest first.

    A resumed run may have made some batches again, and several pipelines may have appended in turns.

    Raises:
        OSError: The file cannot be read.
        ResumeError: There is no such batch, or the file is damaged.
    """
    headers: dict[str, dict[str, Any]] = {}
    found: dict[str, tuple[int, dict[str, Any]]] = {}
    damage = "has no batches"
    begin = b'{"step":%d,' % step
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.startswith(b'{"spdl":'):
                header = _parsed(line)
                if header is not None:
                    headers[header["run"]] = header
            elif line.startswith(begin):
                batch = _parsed(line)
                if batch is None:  # torn by a kill, or being written
                    damage = f"is damaged in line {number}: it is no whole line of such a log"
                else:
                    found.pop(batch["run"], None)  # so that the newest line stands last
                    found[batch["run"]] = number, batch
            elif line.startswith(b'{"step":') and damage == "has no batches":
                damage = f"has no step {step}"
    if not found:
        raise ResumeError(f"cannot replay step {step}: the log {os.fspath(path)} {damage}")
    return [_batch(path, step, headers, run, *found[run]) for run in reversed(found)]


def _batch(
    path: str | os.PathLike[str],
    step: int,
    headers: dict[str, dict[str, Any]],
    run: str,
    number: int,
    batch: dict[str, Any],
) -> LoggedBatch:
    own = headers.get(run)
    log = f"cannot replay step {step}: the log {os.fspath(path)}"
    if own is None:
        raise ResumeError(f"{log} has no header of the run of line {number}")
    if own.get("spdl") != VERSION or type(own.get("seed")) is not int or not isinstance(own.get("fingerprint"), list):
        raise ResumeError(f"{log} has a damaged header, or one of another version, for line {number}")
    try:
        epoch = batch.get("epoch")
        if type(epoch) is not int:
            raise ValueError(f"no epoch: {epoch!r}")
        place = read_place(batch.get("origin"), epoch)
    except (ValueError, RecursionError) as exc:
        raise ResumeError(f"{log} is damaged in line {number}: {exc}") from exc
    return LoggedBatch(step, own["seed"], own["fingerprint"], place)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line; ``None``: it is damaged."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    run = found.get("run") if isinstance(found, dict) else None
    return found if type(run) is str and line.endswith(b"\n") else None
