"""One attempt of a call, with a time limit: ``Retry(timeout_per_attempt=...)``.

An async attempt is cancelled. An attempt on threads runs on its own thread, because a thread cannot be interrupted: if
the attempt exceeds its time, the call abandons this thread and continues with the next attempt. The thread ends when
the op returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from spdl._errors import StageTimeoutError
from spdl._reports import add_note
from spdl.pipeline._engine._joining import stack_of
from spdl.pipeline._engine._thread import EngineThread, Task


def limited(op: Callable[[Any], Any], seconds: float, stage: str) -> Callable[[Any], Any]:
    """Return a function that calls ``op`` and raises :class:`StageTimeoutError` if it takes longer than ``seconds``."""

    def call(item: Any) -> Any:
        attempt = _Attempt(op, item)
        thread = EngineThread(f"spdl-attempt-{stage}", Task(None, attempt.run))
        thread.ticket = getattr(threading.current_thread(), "ticket", None)  # counts parts that the op leaves out
        thread.start()
        if not attempt.ended.wait(min(seconds, threading.TIMEOUT_MAX)):
            error = StageTimeoutError(
                f"an attempt of a call of stage {stage} has not returned within {seconds:g} s; it is given up",
                stage=stage,
                seconds=seconds,
            )
            add_note(error, f"it is at\n{stack_of(thread.ident)}")
            raise error
        return attempt.outcome()

    return call


class _Attempt:
    """A call on its own thread. The waiting thread reads the outcome after ``ended``."""

    def __init__(self, op: Callable[[Any], Any], item: Any) -> None:
        self.op = op
        self.item = item
        self.ended = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, thread: EngineThread) -> None:
        try:
            self.result = self.op(self.item)
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code; raised where it is waited for
            self.error = exc
        self.ended.set()

    def outcome(self) -> Any:
        error, self.error = self.error, None
        if error is None:
            return self.result
        try:
            raise error
        finally:
            del error  # this frame is in its traceback
