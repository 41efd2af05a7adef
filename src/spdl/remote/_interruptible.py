"""Requests that can end early: by Ctrl-C in the main thread, or when native code no longer needs the result.

obstore's calls cannot be interrupted. A request that runs in a separate thread can be abandoned, but costs two thread
switches, as much as a small request. So the caller makes its requests itself with a limit of one second. A request that
takes longer is repeated in a thread, and so are all requests for some time after a slow one.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ._errors import RemoteTimeoutError

T = TypeVar("T")

#: Limit of a request that cannot be abandoned, in seconds.
_UNINTERRUPTED = 1.0
#: After a request that took this long, the next one may exceed the limit.
_LONG = 0.25
#: How long a slow request is remembered.
_MEMORY = 60.0
#: Interval of checks whether the result is still needed, in seconds.
_PATIENCE = 0.1


class Abandoned(Exception):
    """The caller no longer needs the result."""


class Interruptible:
    """Makes requests to one store for one thread at a time. In the main thread, signal handlers run.

    Args:
        is_over: Whether to give up; called in the calling thread. ``None``: only an exception of a signal handler ends
            a request.
    """

    def __init__(self, is_over: Callable[[], bool] | None = None) -> None:
        self.is_over = is_over
        self._is_slow_until = 0.0

    def short_limit(self, start: float, limit: float) -> float | None:
        """The limit of a request that the caller makes itself at this time. ``None``: use ``run`` instead."""
        if start < self._is_slow_until:
            return None
        return _UNINTERRUPTED if limit > _UNINTERRUPTED else limit

    def note(self, start: float) -> None:
        """Note that a request that the caller made itself has ended."""
        now = time.monotonic()
        if now - start > _LONG:
            self._is_slow_until = now + _MEMORY

    def run(self, request: Callable[[float], T], limit: float) -> T:
        """The result of ``request``, which gets a limit in seconds.

        If a signal handler raises during the request, that exception is raised, and the result is dropped.

        Raises:
            Abandoned: ``is_over`` returned true.
        """
        start = time.monotonic()
        short = self.short_limit(start, limit)
        if short is not None:
            try:
                return request(short)
            except RemoteTimeoutError:
                if short == limit:
                    raise
                limit -= time.monotonic() - start
            finally:
                self.note(start)
        return self.in_thread(lambda: request(limit))

    def sleep(self, seconds: float) -> None:
        """Wait. Raises ``Abandoned`` like ``run``."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._go_on()
            time.sleep(min(left, _PATIENCE))

    def _go_on(self) -> None:
        if self.is_over is not None and self.is_over():
            raise Abandoned

    def in_thread(self, call: Callable[[], T]) -> T:
        """The result of ``call``, which a thread makes. Ends early as ``run`` does."""
        outcome: list[Any] = []
        is_done = threading.Event()

        def run() -> None:
            try:
                outcome.extend((True, call()))
            except BaseException as exc:  # noqa: BLE001  # raised below
                outcome.extend((False, exc))
            finally:
                is_done.set()

        # Not a daemon: if the interpreter ended first, native code would return into a dead interpreter. It ends at its
        # time limit.
        thread = threading.Thread(target=run, name="spdl-remote-request")
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads, or (from Python 3.12 on) the interpreter exits
            self._go_on()
            return call()
        while not is_done.wait(None if self.is_over is None else _PATIENCE):
            self._go_on()
        thread.join()
        has_succeeded, value = outcome
        if not has_succeeded:
            try:
                raise value
            finally:
                del value, outcome  # the traceback refers to this frame
        result: T = value
        return result
