"""Failed items: as the user gets them, as lines of the quarantine file, and as they are read from there."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from spdl._errors import RemoteOpError, WorkerError
from spdl._reports import cause_of, log, name_of, printable, shown, text_of
from spdl.pipeline._engine._stages._merge import CustomMergeStage
from spdl.pipeline._info import StageInfo
from spdl.pipeline._line_file import LineFile
from spdl.pipeline._provenance._origin import BatchOrigin, leaves_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline._engine._failures import Failure
    from spdl.pipeline._records import FailureOutcome

_LOG = logging.getLogger("spdl.pipeline")

VERSION: Final = 1
Key: TypeAlias = "int | str | None"


@dataclass(frozen=True, slots=True)
class FailureEvent:
    """A failed item, for ``build(on_failure=...)``.

    Attributes:
        item: What the op was called with. ``None`` if it failed in a worker of a region, where its input stays.
        stage: Name of the stage.
        error: Exception of the last attempt, with its traceback.
        attempts: Number of attempts made.
        seconds: Time that the call took, with all attempts.
        origin: Where the item comes from: positions and keys. ``None`` behind a custom merge op, where it is not
            known.
        outcome: What became of the item: ``"dropped"``, ``"substituted"`` or ``"raised"``; see ``pipe(on_error=...)``.
        item_repr: Short ``repr`` of the item.
        worker: Name of the thread or process on which the failure became known.
    """

    item: Any = field(repr=False)
    stage: str
    error: BaseException
    attempts: int
    seconds: float
    origin: BatchOrigin | None
    outcome: FailureOutcome
    item_repr: str
    worker: str

    def __repr__(self) -> str:
        """As that of any dataclass, with the exception's in a length and with characters that can be shown."""
        names = (name for name in self.__slots__ if name != "item")
        return f"FailureEvent({', '.join(f'{name}={printable(shown(getattr(self, name)))}' for name in names)})"


@dataclass(frozen=True, slots=True)
class QuarantinedItem:
    """A line of a quarantine file.

    Attributes:
        keys: Items that the source gave: one, or all items of a batch that failed as a whole. ``None`` for an item that
            is neither a number, a text nor a path.
        stage: Name of the stage.
        error: Name of the class of the exception.
        message: Its text.
        line: The line as it is in the file.
        size: If the keys are indices, the number of items that the source had; ``None``: not known.
    """

    keys: tuple[Key, ...]
    stage: str
    error: str
    message: str
    line: str
    size: int | None = None

    @property
    def key(self) -> Key:
        """The key of a single item. ``None``: the item has no key, or a whole batch failed."""
        return self.keys[0] if len(self.keys) == 1 else None


def read_quarantine(path: str | os.PathLike[str]) -> list[QuarantinedItem]:
    """Return the lines of a file. Damaged lines are skipped, with one warning.

    Raises:
        OSError: The file cannot be read.
    """
    found: list[QuarantinedItem] = []
    num_damaged = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                continue
            if (item := _item_of(line)) is not None:
                found.append(item)
            else:
                num_damaged += 1
    if num_damaged:
        text = "skipped %d lines of %s that are damaged or not from a quarantine file"
        log(_LOG, logging.WARNING, text, num_damaged, os.fspath(path))
    return found


def _item_of(line: str) -> QuarantinedItem | None:
    try:
        values: Any = json.loads(line)
        if values["v"] != VERSION:
            return None
        keys = values["key"]
        keys = tuple(keys) if isinstance(keys, list) else (keys,)
        if not all(key is None or type(key) in (int, str) for key in keys):
            return None
        stage, error, message = values["stage"], values["error"], values["message"]
        size = values.get("size")
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not all(isinstance(each, str) for each in (stage, error, message)):
        return None
    return QuarantinedItem(keys, stage, error, message, line.rstrip("\n"), size if type(size) is int else None)


#: Quotes text as ASCII JSON, including the surrogates in paths that are not valid text.
_quoted: Final = json.encoder.encode_basestring_ascii
#: Longer messages, and stacks from other processes, are cut. The numbers of frames: the outermost and the innermost.
_MOST_CHARACTERS: Final = 2000
_MOST_FRAMES: Final = 24


class QuarantineFile:
    """Raises :class:`OSError` if the file cannot be opened. Later failures to write are logged once.

    ``rank`` is ``None`` for that of the launcher (``RANK``, ``SLURM_PROCID``), or 0. ``sizes`` has by source the number
    of items that its indices refer to; ``None``: unknown.
    """

    def __init__(self, path: str, rank: int | None, sizes: Mapping[int, int | None]) -> None:
        self._file = LineFile(path, "quarantine file")
        rank = _rank_of_process() if rank is None else rank
        self._head = f'"run":"{os.urandom(4).hex()}","rank":{rank}'
        self._sizes = sizes
        self._second = 0, ""  # the newest second, and the same as text
        self._was_logged = False

    def write(self, event: FailureEvent) -> None:
        """Append a line. Never raises."""
        try:
            self._file.append(_line_of(event, self._head, self._time(), self._sizes))
        except Exception as exc:  # noqa: BLE001 - a full disk, or an exception that cannot be shown
            if not self._was_logged:
                self._was_logged = True
                text = "cannot write a failed item to the quarantine file %s; further errors of this are not logged"
                log(_LOG, logging.WARNING, text, self._file.path, exc_info=exc)

    def _time(self) -> str:
        now = time.time()
        second, text = self._second
        if int(now) != second:
            second = int(now)
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = second, text
        return f"{text}.{int(1000 * (now - second)):03d}+00:00"

    def close(self) -> None:
        """Close the file, at the end of the pipeline. Failures of calls that return later are still written."""
        self._file.close()


