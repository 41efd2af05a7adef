"""``Pipeline.trace``: writes the records of a ``Tracer`` to a file that Perfetto opens, while the pipeline runs.

The file is JSON in the array form of the Trace Event Format (Google, "Trace Event Format", "JSON Array Format"): one
event per line. Readers accept a truncated file. Each stage has a track, and one more for each further concurrent call.
An item is a slice on each track that it passes through; a flow joins its slices.

Times are those of torch's profiler, in microseconds: Unix time minus the start of the current period of three months
(libkineto, ``output_json.cpp``, ``ChromeTraceBaseTime``), so that a double can represent nanoseconds.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

from spdl._reports import log

from ._engine._traced import Note, Tracer, label_of, root_of

if TYPE_CHECKING:
    from spdl._processes._memory import TraceLines, TraceTrack

    from ._engine._core import Node
    from ._engine._engine import Engine

_LOG = logging.getLogger("spdl.pipeline")

#: Seconds between two zero points of the trace time, as in libkineto.
BASE_PERIOD: Final = 7_889_238
#: Seconds between two writes. A killed process loses at most this much of the trace.
_INTERVAL: Final = 0.1
#: Thread ids of Linux are below 2**22. Track ids begin above, so that they do not clash in a combined trace.
_FIRST_TRACK: Final = 1 << 30
#: How each slice begins.
_HEAD: Final = '{"ph":"X","name":"'


@contextmanager
def traced(engine: Engine, path: str, every: int) -> Iterator[None]:
    """Trace an engine to a file while the body runs."""
    tracer = Tracer(engine, every)
    try:
        file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed below, by the thread that writes
    except OSError as exc:
        raise OSError(
            exc.errno, f"cannot write the trace of pipeline {engine.pipeline_id}: {exc.strerror}", path
        ) from exc
    try:
        tracer.begin()
    except BaseException:
        file.close()
        raise
    writer = _Writer(tracer, file)
    try:
        writer.start()
        yield
    finally:
        writer.finish()


class _Writer:
    """The thread that writes a trace. It holds at most the records since its last write."""

    def __init__(self, tracer: Tracer, file: IO[bytes]) -> None:
        self.tracer = tracer
        self.file = file
        self.pid = os.getpid()
        base = int(time.time()) // BASE_PERIOD * BASE_PERIOD
        self.offset = (_unix_time_of_zero() - base * 10**9) / 1e3  # us, of perf_counter
        self.base = base
        self.is_over = threading.Event()
        self.has_failed = False
        in_order = sorted(tracer.engine.nodes, key=lambda node: int(node.info.stage_id))
        self.tracks = [_Tracks(node, number) for number, node in enumerate(in_order)]
        self.of_node = {tracks.node: tracks for tracks in self.tracks}
        self.first_track = _FIRST_TRACK + tracer.engine.pipeline_id % 1024 * (1 << 20)
        self.first_flow = (tracer.engine.pipeline_id % 65536 << 48) + 1  # 64 bits; 0 is no flow
        self.num_tracks = 0
        #: Native function that formats most lines; ``None`` in a source tree that was not built.
        self.native = _native_lines([tracks.node for tracks in self.tracks])
        self.filled: dict[Node, int] = {}
        self.thread = threading.Thread(target=self._run, name=f"spdl-{tracer.engine.pipeline_id}-trace", daemon=True)

    def start(self) -> None:
        text = {"base_time_ns": self.base * 10**9, "pipeline": self.tracer.engine.pipeline_id}
        head = self._meta("spdl_clock", 0, text) + self._meta("process_name", 0, {"name": "python"})
        self._write(f"[\n{head}".encode())
        self.thread.start()

    def finish(self) -> None:
        if os.getpid() != self.pid:
            # A forked child left the ``with``: the file belongs to the parent, and a thread may have held the lock.
            self.file.close()
            return
        self.tracer.end()
        self.is_over.set()
        self.thread.join()
        self._write_notes()
        self._write(b'{"ph":"M","name":"spdl_end","pid":%d,"tid":0,"args":{}}\n]\n' % self.pid)
        self.file.close()

    def _run(self) -> None:
        while not self.is_over.wait(_INTERVAL):
            self._write_notes()

    def _write_notes(self) -> None:
        notes, num_lost = self.tracer.take()
        if self.has_failed:
            return
        slices = self._slices(notes)
        lines: list[str] = []
        now = time.perf_counter()
        for node, number in self.tracer.fills():
            if self.filled.get(node) != number:
                self.filled[node] = number
                name = json.dumps(f"{self.of_node[node].name}: output")
                lines.append(
                    f'{{"ph":"C","name":{name},"ts":{self._time(now):.3f},"pid":{self.pid},"args":{{"items":{number}}}}},\n'
                )
        if num_lost:
            name = json.dumps(f"{num_lost} calls are missing: the trace was written too slowly")
            lines.append(
                f'{{"ph":"i","s":"p","name":{name},"ts":{self._time(now):.3f},"pid":{self.pid},"tid":{self.first_track}}},\n'
            )
        if text := slices + "".join(lines).encode():
            self._write(text)

    def _time(self, seconds: float) -> float:
        return seconds * 1e6 + self.offset

    def _slices(self, notes: list[Note]) -> bytes:
        if self.native is not None:
            return self.native.make(notes, self._begin_native_track, self._slice)
        lines: list[str] = []
        for note in notes:
            node, began, ended, _, _ = note
            tracks = self.of_node[node]
            track = tracks.track_for(began, ended)
            if track == len(tracks.numbers):
                lines.append(self._begin_track(tracks))
            lines.append(self._slice(note, tracks.order, track))
        return "".join(lines).encode()

    def _slice(self, note: Note, order: int, nth: int) -> str:
        _, began, ended, origin, error = note
        tracks = self.tracks[order]
        name, more = "wait", ""
        if origin is not None:
            name = label_of(origin)
            if (root := root_of(origin)) is not None:
                more = f',"bind_id":"{self.first_flow + (root[0] << 40) + root[1]:#x}"{tracks.ways}'
        if error is not None:
            more += f',"cname":"terrible","args":{{"error":{json.dumps(error)}}}'
        return (
            f'{_HEAD}{name}","cat":{tracks.category},"pid":{self.pid},"tid":{tracks.numbers[nth]},'
            f'"ts":{began * 1e6 + self.offset:.3f},"dur":{(ended - began) * 1e6:.3f}{more}}},\n'
        )

    def _begin_track(self, tracks: _Tracks) -> str:
        number = self.first_track + self.num_tracks
        self.num_tracks += 1
        nth = len(tracks.numbers)
        tracks.numbers.append(number)
        name = tracks.name if nth == 0 else f"{tracks.name} #{nth + 1}"
        place = {"sort_index": tracks.order * 4096 + nth}
        return self._meta("thread_name", number, {"name": name}) + self._meta("thread_sort_index", number, place)

    def _begin_native_track(self, order: int) -> tuple[str, TraceTrack]:
        from spdl._processes._memory import TraceTrack

        tracks = self.tracks[order]
        text = self._begin_track(tracks)
        middle = f'","cat":{tracks.category},"pid":{self.pid},"tid":{tracks.numbers[-1]},"ts":'
        return text, TraceTrack(_HEAD, middle, tracks.ways, self.offset, self.first_flow)

    def _meta(self, name: str, track: int, args: dict[str, Any]) -> str:
        return f'{{"ph":"M","name":"{name}","pid":{self.pid},"tid":{track},"args":{json.dumps(args)}}},\n'

    def _write(self, text: bytes) -> None:
        data = memoryview(text)
        try:
            while data and not self.has_failed:
                data = data[self.file.write(data) :]
        except OSError as exc:
            # The pipeline must not fail because of the trace.
            self.has_failed = True
            log(_LOG, logging.ERROR, "cannot write the trace: %s. The rest of it is lost.", exc)


class _Tracks:
    """The tracks of one node: one for each of its concurrent calls."""

    def __init__(self, node: Node, order: int) -> None:
        self.node = node
        self.order = order
        info = node.info
        self.name = f"{info.pipeline_id}:{info.stage_id} {info.stage_name if node.outs else 'consumer'}"
        self.category = json.dumps(info.stage_name)
        inward, outward = (',"flow_in":true' if node.inboxes else ""), (',"flow_out":true' if node.outs else "")
        self.ways = inward + outward
        self.numbers: list[int] = []  # of the tracks
        self.ends: list[float] = []  # of the newest slice of each

    def track_for(self, began: float, ended: float) -> int:
        """Return the track for a slice; adds a track if none is free.

        Slices come in the order of their ends. The best track is the one that became free last: tracks that have been
        free for longer are left to slices that began earlier.
        """
        ends = self.ends
        if len(ends) == 1 and ends[0] <= began:
            ends[0] = ended
            return 0
        best, free_since = len(ends), float("-inf")
        for track, end in enumerate(ends):
            if free_since < end <= began:
                best, free_since = track, end
        if best == len(ends):
            ends.append(ended)
        else:
            ends[best] = ended
        return best


def _native_lines(nodes: list[Node]) -> TraceLines | None:
    # Imported late: most pipelines are not traced, and the extension is not needed otherwise.
    try:
        from spdl._processes._memory import TraceLines
    except ImportError:  # a source tree that was not built
        return None
    return TraceLines(nodes)


def _unix_time_of_zero() -> float:
    """Return what Unix time was, in nanoseconds, when ``perf_counter`` was 0.

    The thread may be interrupted between two readings of clocks; the closest ones of several count.
    """
    found: list[tuple[int, float]] = []
    for _ in range(5):
        before, now, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
        found.append((after - before, now - (before + after) / 2))
    return min(found)[1]
