"""The worker process of a region: runs the region's stages as a pipeline whose items cross a connection.

It has three threads. The main thread receives and never waits for the pipeline, so that the sender is not blocked. The
pipeline's source takes the received items. The *emitter* sends outputs and reports. After the start only the emitter
sends, so messages are sent in the order of the events.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from spdl._errors import PipelineFailure, WorkerError
from spdl._processes._calls import Answer, Request, await_end, is_prepared, serve_requests
from spdl._processes._remote_failure import RemoteFailure
from spdl._processes._transport._arena import set_current
from spdl._processes._transport._connecting import LinkEnd
from spdl._processes._transport._connection import Connection, Message
from spdl._processes._transport._link import Link
from spdl._processes._transport._pickling import NOTHING
from spdl._reports import add_note
from spdl.pipeline._engine._failures import short_repr
from spdl.pipeline._engine._places import Placed
from spdl.pipeline._engine._region._reader import RegionReader
from spdl.pipeline._engine._region._stage import MAX_TRANSFERS
from spdl.pipeline._engine._region._workers import Event, Failed, Ready, Report, Then, Told, Unreadable
from spdl.pipeline._engine._thread import EngineThread
from spdl.pipeline._info import PIPELINE_IDS
from spdl.pipeline.defs import PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl._processes._transport._pickling import Encoded
    from spdl.pipeline._engine._channel import Entry
    from spdl.pipeline._options import BuildOptions
    from spdl.pipeline.defs import PathStage

_REPORTS: Final = {Then.NOTHING: Answer.REPORT, Then.MARK: Answer.AT_MARK, Then.END: Answer.AT_END}
_MEANINGS: Final[dict[int, Then]] = {kind: then for then, kind in _REPORTS.items()}
_ENDS: Final = {Then.MARK: Request.MARK, Then.END: Request.END}
#: Maximum time in seconds that running ops may take after a conversation was closed, before the next one begins.
_STOP_TIMEOUT: Final = 0.5
_FOR_EVER: Final = 1e6


@dataclass(frozen=True)
class RegionSpec:
    """What a worker needs to know about its region. Pickles if the stages and the initializer pickle."""

    stage: str  #: name of the region until a pipeline gives a more specific one
    stages: tuple[PathStage, ...]
    output_size: int
    initializer: Callable[..., object] | None
    initargs: tuple[Any, ...]
    options: BuildOptions
    first_pipeline_id: int


def run_worker(link: Link, spec: RegionSpec, index: int) -> None:
    """Body of a worker process whose owner is the region's pipeline."""
    serve(link, spec, index)


def run_moved_worker(link: Link, spec: RegionSpec, index: int, end: LinkEnd) -> None:
    """Body of a worker process whose owner is not the pipeline's process. ``end`` leads to the pipeline's process.

    The worker ends with its owner, not with the pipeline's process: so the owner can recognise a death.
    """
    data = end.open()
    server = threading.Thread(target=serve, args=(data, spec, index), name="spdl-region-server", daemon=True)
    server.start()
    await_end(link)
    data.close()
    server.join(_STOP_TIMEOUT)


def serve(link: Connection, spec: RegionSpec, index: int) -> None:
    """Run the initializer, then conversations, until the other end of ``link`` is gone."""
    set_current(link.sender)  # ops allocate batches in memory from which they are sent without another copy
    PIPELINE_IDS.go_on_from(spec.first_pipeline_id)
    attempt = f"Initializer failed in worker {index} of {spec.stage}"
    if not is_prepared(link, attempt, spec.initializer, *spec.initargs):
        return
    conversations = _Conversations(link, spec, index)
    passed_on = Request.ITEM, Request.DEALT, Request.CREDIT, Request.MARK, Request.END
    handlers: dict[int, Callable[[Message], None]] = dict.fromkeys(passed_on, conversations.receive)
    handlers |= {Request.START: conversations.open, Request.CLOSE: conversations.close}
    try:
        with suppress(OSError):
            link.send(Answer.READY)
        serve_requests(link, handlers)
    finally:
        conversations.stop(None)  # an owner that does not want to wait sends a signal


class _Conversations:
    """The conversations of a worker, at most one at a time."""

    def __init__(self, link: Connection, spec: RegionSpec, index: int) -> None:
        self._link = link
        self._spec = spec
        self._index = index
        self._present: _Conversation | None = None

    def open(self, frame: Message) -> None:
        self.stop()
        self._present = _Conversation(self._link, self._spec, self._index, frame.number, frame.load())

    def close(self, frame: Message) -> None:
        frame.discard()
        self.stop()

    def receive(self, frame: Message) -> None:
        if self._present is not None:
            self._present.receive(frame)

    def stop(self, timeout: float | None = _STOP_TIMEOUT) -> None:
        """End the current conversation, if any. See ``_Conversation.stop``."""
        present, self._present = self._present, None
        if present is not None:
            present.stop(timeout)


