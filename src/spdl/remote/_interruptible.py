"""Requests that Ctrl-C interrupts.

obstore's calls return when they have ended, and signals are handled only then. Handlers run in the main thread, so a
request of the main thread is made by a thread of its own, which costs some 50 us, and the main thread waits for that.
Requests of other threads are made directly.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["interruptible"]

T = TypeVar("T")


def interruptible(call: Callable[[], T]) -> T:
    """The result of ``call``. If a signal's handler raises meanwhile, that is raised and the result dropped."""
    if threading.current_thread() is not threading.main_thread():
        return call()
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
