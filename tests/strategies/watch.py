"""Checks for every case: it ends, and leaves nothing behind."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from spdl._reports import frames_of_threads
from tests.support.timeouts import TIMEOUT

__all__ = ["BOUND", "Hang", "bounded", "nothing_left"]

#: Seconds after which a call counts as hanging.
BOUND = TIMEOUT


class Hang(AssertionError):
    """A call did not return; the message has the stacks of all threads."""


def stacks() -> str:
    """The stacks of all threads except this one."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    names.pop(threading.get_ident(), None)
    frames = frames_of_threads()
    return "\n".join(
        f"-- {name}\n{''.join(traceback.format_stack(frames[ident]))}"
        for ident, name in names.items()
        if ident in frames
    )


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Turn a ``TimeoutError`` of the body into a ``Hang``."""
    try:
        yield
    except TimeoutError as exc:
        raise Hang(f"{what} did not return: {exc}\n{stacks()}") from exc


class _Complaints(logging.Handler):
    """Log records of the engine that report its own errors; failures of items are not included."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = str(record.msg)
        if record.levelno >= logging.CRITICAL or "stopped, but" in text or "dropped while" in text:
            cause = record.exc_info[1] if record.exc_info else None
            trace = "".join(traceback.format_exception(cause)) if cause is not None else ""
            self.messages.append(f"{record.getMessage()}\n{trace}")


def _descriptors() -> set[str]:
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    return set(os.listdir(folder))


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that the body leaves no thread and no descriptor, and that the engine reported no error of its own.

    Threads are switched every few bytecodes, so that few items are enough for many interleavings.
    """
    complaints = _Complaints()
    logger = logging.getLogger("spdl")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(complaints)
    interval = sys.getswitchinterval()
    threads, descriptors = set(threading.enumerate()), _descriptors()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        logger.removeHandler(complaints)
        logger.propagate = propagate
    for thread in set(threading.enumerate()) - threads:
        if thread.name == "spdl-reaper":  # the handle was collected on one of the engine's threads
            thread.join(BOUND)
    left = set(threading.enumerate()) - threads
    assert not left, f"threads are left: {left}\n{stacks()}"
    opened = _descriptors() - descriptors
    assert len(opened) <= len(descriptors - _descriptors()), f"descriptors are left open: {opened}"
    assert not complaints.messages, "the engine complained:\n" + "\n".join(complaints.messages)
