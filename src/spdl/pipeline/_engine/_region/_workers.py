"""The interface between the engine and the workers of a region. It starts no process itself.

A worker runs the region's stages as its own pipeline. Items are sent to it in *transfers*, and outputs come back in
transfers. Each item has a *position*, unique in its region. A worker reports which positions each output comes from,
which positions are consumed, and which items failed. One ``Report`` with all of this follows the outputs it belongs to,
so when a worker dies, each item is either accounted for or still held by that worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spdl._processes._remote_failure import RemoteFailure

if TYPE_CHECKING:
    from spdl.pipeline._records import FailureOutcome


class Then(Enum):
    """What follows a transfer, in either direction."""

    NOTHING = "more may come"
    MARK = "the end of an epoch"
    END = "the end of the stream"


class Descent(NamedTuple):
    """The positions that an output comes from."""

    whole: tuple[int, ...]  #: positions that are only in this output
    parts: tuple[int, ...]  #: positions that have several outputs, this one among them


class FailedItem(NamedTuple):
    """An item that failed in a worker. Positions in ``origin`` are ``SourcePosition`` with source 0."""

    stage: str
    origin: Any
    item: str
    failure: RemoteFailure
    seconds: float = 0.0
    outcome: FailureOutcome = "dropped"


class StageCounts(NamedTuple):
    """How the calls of one stage in a worker have ended, since its start."""

    num_successes: int
    num_failures: int


class Report(NamedTuple):
    """The progress of a worker since its last report; the fields from ``num_dropped`` on count from its start."""

    num_taken: int  #: number of transfers that its pipeline has read
    descents: list[Descent]  #: origins of the outputs sent before this report, in order
    consumed: list[int]  #: consumed positions, including those of these outputs
    failures: list[FailedItem]
    num_dropped: int
    num_calls: int  #: number of calls, as failure limits count them
    busy: float  #: time in ops, in seconds
    num_substituted: int = 0
    num_lost: int = 0
    stages: tuple[StageCounts, ...] = ()  #: of the stages that fail if all their calls have failed


class Unreadable(NamedTuple):
    """Replaces an output that could not be unpickled."""

    error: Exception


class Told(NamedTuple):
    """A report with its outputs."""

    worker: int
    values: list[Any]
    report: Report
    then: Then


class Ready(NamedTuple):
    """The worker has started and takes items."""

    worker: int


class Failed(NamedTuple):
    """The worker failed and reported the error."""

    worker: int
    error: Exception


class Died(NamedTuple):
    """The worker died without reporting an error."""

    worker: int
    error: Exception


Event = Ready | Told | Failed | Died


class Change(Enum):
    """What the engine requests from ``RegionWorkers`` when the number of workers should change."""

    ADD = "start one more"
    REPLACE = "start one in the place of one that has ended"
    RETIRE = "end one that has reported the end"
    CANCEL = "end one that is starting"


class RegionWorkers(Protocol):
    """The workers of one region of one pipeline. One thread sends, another waits."""

    num_workers: int  #: number of workers that ``start`` starts
    may_replace: bool  #: whether a worker that dies is replaced
    may_resize: bool  #: whether ``add`` and ``retire`` are possible. The engine sets ``num_workers`` before the start
    waits_until_ready: bool  #: whether a worker gets items only after ``Ready``; always after ``replace`` and ``add``

    def start(self) -> None:
        """Start all workers without waiting for them to be ready."""

    def send(
        self, worker: int, generation: int, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> Sequence[tuple[int, Exception]]:
        """Send items with their positions, and allow ``num_credits`` more transfers of outputs.

        Does nothing if the worker is dead, which ``wait`` reports. ``generation`` is the number of times that the
        worker was replaced; a message for an older generation is discarded.

        Returns:
            Pairs ``(position, exception)`` of the items that cannot be pickled and were not sent.
        """

    def wait(self) -> Sequence[Event]:
        """Wait for events; returns empty after a ``wake``."""

    def wake(self) -> None:
        """Make ``wait`` return. Can be called from any thread, also with the engine's lock held."""

    def replace(self, worker: int, done: Sequence[int]) -> None:
        """Start a new process for a worker that died.

        ``done``: workers that get no more items. They may be ended, to make room for the new one.
        """

    def add(self) -> None:
        """Start one more worker, with the next index, without waiting for it to be ready.

        Called by the thread that calls ``wait``; so are ``replace`` and ``retire``.
        """

    def retire(self, worker: int, *, at_once: bool) -> None:
        """End a worker without waiting for its end. ``wait`` may or may not report the end as a death.

        Args:
            worker: Its index. ``replace`` may give the index to another worker later.
            at_once: Whether the worker is not ready yet, and must be ended by force. Otherwise it has reported the end
                of the stream, and ends by itself on request.
        """

    def stop(self, timeout: float) -> Sequence[int]:
        """Stop all workers and wait for their calls to return. Idempotent. Returns those killed after ``timeout`` s."""

    def kill(self) -> None:
        """Kill all workers now, so that a ``stop`` in another thread need not wait for calls."""

    def describe(self, worker: int) -> str:
        """Return a description such as ``worker 2 (pid 4711)``."""