class _Received:
    """The source of a worker's pipeline. Each pass is an epoch; after the end of the stream a pass is empty."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.frames: SimpleQueue[Message | None] = SimpleQueue()  # ``None``: the pipeline is stopped
        self.drain: RegionReader | None = None

    def __iter__(self) -> _Received:
        return self

    def _next_frame(self) -> Message | None:
        try:
            return self.frames.get_nowait()
        except Empty:
            pass
        thread = threading.current_thread()
        assert isinstance(thread, EngineThread)
        with thread.waiting_for_input():
            return self.frames.get()

    def __next__(self) -> Any:
        drain = self.drain
        assert drain is not None
        while True:
            frame = self._next_frame()
            if frame is None or frame.kind == Request.END:
                drain.source.continuous = False
                raise StopIteration
            if frame.kind == Request.MARK:
                raise StopIteration
            if frame.kind == Request.DEALT:
                drain.transfer_taken()
                continue
            try:
                value = frame.load()
            except Exception as exc:  # noqa: BLE001 - unpickling runs the user's code
                add_note(exc, "the item cannot be put together in the worker")
                drain.refuse(frame.number, self.stage, "(not unpickled)", exc)
                continue
            if type(value) is Placed:
                drain.next_position(frame.number, value.place)
                return value.item
            drain.next_position(frame.number)
            return value


class _Conversation:
    """One pipeline of the worker, from its start to its end."""

    def __init__(self, link: Connection, spec: RegionSpec, index: int, number: int, stage: str) -> None:
        self.link = link
        self.spec = spec
        self.number = number
        self.stage = stage
        self.who = f"worker {index} of {stage}"
        self.received = _Received(stage)
        self.num_allowed = MAX_TRANSFERS  # written by the main thread
        self.num_sent = 0  # transfers of outputs; written by the emitter
        self.empty = link.encode(NOTHING)
        self.is_stopped = False
        self.pipeline: Any = None
        try:
            self._build()
        except Exception as exc:  # noqa: BLE001 - hooks and queues are the user's
            self._say_broken(exc)
            return
        self.emitter = threading.Thread(target=self._emit, name="spdl-region-emitter", daemon=True)
        self.emitter.start()

    def _build(self) -> None:
        from spdl.pipeline._assemble import assemble  # imported late: the initializer may set defaults

        spec = self.spec
        config: PipelineConfig[Any] = PipelineConfig(
            SourceConfig(self.received, continuous=True), spec.stages, SinkConfig(spec.output_size)
        )
        self.pipeline = assemble(config, spec.options)
        self.drain = self.received.drain = RegionReader(self.pipeline._engine)
        self.drain.source.passes.is_iterator = False  # its epochs may be empty: those of the sender are
        self.pipeline.start()

    # -- on the main thread

    def receive(self, frame: Message) -> None:
        if frame.kind == Request.CREDIT:
            self.num_allowed += frame.number
            if self.pipeline is not None:
                self.drain.poke()
        else:
            self.received.frames.put(frame)

    def stop(self, timeout: float | None = _STOP_TIMEOUT) -> None:
        """Stop the pipeline. Running calls may take ``timeout`` more seconds; ``None``: no limit."""
        if self.pipeline is None or self.is_stopped:
            return
        self.is_stopped = True
        self.received.frames.put(None)
        with suppress(Exception):  # the other end no longer listens
            self.pipeline.stop(timeout=_FOR_EVER if timeout is None else timeout)
        self.drain.poke()
        self.emitter.join(_STOP_TIMEOUT)

    # -- the emitter

    def _emit(self) -> None:
        try:
            self._emit_all()
        except OSError:  # the owner is gone; the main thread sees it too
            pass
        except BaseException as exc:  # noqa: BLE001 - an error here must be reported, not lost
            self._say_broken(exc)

    def _emit_all(self) -> None:
        drain, size = self.drain, self.spec.output_size
        batch: list[Entry] = []
        while not self.is_stopped:
            found, then = drain.take(size - len(batch))
            batch += found
            found = []
            if batch:
                num_outward = self.num_sent - (self.num_allowed - MAX_TRANSFERS)
                # An incomplete transfer waits only while the owner still has transfers to handle: it fills up during
                # that time, and the owner never runs out of outputs because of it.
                is_due = len(batch) >= size or then is not Then.NOTHING or num_outward <= 0
                if is_due and num_outward < MAX_TRANSFERS:
                    self._send(batch, Then.MARK if then is Then.MARK else Then.NOTHING)
                    batch = []
                    if then is Then.MARK:
                        drain.pass_mark()
                    continue
            elif then is Then.MARK:
                self._send([], then)
                drain.pass_mark()
                continue
            elif then is Then.END:
                self._end()
                return
            if drain.must_report():
                self._send([], Then.NOTHING)
            drain.wait(for_items=len(batch) < size and then is Then.NOTHING)

    def _end(self) -> None:
        """Join the pipeline's threads and report the result, after all outputs were sent."""
        from spdl.pipeline._engine._engine import END

        ending = self.pipeline._end_error(END)
        if isinstance(ending, PipelineFailure):
            self._send([], Then.NOTHING)
            self._say_broken(ending)
        else:
            self._send([], Then.END)

    def _send(self, batch: list[Entry], then: Then) -> None:
        """Send outputs, and a report on everything since the last report."""
        link, frames = self.link, []
        sent, refused = [], []
        for entry in batch:
            try:
                encoded = link.encode(entry[0])
            except Exception as exc:  # noqa: BLE001 - pickling runs the user's code
                add_note(exc, f"the output cannot be sent by {self.who}")
                self.drain.fail_output(entry, self.stage, short_repr(entry[0]), exc)
                refused.append(entry)
                continue
            frames.append((Answer.RESULT, self.number, encoded))
            sent.append(entry)
        report = self.drain.report(sent, refused)
        frames.append((_REPORTS[then], self.number, link.encode(report)))
        self.num_sent += bool(sent)
        link.send_encoded(frames)

    def _say_broken(self, exc: BaseException) -> None:
        if self.is_stopped:
            return
        with suppress(OSError):
            what = (f"Fused subprocess pipeline failed: in {self.who}", RemoteFailure.of(exc))
            self.link.send(Answer.BROKEN, self.number, what)