def _rank_of_process() -> int:
    for name in ("RANK", "SLURM_PROCID"):
        with suppress(ValueError):
            return int(os.environ.get(name, ""))
    return 0


def _line_of(event: FailureEvent, head: str, time: str, sizes: Mapping[int, int | None]) -> bytes:
    """Return the line of a failure. Formatted by hand: the ``json`` module would take twice as long."""
    error, origin = event.error, event.origin
    items = () if origin is None else origin.items
    if len(items) == 1:
        (one,) = items
        epoch, position, key = f"{one.epoch}", f"{one.position}", _text_of_key(one.item)
    elif items:
        epoch = f"{items[0].epoch}"
        position = f"[{','.join([f'{item.position}' for item in items])}]"
        key = f"[{','.join([_text_of_key(item.item) for item in items])}]"
    else:
        epoch = position = key = "null"
    name = error.type_name if isinstance(error, RemoteOpError) else name_of(error)
    worker = event.worker if "pid" in event.worker else f"{event.worker} (pid {os.getpid()})"
    source = f',"source":{items[0].source}' if any(item.source for item in items) else ""
    if items and type(items[0].item) is int and (size := sizes.get(items[0].source)) is not None:
        source += f',"size":{size}'
    return (
        f'{{"v":{VERSION},"time":"{time}",{head},"epoch":{epoch},"position":{position},"key":{key},'
        f'"stage":{_quoted(event.stage)},"item":{_quoted(event.item_repr)},'
        f'"error":{_quoted(name)},'
        f'"message":{_quoted(_cut(text_of(error)))},"attempts":{event.attempts},"seconds":{event.seconds:.6f},'
        f'"worker":{_quoted(worker)},"outcome":"{event.outcome}",'
        f'"stack":[{",".join(map(_quoted, _stack_of(error)))}]{source}}}\n'
    ).encode("ascii")


def _text_of_key(key: int | str | None) -> str:
    return "null" if key is None else _quoted(key) if isinstance(key, str) else f"{key}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _stack_of(error: BaseException) -> list[str]:
    """Return the frames of an exception and its cause, outermost first. ``traceback`` would read the source files."""
    if isinstance(error, RemoteOpError | WorkerError) and (remote := error.remote_traceback):
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


#: A stage as text: ``<pipeline_id>:<stage_id>:<name>``, with its concurrency behind it.
_STAGE: Final = re.compile(r"\d+:[^:]*:(.*?)(\[\d+\])?", re.DOTALL)


class FailureWatcher:
    """Called for each failed item, on the thread that handles it, never under the engine's lock. Never raises."""

    def __init__(
        self, engine: Engine, callback: Callable[[FailureEvent], Any] | None, file: QuarantineFile | None
    ) -> None:
        self._engine = engine
        self._callback = callback
        self._file = file
        self._knows_origins = not any(isinstance(node, CustomMergeStage) for node in engine.nodes)
        self._was_logged = False  # that the callback raised

    def __call__(self, failure: Failure) -> None:
        record = failure.record
        event = FailureEvent(
            failure.item,
            _name_of(failure.stage),
            record.error,
            record.attempts,
            record.seconds,
            self._origin_of(failure),
            record.outcome,
            record.item_repr,
            failure.worker,
        )
        if self._file is not None:
            self._file.write(event)
        if self._callback is not None:
            try:
                self._callback(event)
            except BaseException as exc:  # noqa: BLE001 - user code, and no caller handles its exceptions
                if not self._was_logged:
                    self._was_logged = True
                    text = "on_failure=%s raised; it is called again, and further errors of it are not logged"
                    log(_LOG, logging.ERROR, text, shown(self._callback), exc_info=exc)

    def _origin_of(self, failure: Failure) -> BatchOrigin | None:
        if not self._knows_origins or failure.origin == ():
            return None
        try:
            with self._engine.lock:
                place = self._engine.places.of(failure.origin)
        except LookupError:  # its epoch has ended since; a report must not fail the pipeline
            return None
        return BatchOrigin(tuple(dict.fromkeys(leaves_of(place))), (), place)


def _name_of(stage: StageInfo | str) -> str:
    if isinstance(stage, StageInfo):
        return stage.stage_name
    found = _STAGE.fullmatch(stage)
    return stage if found is None else found[1]
