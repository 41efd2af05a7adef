"""What a stage may ask of its lane, and the kind of thread that all lanes use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from spdl.pipeline._engine._stages._call import CallStage
    from spdl.pipeline._engine._ticket import Ticket

__all__ = ["EngineThread", "Lane"]


class Lane(Protocol):
    """The methods are called under the engine's lock and cannot block."""

    #: Somebody of this lane holds the lock and will claim before letting go, so nobody needs to be woken. Guarded by
    #: the lock.
    is_claiming: bool

    def offer(self, stage: CallStage) -> None:
        """``stage`` may have become ready: wake somebody who can take a ticket, if nobody is awake who will."""

    def cancel_calls(self, stage: CallStage) -> None:
        """Ask the running calls of ``stage`` to end, where that can be asked, and mark their tickets."""


class EngineThread(threading.Thread):
    """A thread of the engine: a daemon, so that an op stuck in a system call cannot keep the interpreter alive.

    ``ticket`` is the call it runs, for the report about stuck ops; written by the thread itself, read by ``stop``.
    """

    def __init__(self, name: str, body: Callable[[EngineThread], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.body = body
        self.ticket: Ticket | None = None
        self.in_source = False  # inside the source's iterator

    def run(self) -> None:
        try:
            self.body(self)
        finally:
            del self.body  # it holds the engine; a thread object may outlive it
            self.ticket = None
