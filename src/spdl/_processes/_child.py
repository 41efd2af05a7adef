"""``Child``: a process with a connection to it, owned by the holder of the object.

A child always ends with its owner: on ``stop``, when the object is collected, at interpreter exit, and if a signal
kills this process (see ``_child_main``). A forked copy of this process disowns the children.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.context import BaseContext
from multiprocessing.util import Finalize
from time import monotonic
from typing import Any, Final

from spdl._errors import PipelineStateError, WorkerDiedError
from spdl._reports import log

from . import _start
from ._calls import Answer, Phase
from ._child_main import Call, UnpicklableError, run
from ._transport._connecting import link_pair
from ._transport._connection import wait_readable
from ._transport._frame import Frame
from ._transport._link import Link

_ADVICE: Final = "Use a function of a module, or functools.partial"
#: How long to wait for the exit code once the connection has ended: under load it takes seconds.
_CODE_TIMEOUT: Final = 10.0
#: Polling interval for children whose death is not signalled by a descriptor.
_POLL_INTERVAL: Final = 0.05
#: The signal that no process survives; Windows has only one.
_SIGKILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
#: How long a child may take to end after SIGKILL.
_SIGNAL_TIMEOUT: Final = 2.0


class Child:
    """Created by ``Child.start``. All methods are thread-safe, except that only one thread at a time may call ``recv``.

    Attributes:
        link: The connection. Sending may block while the child does not receive.
        pid: Of the process.
        name: Of the process.
        what: Names the child in errors.
        is_retired: Whether only its end is left to wait for, which is received like any other message.
    """

    is_retired = False

    def __init__(
        self, process: _start.StartedProcess, link: Link, what: str, at_end: Callable[[], None] | None
    ) -> None:
        assert process.pid is not None
        self.link = link
        self.pid = process.pid
        self.name = process.name
        self.what = what
        self._process = process
        self._at_end = at_end
        self._pidfd = _open_pidfd(process.pid)
        self._code: int | None = None
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            for each in self.descriptors():
                self._poll.register(each, select.POLLIN)
        self._stopping = threading.RLock()  # the collector may stop a child while the same thread does
        self._is_stopped = False
        self._is_forked = False
        _family.add(self)

    @classmethod
    def start(
        cls,
        body: Callable[..., None],
        *args: Any,
        name: str,
        what: str,
        mp_context: str | BaseContext | None = None,
        daemon: bool = True,
        link_limit: int | None = None,
        at_end: Callable[[], None] | None = None,
        fork: Callable[..., _start.StartedProcess] | None = None,
        **link_options: Any,
    ) -> Child:
        """Start a process that runs ``body(link, *args)`` in its main thread and then ends.

        Does not wait until it runs. ``recv`` raises an exception of ``body``, as text.

        Args:
            body: A function of a module.
            args: Its further arguments.
            name: Name of the process.
            what: Names it in errors: ``worker 2 of region a+b``.
            mp_context: Start method, see ``_start.context_of``. ``None``: if the arguments cannot be pickled and no
                other thread runs, fork.
            daemon: As for ``multiprocessing.Process``: a daemon may not have children itself.
            link_limit: Most bytes of shared memory in each direction; 0: none; ``None``: chosen from the machine's
                memory.
            at_end: Called once, when the connection has ended; at once if the process cannot be started. Not in forks.
            fork: ``launch`` of a template that forks the process, as long as it can.
            link_options: Further arguments of ``link_pair``.

        Raises:
            TypeError: ``body`` or one of ``args`` cannot be pickled; the message names it.
            ValueError: There is no such start method here.
            WorkerError: The system cannot start a process.
        """

        def start_by(context: BaseContext) -> Child:
            link, there = link_pair(link_limit, **link_options)
            try:
                process: _start.StartedProcess | None = None
                is_renewed = fork is not None or context.get_start_method() == "forkserver"
                arguments = there, Call(what, body, args, _start.environment() if is_renewed else {})
                if fork is not None:
                    with suppress(_start.TemplateGone):
                        process = fork(run, arguments, name=name, daemon=daemon)
                if process is None:
                    process = _start.launch(context, run, arguments, name=name, daemon=daemon)
                return cls(process, link, what, at_end)
            except BaseException:
                link.close()
                raise
            finally:
                there.close()

        try:
            return _try_start(mp_context, start_by)
        except BaseException:
            _call(at_end)
            raise

    # -- receiving

    def recv(self, timeout: float | None = None) -> Frame:
        """The next frame.

        Args:
            timeout: Seconds; ``None``: until there is a frame or the child has died.

        Raises:
            TimeoutError: Nothing came in time.
            WorkerDiedError: The child has ended, and everything that it sent was received.
            WorkerError: The child's function raised; the child has ended or is about to.
            PipelineStateError: The child was stopped, or this process was forked from the one that owns it.
        """
        frame = self.link.next_frame()  # ``None`` after a stop or a fork
        if frame is None:
            frame = self._recv_waiting(timeout)
        if frame.kind == Answer.FAILED:
            self._raise_failure(frame)
        return frame

    def _recv_waiting(self, timeout: float | None) -> Frame:
        link = self.link
        deadline = None if timeout is None else monotonic() + timeout
        self._check_owned()
        try:
            if timeout != 0:
                link.spin()
            while True:
                if link.has_frame() and (frame := link.next_frame()) is not None:
                    return frame
                ready = self._wait(None if deadline is None else max(0.0, deadline - monotonic()))
                if not ready:
                    raise TimeoutError(f"nothing from {self.what} within {timeout} s")
                if link.fileno() not in ready:
                    break
                if (frame := link.try_recv()) is not None:  # else only a part of a frame, or a spurious wake-up
                    return frame
            # It has died. Other processes that hold its end of the connection send nothing.
            try:
                return link.recv(0)
            except TimeoutError:
                raise self.died() from None
        except (EOFError, ValueError):
            self._check_owned()
            raise self.died() from None

    def _raise_failure(self, frame: Frame) -> None:
        failed = "failed" if frame.number == Phase.RUNNING else "could not unpickle what it was started with"
        raise frame.load().as_error(f"{self.what} {failed}")

    def _wait(self, timeout: float | None) -> list[int]:
        """Wait for a frame or for the death of the child. Return the ready descriptors."""
        poll = self._poll
        if poll is None:
            return wait_readable(self.descriptors(), timeout)
        # Rounded up, as there.
        milliseconds = None if timeout is None else min(int(timeout * 1000) + (timeout > 0), 0x7FFFFFFF)
        return [each for each, _ in poll.poll(milliseconds)]

    def descriptors(self) -> list[int]:
        """Descriptors that are readable when there is something to receive, or the child has died."""
        # Without a pidfd, use the end of the connection, which comes with the death unless other processes hold the
        # connection.
        if self._pidfd is None:
            return [self.link.fileno()]
        return [self._pidfd] if self.is_retired else [self.link.fileno(), self._pidfd]

    def _check_owned(self) -> None:
        if self._is_forked:
            raise PipelineStateError(f"{self.what} belongs to the process that this one was forked from")
        if self._is_stopped:
            raise PipelineStateError(f"{self.what} was stopped")

    # -- the end of the process

    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; ``None`` while it runs, or if it is unknown."""
        if self._code is None and not self._is_forked:
            with _start.lock, suppress(ValueError):  # closed by a stop: then the code is known, or will never be
                self._code = self._process.exitcode
        return self._code

    def is_alive(self) -> bool:
        """Whether the process is running."""
        if self._is_forked or self._is_stopped:
            return False
        if self._pidfd is not None:
            return not wait_readable([self._pidfd], 0)
        return self.exit_code() is None

    def died(self) -> WorkerDiedError:
        """Return the error for a child that has ended or is about to end. Waits a moment for its exit code."""
        self._join(_CODE_TIMEOUT)
        code = self.exit_code()
        how = "how is not known" if code is None else f"exit code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
        return WorkerDiedError(f"{self.what} exited unexpectedly. Process {self.pid}: {how}", exit_code=code)

    def stop(self, timeout: float = 3.0) -> None:
        """End the process and wait until it has ended. Idempotent; does not raise if it has already ended.

        Args:
            timeout: Seconds that it may take to end by itself after its connection has ended.
        """
        with self._stopping:
            if self._is_stopped or self._is_forked:
                return
            self._is_stopped = True
            self.link.close()
            at_end, self._at_end = self._at_end, None
            _call(at_end)
            self._end(timeout)
            self.exit_code()
            with _start.lock, suppress(ValueError):  # it is still there: stuck in a system call
                self._process.close()
            _family.children.discard(self)
            if self._pidfd is not None:
                pidfd, self._pidfd = self._pidfd, None
                os.close(pidfd)

    def _end(self, timeout: float) -> None:
        """Wait, then force the process to end: it ignores SIGTERM."""
        if not self._join(timeout):
            self.kill()
            self._join(_SIGNAL_TIMEOUT)

    def kill(self) -> None:
        """Kill the process. Does not wait; its death is reported as any other."""
        self.send_signal(_SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, never to another process that has reused its pid."""
        pidfd = self._pidfd  # read once: ``stop`` may be closing it
        with suppress(OSError):
            if pidfd is not None:
                signal.pidfd_send_signal(pidfd, number)
            elif self.exit_code() is None:
                os.kill(self.pid, number)

    def _join(self, timeout: float) -> bool:
        """Wait for the end of the process, and for its exit code, which may come a moment later."""
        timeout = max(0.0, timeout)
        with suppress(ValueError):  # closed by a stop, which has waited for the end
            if not hasattr(os, "fork"):
                self._process.join(timeout)
            elif not wait_readable([self._process.sentinel if self._pidfd is None else self._pidfd], timeout):
                return False
            if self._code is None:
                with _start.lock:
                    self._process.join(_CODE_TIMEOUT)
                return self._pidfd is not None or self.exit_code() is not None
        return True

    def disown(self) -> None:
        """Drop the child in a forked copy of the process that owns it."""
        self._is_forked = True
        _start.forget(self._process)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # `sys` may be gone at exit
        if hasattr(self, "_stopping") and not _is_finalizing():
            self.stop()


def _try_start(mp_context: str | BaseContext | None, start_by: Callable[[BaseContext], Child]) -> Child:
    context = _start.context_of(mp_context)
    for is_last in (False, True):
        try:
            return start_by(context)
        except UnpicklableError as exc:
            if is_last or not _start.may_fork(mp_context):
                raise TypeError(f"{exc}. {_start.fork_advice(mp_context, _ADVICE)}") from exc.__cause__
            context = _start.context_of("fork")
        except _start.ForkServerGone:
            if is_last:
                raise
    raise AssertionError("unreachable")


def _call(at_end: Callable[[], None] | None) -> None:
    try:
        if at_end is not None:
            at_end()
    except Exception:  # noqa: BLE001 - the child is ended anyway
        text = "what goes with a child could not be ended"
        log(logging.getLogger("spdl.pipeline"), logging.WARNING, text, exc_info=True)


def wait_deaths(children: Iterable[Child], timeout: float) -> list[Child]:
    """Wait until one of ``children`` has died, regardless of messages.

    Returns:
        All that have died; empty after a timeout.
    """
    children = list(children)
    until = monotonic() + timeout
    while not (dead := [child for child in children if not child.is_alive()]) and (left := until - monotonic()) > 0:
        pidfds = [child._pidfd for child in children if child._pidfd is not None]
        wait_readable(pidfds, left if pidfds and len(pidfds) == len(children) else min(left, _POLL_INTERVAL))
    return dead


def stop_all(children: Iterable[Child]) -> None:
    """Stop all of ``children``. Tells each one to end before it waits for any."""
    children = list(children)
    for child in children:
        child.link.close()
    for child in children:
        child.stop()


def _open_pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, a sandbox, or already dead, which the end of the connection shows
        return None


class _Family:
    """All children of this process, for exit and fork."""

    def __init__(self) -> None:
        self.children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._lock = threading.RLock()
        self._finalizer: Finalize | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.disown)

    def add(self, child: Child) -> None:
        with self._lock:
            self.children.add(child)
            if self._finalizer is None:
                # Runs in processes of multiprocessing too, which skip atexit, and always before multiprocessing waits
                # for its processes.
                self._finalizer = Finalize(None, self.stop_all, exitpriority=100)

    def stop_all(self) -> None:
        """Stop all children at interpreter exit."""
        stop_all(self.children)

    def disown(self) -> None:
        self._lock = threading.RLock()
        self._finalizer = None
        for child in list(self.children):
            child.disown()
        self.children.clear()


_family = _Family()


def living_children() -> list[tuple[int, str]]:
    """Return pid and description of all children of this process that have not ended, in the order of their pids."""
    children = [child for child in list(_family.children) if child.is_alive()]
    return sorted((child.pid, child.what) for child in children)
