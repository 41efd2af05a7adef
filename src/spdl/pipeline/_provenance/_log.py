"""The provenance log: a line for each batch that was read, written and read again.

A log has one JSON object per line. A *header* describes the pipeline of a run: ``{"spdl": 2, "run": "5e1f09ab",
"seed": 0, "fingerprint": [...]}``. All other lines are batches, which name their run, because several may append in
turns::

    {"step": 12, "run": "5e1f09ab", "epoch": 0, "origin": {"all": [[384, 415], 417]}}

``origin`` is a position, ``{"all": [...]}`` for an aggregate, or ``{"part": k, "of": ...}`` for output ``k`` of a call
with several. In an aggregate, ``[384, 415]`` stands for all positions from 384 to before 415. A position of another
epoch or of another source than the first is ``{"at": 7, "epoch": 1, "source": 0}``.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spdl._random import ItemPart, ItemPosition
from spdl._reports import log
from spdl.pipeline._engine._passes import Passes
from spdl.pipeline._engine._stages._source import SourceNode
from spdl.pipeline._line_file import LineFile
from spdl.pipeline._state import fingerprint_of, prepare_source
from spdl.resume._values import ResumeError

if TYPE_CHECKING:
    from spdl._random import ItemPlace
    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline._engine._origin import Origin
    from spdl.pipeline.defs import PipelineConfig


VERSION: Final = 2
_LOG = logging.getLogger("spdl.pipeline")


def flat_line(step: int, run: str, epoch: int, positions: list[int]) -> bytes:
    """Return the line of a batch of positions of one epoch of the first source, which is the common case."""
    first = positions[0]
    stop = first + len(positions)
    text = f"[[{first},{stop}]]" if positions == [*range(first, stop)] else str(positions)
    return b'{"step":%d,"run":"%s","epoch":%d,"origin":{"all":%s}}\n' % (step, run.encode(), epoch, text.encode())


def batch_line(step: int, run: str, place: ItemPlace) -> bytes:
    """Return the line of any batch."""
    first: Any = place
    while not isinstance(first, ItemPosition):
        if not first:  # an aggregate of nothing
            first = ItemPosition(0, 0)
        else:
            first = first.of if isinstance(first, ItemPart) else first[0]
    return _line({"step": step, "run": run, "epoch": first.epoch, "origin": _plain(place, first.epoch)})


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _plain(place: ItemPlace, epoch: int) -> Any:
    if isinstance(place, ItemPosition):
        if place.epoch == epoch and place.source == 0:
            return place.position
        return {"at": place.position, "epoch": place.epoch, "source": place.source}
    if isinstance(place, ItemPart):
        return {"part": place.number, "of": _plain(place.of, epoch)}
    found: list[Any] = []
    for each in place:
        plain = _plain(each, epoch)
        last = found[-1] if found else None
        if type(plain) is int and type(last) is int and plain == last + 1:
            found[-1] = [last, plain + 1]
        elif type(plain) is int and type(last) is list and plain == last[1]:
            last[1] += 1
        else:
            found.append(plain)
    return {"all": found}


def fingerprint_for_log(config: PipelineConfig[Any], engine: Engine, seed: int) -> list[Any]:
    """Describe a pipeline, so that a replay can check that it has the same pipeline."""
    nodes = [node for node in engine.nodes if isinstance(node, SourceNode)]
    facts = [
        prepare_source(node.iterable, Passes(engine, node.number, node.iterable, is_continuous=False)) for node in nodes
    ]
    return fingerprint_of(config, facts, seed)


class ProvenanceLog:
    """Appends to a file. Several pipelines and processes may append to one: each line names its run.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, engine: Engine, path: str, header: tuple[int, list[Any]]) -> None:
        self.step = 0  # of the next batch
        self._engine = engine
        self._run = os.urandom(4).hex()
        self._header: tuple[int, list[Any]] | None = header
        self._waiting: deque[tuple[int, int, Any]] = deque()  # lines to write: step, epoch, positions or place
        self._writing = threading.Lock()  # keeps lines in the order of the steps
        self._failed = False
        self._file = LineFile(path, "provenance log")

    def note(self, origin: Origin) -> None:
        """Record that the batch with this origin is being read. Call under the engine's lock."""
        step = self.step
        self.step = step + 1
        sources = self._engine.places.sources
        flat = None
        if len(sources) == 1 and type(origin) is tuple and origin:
            source: Any = sources[0]
            flat = source.places_of(origin)
        if flat is not None:
            self._waiting.append((step, *flat))
        else:
            self._waiting.append((step, -1, self._engine.places.of(origin)))

    def write(self) -> None:
        """Write the recorded batches. Call without the engine's lock."""
        waiting = self._waiting
        with self._writing:
            while waiting:
                try:
                    step, epoch, found = waiting.popleft()
                except IndexError:  # another pipeline's thread is not possible; another reader's is
                    return
                if self._failed:
                    continue
                run = self._run
                line = batch_line(step, run, found) if epoch < 0 else flat_line(step, run, epoch, found)
                try:
                    if self._header is not None:
                        seed, fingerprint = self._header
                        header = {"spdl": VERSION, "run": run, "seed": seed, "fingerprint": fingerprint}
                        self._file.append(_line(header))
                        self._header = None
                    self._file.append(line)
                except OSError as exc:
                    self._failed = True
                    text = "cannot write step %d to the provenance log %s; it ends here"
                    log(_LOG, logging.ERROR, text, step, self._file.path, exc_info=exc)

    def close(self) -> None:
        """Close the file, at the end of the pipeline. Lines of items that are read later are still written."""
        with self._writing:
            self._file.close()


def read_place(origin: Any, epoch: int) -> ItemPlace:
    """Return the place that a line describes. Raises ``ValueError``: the line is damaged."""
    match origin:
        case int(position) if position >= 0:
            return ItemPosition(epoch, position)
        case {"at": int(position), "epoch": int(own), "source": int(source)}:
            return ItemPosition(own, position, source)
        case {"part": int(number), "of": of}:
            return ItemPart(read_place(of, epoch), number)
        case {"all": list(entries)}:
            found: list[ItemPlace] = []
            for entry in entries:
                match entry:
                    case [int(start), int(stop)]:
                        found += [ItemPosition(epoch, position) for position in range(start, stop)]
                    case _:
                        found.append(read_place(entry, epoch))
            return tuple(found)
    raise ValueError(f"no origin of a batch: {origin!r}")


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
    return [_batch(path, step, headers.get(run), *found[run]) for run in reversed(found)]


def _batch(
    path: str | os.PathLike[str], step: int, own: dict[str, Any] | None, number: int, batch: dict[str, Any]
) -> LoggedBatch:
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
