"""The messages to and from the workers of a region, independent of the transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from spdl._errors import WorkerError
from spdl._processes._transport import NOTHING
from spdl.pipeline._engine._region._workers import Event, Failed, Ready, Report, Then, Told, Unreadable

from ._protocol import FromRegionWorker, ToRegionWorker

if TYPE_CHECKING:
    from spdl._processes._remote_failure import RemoteFailure
    from spdl._processes._transport import Connection, Encoded, Message

_ENDS: Final = {Then.MARK: ToRegionWorker.MARK, Then.END: ToRegionWorker.END}
_REPORTS: Final = {
    FromRegionWorker.REPORT: Then.NOTHING,
    FromRegionWorker.AT_MARK: Then.MARK,
    FromRegionWorker.AT_END: Then.END,
}


class RegionTalk:
    """The messages of one region's pipeline. The sending thread calls ``encode``, the waiting thread the other methods.

    Args:
        conversation: Number of the conversation; messages of other ones are discarded.
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
                frames.append((ToRegionWorker.ITEM, position, connection.encode(value)))
            except Exception as exc:  # noqa: BLE001 - pickling runs the user's code
                refused.append((position, exc))
        if transfer:
            frames.append((ToRegionWorker.DEALT, 0, empty))
        if num_credits:
            frames.append((ToRegionWorker.CREDIT, num_credits, empty))
        if then is not Then.NOTHING:
            frames.append((_ENDS[then], 0, empty))
        return frames, refused

    def hear(self, worker: int, message: Message) -> Event | None:
        """Return what a message of a worker means; ``None``: nothing yet."""
        kind = message.kind
        if kind == FromRegionWorker.READY:
            return Ready(worker)
        if message.number not in (0, self.conversation):  # of a conversation that was ended early
            message.discard()
        elif kind == FromRegionWorker.OUTPUT:
            try:
                value = message.load()
            except Exception as exc:  # noqa: BLE001 - unpickling runs the user's code
                value = Unreadable(exc)
            self._outputs[worker].append(value)
        elif kind in _REPORTS:
            report: Report = message.load()
            values, self._outputs[worker] = self._outputs[worker], []
            return Told(worker, values, report, _REPORTS[FromRegionWorker(kind)])
        elif kind == FromRegionWorker.BROKEN:
            return Failed(worker, _error_of(*message.load()))
        return None


def _error_of(attempt: str, failure: RemoteFailure) -> WorkerError:
    # With the traceback in the text, because this is all that remains of the worker's pipeline.
    text = f"{attempt}: {failure.type_name}: {failure.message}\n{failure.traceback}"
    return WorkerError(text, remote_traceback=failure.traceback)
