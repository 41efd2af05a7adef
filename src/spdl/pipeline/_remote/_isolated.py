"""The child processes of isolated stages, on the parent's side."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from spdl._errors import WorkerDiedError, WorkerError, WorkerTimeoutError
from spdl._processes._calls import Answer, Caller, Request
from spdl._processes._child import Child
from spdl._processes._stacks import STACK_SIGNAL, stacks_of, tidy
from spdl._processes._transport._connection import wait_readable
from spdl._reports import add_note
from spdl.pipeline._engine._remote_calls import IsolatedReply, IsolatedTask

from ._isolated_main import serve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spdl._processes._transport._frame import Frame

#: Whether the stacks of a child can be read without a pipe.
_HAS_PROC: Final[bool] = sys.platform == "linux"

#: Seconds that a child gets to begin writing its stacks before it is killed, and between two parts of them.
_STACK_BEGINS: Final = 0.5
_STACK_GOES_ON: Final = 0.05
#: In a stack, innermost first: from the frame that called the op to the end of the thread's block.
_OUR_FRAMES: Final = re.compile(r"\n *File \"[^\"\n]*_isolated_main\.py\", line \d+ in _call\n.*", re.DOTALL)


class IsolatedChild:
    """A process that runs the op of ``task``; the constructor starts it. ``IsolatedWorker`` documents the methods.

    Raises:
        TypeError: The op cannot be pickled.
        WorkerError: The system cannot start a process.
    """

    def __init__(self, task: IsolatedTask) -> None:
        self._is_killed = False
        self._crash, told = _crash_pipe()
        self._caller = Caller()
        try:
            self._child = Child.start(
                serve,
                task.op,
                task.is_generator,
                task.retry,
                told,
                name=f"spdl-isolated-{task.info.stage_name}",
                what=f"the process of isolated stage {task.info}",
                daemon=False,  # so that an op may have children of its own
            )
        except BaseException:
            if self._crash is not None:
                self._crash.close()
            raise
        finally:
            if told is not None:
                told.close()

    def wait_ready(self) -> None:
        """Wait until the child has loaded the op."""
        try:
            self._child.recv().discard()
            return
        except WorkerDiedError as exc:
            error = self._explain(exc)
        # Raised outside the handler: the error is kept for long, and its context would keep the frames and the link.
        raise error

    def is_alive(self) -> bool:
        return self._child.is_alive()

    def call(self, value: Any, timeout: float | None) -> IsolatedReply:
        """Run the op on an item."""
        link = self._child.link
        encoded = link.encode(value)
        return self._ask(Request.CALL, encoded, timeout)

    def call_again(self, timeout: float | None) -> IsolatedReply:
        """Run the op again on the item of the last call."""
        return self._ask(Request.AGAIN, self._child.link.encode(None), timeout)

    def _ask(self, kind: Request, encoded: Any, timeout: float | None) -> IsolatedReply:
        child = self._child
        error: WorkerError
        try:
            self._caller.send(child.link, [(kind, 0, encoded)])
            frame = child.recv(timeout)
        except WorkerDiedError as exc:
            error = self._explain(exc)
        except TimeoutError:
            error = WorkerTimeoutError(f"{child.what} took too long", remote_traceback=self._where())
            self.kill()
        except OSError:  # the child died while the item was sent
            error = self._explain(child.died())
        else:
            return _reply_of(frame)
        raise error  # not in a handler, as above

    def _where(self) -> str | None:
        """Return what the child is doing: the stacks of its threads."""
        if _HAS_PROC:
            return _tidy(stacks_of(self._child.pid) or "")
        if self._crash is None or STACK_SIGNAL is None:
            return None
        self._child.send_signal(STACK_SIGNAL)
        seconds = _STACK_BEGINS
        text = ""
        while wait_readable([self._crash.fileno()], seconds):
            part = _read(self._crash)
            if not part:
                break
            text += part
            seconds = _STACK_GOES_ON
        return _tidy(text)

    def _explain(self, exc: WorkerDiedError) -> WorkerDiedError:
        """Return the error of a death, with the stack of the crash if the child could write it."""
        text = str(exc)
        if exc.exit_code == -getattr(signal, "SIGKILL", 0) and not self._is_killed:
            text += ", and not by this pipeline: perhaps by the kernel, because memory ran out"
        stack = None if self._crash is None else _tidy(_read(self._crash))
        error = WorkerDiedError(text, exit_code=exc.exit_code, remote_traceback=stack)
        if stack:
            add_note(error, f"it crashed at\n{stack}")
        return error

    def kill(self) -> None:
        self._is_killed = True
        self._child.kill()

    def stop(self) -> None:
        self._child.stop(0.0 if self._is_killed else 3.0)
        if self._crash is not None:
            self._crash.close()


def _reply_of(frame: Frame) -> IsolatedReply:
    if frame.kind == Answer.RESULT:
        return IsolatedReply(frame.load(), None, False)
    values, failure = frame.load()
    return IsolatedReply(values, failure, bool(frame.number))


def _crash_pipe() -> tuple[Connection[bytes, bytes] | None, Connection[bytes, bytes] | None]:
    """Return the parent's and the child's end of a pipe to which the child writes the stack of a crash."""
    if sys.platform == "win32":  # the interpreter writes to descriptors, which cannot be handed to a child there
        return None, None
    ours, theirs = multiprocessing.Pipe(duplex=False)
    os.set_blocking(ours.fileno(), False)
    return ours, theirs


def _read(pipe: Connection[bytes, bytes]) -> str:
    """Return what can be read without waiting: processes that the op has started may hold the other end open."""
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(pipe.fileno(), 1 << 16):
            parts.append(part)
    return b"".join(parts).decode(errors="replace")


def _tidy(text: str) -> str | None:
    """Return the part that shows where the op was, without the frames below it; ``None`` if there is none."""
    blocks = [_OUR_FRAMES.sub("", block) for block in text.split("\n\n")]
    return tidy("\n\n".join(blocks))