# -- the other end: on the side of the pipeline that uses the workers


class RegionTalk:
    """The messages of one region's pipeline, in one conversation.

    The sending thread calls ``encode``, the waiting thread the other methods.
    """

    def __init__(self, conversation: int = 1) -> None:
        self.conversation = conversation
        self._outputs: dict[int, list[Any]] = {}  # by worker: outputs received whose report has not arrived

    def begin(self, worker: int) -> None:
        """Begin with a worker. Drops outputs that its predecessor has sent without a report."""
        self._outputs[worker] = []

    def encode(
        self, connection: Connection, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> tuple[list[tuple[int, int, Encoded]], list[tuple[int, Exception]]]:
        """Return the messages for ``RegionWorkers.send``, and the items that cannot be pickled."""
        empty = connection.encode(NOTHING)
        frames: list[tuple[int, int, Encoded]] = []
        refused: list[tuple[int, Exception]] = []
        for position, value in transfer:
            try:
                frames.append((Request.ITEM, position, connection.encode(value)))
            except Exception as exc:  # noqa: BLE001 - pickling runs the user's code
                refused.append((position, exc))
        if transfer:
            frames.append((Request.DEALT, 0, empty))
        if num_credits:
            frames.append((Request.CREDIT, num_credits, empty))
        if then is not Then.NOTHING:
            frames.append((_ENDS[then], 0, empty))
        return frames, refused

    def hear(self, worker: int, message: Message) -> Event | None:
        """Return what a message of a worker means; ``None``: nothing yet."""
        kind = message.kind
        if kind == Answer.READY:
            return Ready(worker)
        if message.number not in (0, self.conversation):  # of a conversation that was ended early
            message.discard()
        elif kind == Answer.RESULT:
            try:
                value = message.load()
            except Exception as exc:  # noqa: BLE001 - unpickling runs the user's code
                value = Unreadable(exc)
            self._outputs[worker].append(value)
        elif (then := _MEANINGS.get(kind)) is not None:
            report: Report = message.load()
            values, self._outputs[worker] = self._outputs[worker], []
            return Told(worker, values, report, then)
        elif kind == Answer.BROKEN:
            return Failed(worker, _error_of(*message.load()))
        return None


def _error_of(attempt: str, failure: RemoteFailure) -> WorkerError:
    # With the traceback in the text, because this is all that remains of the worker's pipeline.
    text = f"{attempt}: {failure.type_name}: {failure.message}\n{failure.traceback}"
    return WorkerError(text, remote_traceback=failure.traceback)
