"""What the engine asks of the workers of a region, and what they tell it. It starts no process itself.

A worker runs the region's stages as a pipeline of its own. Items go to it in *transfers*, outputs come back in
transfers. Each item that is dealt has a *position*, unique in its region; a worker says of each output which positions
it descends from, which positions nothing is left of, and which items have failed. All of that comes in one ``Report``
after the outputs it belongs to, so that a worker that dies has either accounted for an item or still holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from spdl._processes._remote_failure import RemoteFailure

__all__ = [
    "Descent",
    "Died",
    "Event",
    "Failed",
    "FailedItem",
    "Ready",
    "RegionWorkers",
    "Report",
    "Then",
    "Told",
    "Unreadable",
]


class Then(Enum):
    """What follows a transfer, in either direction."""

    NOTHING = "more may come"
    MARK = "the end of an epoch"
    END = "the end of the stream"


class Descent(NamedTuple):
    """Where an output comes from."""

    whole: tuple[int, ...]  #: positions that are in this output and nowhere else
    parts: tuple[int, ...]  #: positions that it is one of several outputs of


class FailedItem(NamedTuple):
    """One item that failed in a worker. Positions in ``origin`` are ``SourcePosition`` with source 0."""

    stage: str
    origin: Any
    item: str
    failure: RemoteFailure


class Report(NamedTuple):
    """What a worker has done since its last report; the last three count from its start."""

    num_taken: int  #: transfers to it that its pipeline has taken in
    descents: list[Descent]  #: of the outputs that came before this report, in order
    consumed: list[int]  #: positions that nothing is left of, those of these outputs among them
    failures: list[FailedItem]
    num_dropped: int
    num_calls: int  #: as failure limits count them
    busy: float  #: seconds inside of ops


class Unreadable(NamedTuple):
    """In place of an output that could not be unpickled."""

    error: Exception


class Told(NamedTuple):
    """A report, with its outputs."""

    worker: int
    values: list[Any]
    report: Report
    then: Then


class Ready(NamedTuple):
    """The worker has come as far as taking items."""

    worker: int


class Failed(NamedTuple):
    """The worker cannot go on, and says why."""

    worker: int
    error: Exception


class Died(NamedTuple):
    """The worker is gone without a word."""

    worker: int
    error: Exception


Event = Ready | Told | Failed | Died


class RegionWorkers(Protocol):
    """The workers of one region of one pipeline. Sending is for one thread, waiting for another."""

    num_workers: int
    may_replace: bool  #: a worker that dies is replaced

    def start(self) -> None:
        """Start all workers; return without waiting for them."""

    def send(
        self, worker: int, generation: int, transfer: Sequence[tuple[int, Any]], num_credits: int, then: Then
    ) -> Sequence[tuple[int, Exception]]:
        """Send items with their positions, and allow ``num_credits`` more transfers of outputs.

        To a worker that is gone it does nothing: ``wait`` tells. ``generation``: how often it has been replaced; if it
        has been again, the message was for a dead one.

        Returns:
            ``(position, exception)`` for each item that cannot be pickled; it was left out.
        """

    def wait(self) -> Sequence[Event]:
        """Wait for something to happen; empty after a ``wake``."""

    def wake(self) -> None:
        """Let ``wait`` return. From any thread, also with the engine's lock held."""

    def replace(self, worker: int) -> None:
        """Start another process in place of a worker that has died."""

    def stop(self, timeout: float) -> Sequence[int]:
        """Stop all workers and wait for their calls to return. Idempotent.

        Returns:
            Those that had to be killed after ``timeout`` s.
        """

    def kill(self) -> None:
        """End all workers now: a ``stop`` in another thread need not wait for calls any longer."""

    def describe(self, worker: int) -> str:
        """``worker 2 (pid 4711)``."""
