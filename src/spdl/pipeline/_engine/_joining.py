"""Joins the lanes of a pipeline, and names the calls that do not return."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from spdl._reports import frames_of_threads, log

from ._failures import short_repr
from ._thread import EngineThread

if TYPE_CHECKING:
    from ._ticket import Ticket

_LOG = logging.getLogger("spdl.pipeline")

#: A join that takes longer logs what it waits for, in seconds.
_SILENT_SECONDS = 0.5
#: The same after Ctrl-C: the user wants to know soon. Most calls return earlier.
_INTERRUPTED_SECONDS = 0.1
#: How long to wait for a source that is blocked in ``next``, in seconds.
_SHORT_TIMEOUT = 1.0


class RunningCall(NamedTuple):
    """A call that has not returned.

    ``started`` is 0 if it is not known. ``thread_id``: of the thread that it runs on; ``None``: a coroutine, with its
    own ``stack``, or a call in another process.
    """

    stage: str
    item: str
    started: float = 0.0
    thread_id: int | None = None
    stack: str = ""


class Stuck(NamedTuple):
    """A call that did not return after a stop, and where it is."""

    stage: str
    item: str
    stack: str


def stack_of(ident: int | None) -> str:
    """Return the stack of a thread. ``None``: the stack is not accessible, for example in another process."""
    frame = frames_of_threads().get(ident) if ident is not None else None
    return "".join(traceback.format_stack(frame)) if frame is not None else "  (its stack is not available here)\n"


def describe_stuck(stuck: list[Stuck], seconds: float) -> str:
    return "\n".join(
        f"stage {one.stage}: it has not returned {seconds:g} s after the stop, on item {one.item}; it is at\n"
        f"{one.stack}"
        for one in stuck
    )


def stuck_in(ticket: Ticket, stack: str) -> Stuck:
    return Stuck(str(ticket.stage.info), short_repr(ticket.value), stack)


class Joining:
    """One join of all lanes. After a while it logs what it waits for, and for how long.

    Args:
        pipeline_id: Number of the pipeline, for messages.
        timeout: Maximum time for all lanes together, in seconds.
        given_up: Threads and futures abandoned by this join and by earlier ones. They are not waited for again.
        running: Returns the calls that have not returned.
    """

    def __init__(
        self, pipeline_id: int, timeout: float, given_up: set[object], running: Callable[[], list[RunningCall]]
    ) -> None:
        self.pipeline_id = pipeline_id
        self.timeout = timeout
        self.given_up = given_up
        self.running = running
        self.stuck: list[Stuck] = []
        self.began = perf_counter()
        self.deadline = self.began + timeout
        self.short_deadline = self.deadline  # for what may be abandoned soon, without a report
        silent = min(_SILENT_SECONDS, _INTERRUPTED_SECONDS) if _is_interrupted() else _SILENT_SECONDS
        self.notice = self.began + silent  # when to log it

    def begin(self) -> None:
        """Called when the lanes are started."""
        self.short_deadline = min(self.deadline, perf_counter() + _SHORT_TIMEOUT)

    def extend(self, seconds: float) -> None:
        """Allow ``seconds`` from now on, but in total never more than ``timeout``."""
        self.deadline = max(self.deadline, perf_counter() + min(self.timeout, seconds))

    def wait(self, wait: Callable[[float], bool], until: float | None = None) -> bool:
        """Call ``wait(seconds)``, which returns whether its condition holds, at most until ``until``."""
        until = self.deadline if until is None else until
        if self.notice < until:
            if wait(max(0.0, self.notice - perf_counter())):
                return True
            if self._say():
                self.notice = float("inf")
        return wait(max(0.0, until - perf_counter()))

    def _say(self) -> bool:
        """Log which calls have not returned. Returns False if there are none."""
        now = perf_counter()
        calls = [
            f"  stage {call.stage}: item {call.item}"
            + (f", running for {now - call.started:.3g} s" if call.started else "")
            for call in self.running()
        ]
        if not calls:
            return False
        text = "pipeline %d is stopping and waits up to %.3g s for calls that have not returned:\n%s"
        if threading.current_thread() is threading.main_thread():
            again = " again" if _is_interrupted() else ""
            calls.append(f"  Press Ctrl-C{again} to abandon them and leave at once.")
        values = self.pipeline_id, self.deadline - self.began, "\n".join(calls)
        log(_LOG, logging.WARNING, text, *values)
        if _is_interrupted() and not _LOG.isEnabledFor(logging.WARNING):
            with suppress(Exception):  # no stderr
                print(text % values, file=sys.stderr, flush=True)
        return True

    def has_ended(self, thread: EngineThread | None, until: float | None = None) -> bool:
        """Join a thread. Returns False if this join abandons it; True if it has ended or was abandoned before."""
        given_up = self.given_up
        if thread is None or thread is threading.current_thread() or thread.ident is None or thread in given_up:
            return True

        def wait(seconds: float) -> bool:
            thread.join(seconds)
            return not thread.is_alive()

        if self.wait(wait, until):
            return True
        given_up.add(thread)
        return False

    def thread(self, thread: EngineThread | None) -> None:
        """Join a thread, and report the call that it runs if it does not end."""
        if thread is None or self.has_ended(thread):
            return
        ticket, stack = thread.ticket, stack_of(thread.ident)
        self.stuck.append(Stuck(thread.name, "(none)", stack) if ticket is None else stuck_in(ticket, stack))


def _is_interrupted() -> bool:
    """Return whether the join is due to a Ctrl-C that is being handled or has ended the program."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)
