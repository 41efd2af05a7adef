"""A ticket: one call of an op, from the claim of its input to the completion of its outcome."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from spdl._errors import StageTimeoutError
    from spdl.pipeline._info import StageInfo

    from ._failures import FailureRecord
    from ._origin import Branch, Origin
    from ._remote_calls import Collected


class CallSource(Protocol):
    """What a thread of a lane takes calls from: a ``CallStage``, or the ``JobQueue`` of such a stage.

    The methods run under the engine's lock, except ``run`` and those that settle an outcome.
    """

    info: StageInfo
    cheap_score: int

    def ready(self) -> bool:
        """Whether a call may start."""

    def take(self, now: float) -> Ticket:
        """Claim the next call. Only if ``ready()``."""

    def run(self, ticket: Ticket) -> None:
        """Run a call. Never raises."""

    def settle_error(self, ticket: Ticket, exc: BaseException) -> None:
        """Record the exception of a call."""

    def settle_outputs(self, ticket: Ticket, outputs: Collected) -> None:
        """Record all outputs of a generator that ran to its end in another process."""

    def settle_cancelled(self, ticket: Ticket) -> None:
        """Record that a call was cancelled before it had an outcome."""

    def give_up(self, ticket: Ticket, error: StageTimeoutError) -> None:
        """Fail a call that has not returned in time. Runs on the deadlines thread."""

    def note_lost(self, number: int) -> None:
        """Count parts that a call leaves out of its result. Not under the lock."""

    def hand_on(self, ticket: Ticket, now: float, min_score: int) -> bool:
        """Turn the ticket of a finished call into the next stage's call on its result. False: ``finish`` it instead."""

    def finish(self, ticket: Ticket, now: float) -> None:
        """Take the outcome of a call."""


class Ticket:
    """One call of an op. Owned by the lane that claimed it until it is finished; the lock guards ``cancelled``.

    Rarely used fields are class attributes: one ticket is made per call, and every assignment costs time.
    """

    result: Any = None
    error: FailureRecord | None = None  # the item failed
    substitute: Any = None  # replaces the output of a failed call; ``None``: no substitute
    fatal: BaseException | None = None  # the stage fails
    done = False  # ordered stages: finished, waiting for earlier results. Guarded by the lock
    cancelled = False  # the result will be discarded
    given_up = False  # timed out: the item has failed, and the lane discards the result
    sample_cpu = False
    # generator calls only
    exhausted = False  # no more steps
    closing = False  # an async generator's ``aclose`` is running and must not be cancelled. Loop thread only
    generator: Any = None
    branch: Branch | None = None
    outputs: deque[Any] | None = None  # values waiting for room
    thread_id: int | None = None  # ident of the executor's thread that runs the call, if known
    # the executor's future, or the loop's future that waits for a call on a thread
    handle: Any = None

    # Always set. Not by an ``__init__``, which would take as long as all four assignments.
    stage: CallSource
    value: Any
    origin: Origin
    started: float
