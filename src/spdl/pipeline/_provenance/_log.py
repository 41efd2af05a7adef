"""``ProvenanceLog``: writes a line for each batch that was read."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from spdl._reports import log
from spdl.pipeline._engine._passes import Passes
from spdl.pipeline._engine._stages._source import SourceNode
from spdl.pipeline._line_file import LineFile
from spdl.pipeline._resume._fingerprint import fingerprint_of
from spdl.pipeline._resume._sources import prepare_source

from ._lines import batch_line, flat_line, header_line

if TYPE_CHECKING:
    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline._engine._origin import Origin
    from spdl.pipeline.defs import PipelineConfig

_LOG = logging.getLogger("spdl.pipeline")


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
                        self._file.append(header_line(run, *self._header))
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
