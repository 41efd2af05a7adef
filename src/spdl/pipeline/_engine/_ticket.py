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
    """Owned by the lane that claimed it until it is finished; ``cancelled`` is guarded by the engine's lock.

    What most calls never set is a default of the class: one ticket is made per call, and every store would count.
    """

    result: Any = None
    error: FailureRecord | None = None  # the item failed
    fatal: BaseException | None = None  # the stage fails
    done = False  # ordered stages: finished, waiting for its turn. Guarded by the lock
    cancelled = False  # the result is not wanted any more
    given_up = False  # it took too long: the item has failed, and whoever runs the call discards what it returns
    sample_cpu = False
    # generator calls only
    exhausted = False  # no more steps
    closing = False  # an async generator's ``aclose`` is awaited: it must not be cancelled. On the loop's thread only
    generator: Any = None
    branch: Branch | None = None
    outputs: deque[Any] | None = None  # values that wait for room
    thread_id: int | None = None  # of the executor's thread that runs the call, where it can be known
    # the executor's future, or the loop's future that waits for a call on a thread
    handle: Any = None

    def __init__(self, stage: CallStage, value: Any, origin: Origin, started: float) -> None:
        self.stage = stage
        self.value = value
        self.origin = origin
        self.started = started
