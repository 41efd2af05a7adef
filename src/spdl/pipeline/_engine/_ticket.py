"""A ticket: one call of an op, from the claim of its input to the completion of its outcome."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._failures import FailureRecord
    from ._origin import Branch, Origin
    from ._stages._call import CallStage

__all__ = ["Ticket"]


class Ticket:
    """One call of an op. Owned by the lane that claimed it until it is finished; the lock guards ``cancelled``.

    Rarely used fields are class attributes: one ticket is made per call, and every assignment costs time.
    """

    result: Any = None
    error: FailureRecord | None = None  # the item failed
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

    def __init__(self, stage: CallStage, value: Any, origin: Origin, started: float) -> None:
        self.stage = stage
        self.value = value
        self.origin = origin
        self.started = started
