"""Requests of the main thread, which Ctrl-C ends within a second.

obstore's calls return when they have ended, and signals are handled only then, in the main thread. A request that a
thread of its own makes can be interrupted, but costs two switches of threads, which is as much as a small request. So
the main thread makes its requests itself with a limit of a second. One that takes longer is repeated by a thread, and
so are all requests for some time after one that took long.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ._errors import RemoteTimeoutError

__all__ = ["MainThread"]

T = TypeVar("T")

#: Limit of a request that cannot be interrupted, in seconds.
_UNINTERRUPTED = 1.0
#: A request that takes so long shows that the next one may take longer than the limit.
_LONG = 0.25
#: How long it is remembered.
_MEMORY = 60.0


class MainThread:
    """How the main thread makes requests to one store. Used by that thread only."""

    def __init__(self) -> None:
        self._is_slow_until = 0.0

    def run(self, request: Callable[[float], T], limit: float) -> T:
        """The result of ``request``, which gets a limit in seconds.

        If the handler of a signal raises meanwhile, that is raised, and the result is dropped.
        """
        start = time.monotonic()
        if start >= self._is_slow_until:
            try:
                return request(min(limit, _UNINTERRUPTED))
            except RemoteTimeoutError:
                if limit <= _UNINTERRUPTED:
                    raise
                limit -= time.monotonic() - start
            finally:
                now = time.monotonic()
                if now - start > _LONG:
                    self._is_slow_until = now + _MEMORY
        return _in_thread(lambda: request(limit))


def _in_thread(call: Callable[[], T]) -> T:
    outcome: list[Any] = []
    is_done = threading.Event()

    def run() -> None:
        try:
            outcome.extend((True, call()))
        except BaseException as exc:  # noqa: BLE001  # raised below
            outcome.extend((False, exc))
        finally:
            is_done.set()

    # Not a daemon: if the interpreter ended first, native code would return to nothing. It ends with its time limit.
    thread = threading.Thread(target=run, name="spdl-remote-request")
    thread.start()
    is_done.wait()
    thread.join()
    has_succeeded, value = outcome
    if not has_succeeded:
        try:
            raise value
        finally:
            del value, outcome  # the traceback refers to this frame
    result: T = value
    return result
