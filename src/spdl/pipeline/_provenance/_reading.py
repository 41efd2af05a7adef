"""Reads a provenance log."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.resume._errors import ResumeError

from ._lines import VERSION, read_place

if TYPE_CHECKING:
    from spdl._random._seeds import ItemPlace

__all__ = ["LoggedBatch", "read_batch"]


class LoggedBatch(NamedTuple):
    """A batch, and the pipeline that made it."""

    step: int
    seed: int
    fingerprint: list[Any]
    place: ItemPlace


def read_batch(path: str | os.PathLike[str], step: int) -> LoggedBatch:
    """Return the newest batch with this number: a resumed run may have made some batches again.

    Raises:
        OSError: The file cannot be read.
        ResumeError: There is no such batch, or the file is damaged.
    """
    header: dict[str, Any] | None = None
    found: tuple[dict[str, Any] | None, int, bytes] | None = None
    newest = -1
    begin = b'{"step":%d,' % step
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.startswith(begin):
                if line.endswith(b"\n"):
                    found = header, number, line
            elif line.startswith(b'{"spdl":'):
                header = _parsed(path, number, line)
            elif line.startswith(b'{"step":'):
                newest = number
    if found is None:
        what = "has no batches" if newest < 0 else f"has no step {step}"
        raise ResumeError(f"cannot replay step {step}: the log {os.fspath(path)} {what}")
    own, number, line = found
    if own is None:
        raise ResumeError(f"cannot replay step {step}: the log {os.fspath(path)} has no header before line {number}")
    if own.get("spdl") != VERSION or type(own.get("seed")) is not int or not isinstance(own.get("fingerprint"), list):
        raise ResumeError(
            f"cannot replay step {step}: the header of the log {os.fspath(path)} is damaged or of another version"
        )
    batch = _parsed(path, number, line)
    try:
        place = read_place(batch.get("origin"), batch.get("epoch", 0))
    except (ValueError, RecursionError) as exc:
        raise ResumeError(
            f"cannot replay step {step}: line {number} of the log {os.fspath(path)} is damaged: {exc}"
        ) from exc
    return LoggedBatch(step, own["seed"], own["fingerprint"], place)


def _parsed(path: str | os.PathLike[str], number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as exc:
        raise ResumeError(f"cannot replay: line {number} of the log {os.fspath(path)} is damaged: {exc}") from exc
    if not isinstance(found, dict):
        raise ResumeError(f"cannot replay: line {number} of the log {os.fspath(path)} is not an object")
    return found
