"""``QuarantineFile``: appends a line for each failed item.

A line is one JSON object, and one ``write`` to a file opened with ``O_APPEND``. So a kill tears no line, and several
processes may append to one file. It is opened again at the first failure, so a pipeline in which nothing fails holds no
descriptor, and closed when the pipeline has ended.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from spdl._reports import cause_of, log, name_of, text_of

if TYPE_CHECKING:
    from types import TracebackType

    from ._event import FailureEvent

__all__ = ["VERSION", "QuarantineFile"]

VERSION: Final = 1

_LOG = logging.getLogger("spdl.pipeline")
_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_MODE: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
#: Longer messages, and stacks from other processes, are cut. The numbers of frames: the outermost and the innermost.
_MOST_CHARACTERS: Final = 2000
_MOST_FRAMES: Final = 24


class QuarantineFile:
    """Raises :class:`OSError` if the file cannot be opened. Later failures to write are logged once.

    Args:
        path: The file.
        rank: Rank of this process; ``None``: that of the launcher (``RANK``, ``SLURM_PROCID``), or 0.
    """

    def __init__(self, path: str, rank: int | None) -> None:
        self._path = os.path.abspath(path)
        self._rank = _rank_of_process() if rank is None else rank
        self._run = os.urandom(4).hex()
        self._was_logged = False
        self._is_torn = False  # the last line in the file may not be whole
        self._guard = threading.Lock()  # of the descriptor
        self._fd: int | None = None
        self._has_ended = False
        fd = os.open(self._path, _MODE, 0o666)
        try:
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if size:
            with open(self._path, "rb") as file:
                file.seek(size - 1)
                self._is_torn = file.read(1) not in (b"\n", b"")

    def write(self, event: FailureEvent) -> None:
        """Append a line. Never raises."""
        try:
            self._append(_line_of(event, self._run, self._rank))
        except Exception as exc:  # noqa: BLE001 - a full disk, or an exception that cannot be shown
            if not self._was_logged:
                self._was_logged = True
                text = "cannot write a failed item to the quarantine file %s; further errors of this are not logged"
                log(_LOG, logging.WARNING, text, self._path, exc_info=exc)

    def close(self) -> None:
        """The pipeline has ended. Calls that return later are still written."""
        with self._guard:
            self._has_ended = True
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _append(self, line: bytes) -> None:
        with self._guard:
            if self._fd is None:
                self._fd = os.open(self._path, _MODE, 0o666)
            if self._is_torn:
                line = b"\n" + line
            try:
                written = os.write(self._fd, line)
            finally:
                if self._has_ended:
                    self._close()
            self._is_torn = written != len(line)
        if self._is_torn:
            raise OSError(f"only {written} of {len(line)} bytes were written: is the disk full?")


def _rank_of_process() -> int:
    for name in ("RANK", "SLURM_PROCID"):
        with suppress(ValueError):
            return int(os.environ.get(name, ""))
    return 0


def _line_of(event: FailureEvent, run: str, rank: int) -> bytes:
    error, origin = event.error, event.origin
    items = () if origin is None else origin.items
    positions = [item.position for item in items]
    keys = [item.item for item in items]
    is_one = len(items) == 1
    values: dict[str, Any] = {
        "v": VERSION,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "run": run,
        "rank": rank,
        "epoch": items[0].epoch if items else None,
        "position": positions[0] if is_one else positions or None,
        "key": keys[0] if is_one else keys or None,
        "stage": event.stage,
        "item": event.item_repr,
        "error": getattr(error, "type_name", None) or name_of(error),
        "message": _cut(text_of(error)),
        "attempts": event.attempts,
        "seconds": round(event.seconds, 6),
        "worker": f"{event.worker} (pid {os.getpid()})" if "pid" not in event.worker else event.worker,
        "outcome": event.outcome,
        "stack": _stack_of(error),
    }
    if any(item.source for item in items):
        values["source"] = items[0].source
    return _JSON.encode(values).encode() + b"\n"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _stack_of(error: BaseException) -> list[str]:
    """The frames of the exception and of its cause, outermost first. ``traceback`` would read the source files."""
    remote = getattr(error, "remote_traceback", None)
    if isinstance(remote, str):
        text = remote if len(remote) <= _MOST_CHARACTERS else "..." + remote[3 - _MOST_CHARACTERS :]
        return text.splitlines()
    found: list[str] = []
    cause = cause_of(error)
    if cause is not None and cause is not error:
        found = [*_frames_of(cause), f"{name_of(cause)}: {_cut(text_of(cause))}", "which was the cause of"]
    return found + _frames_of(error)


def _frames_of(error: BaseException) -> list[str]:
    found: list[str] = []
    each: TracebackType | None = object.__getattribute__(error, "__traceback__")
    while each is not None:
        code = each.tb_frame.f_code
        found.append(f"{code.co_filename}:{each.tb_lineno} in {code.co_name}")
        each = each.tb_next
    if len(found) > _MOST_FRAMES:
        half = _MOST_FRAMES // 2
        found[half:-half] = ["..."]
    return found
