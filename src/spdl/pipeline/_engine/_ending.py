"""The end of a pipeline: joins its lanes and names the calls that do not return.

Pipelines that are not stopped explicitly end with the garbage collection of the handle, at interpreter exit, or in the
child of a fork.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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
#: How long a stop without a timeout waits for sync ops, in seconds.
DEFAULT_JOIN_TIMEOUT = 10.0
#: A lock that is not free for this long is held by the calling thread itself.
_OTHERS_HOLD = 0.5


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

    ``timeout`` is that of all lanes together, in seconds. ``given_up``: threads and futures abandoned by this join and
    by earlier ones, which are not waited for again. ``running`` returns the calls that have not returned.
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


class Endable(Protocol):
    """What the end of a pipeline needs of its ``Engine``."""

    log: logging.Logger
    pipeline_id: int
    lock: threading.Lock
    lanes: list[Any]
    started: float
    is_forked: bool
    is_abandoned: bool
    is_left: bool

    @property
    def is_over(self) -> bool:
        """Whether everything has ended and was joined."""

    def request_stop(self) -> None:
        """Cancel all nodes that have not ended."""

    def join(self, timeout: float) -> list[Stuck]:
        """Join all lanes. Returns the calls that are still running."""


def abandon(engine: Endable, is_collecting: bool) -> None:
    """Stop the engine after its handle was collected, and join within the default timeout.

    Garbage collection may run on any thread at any moment, including the engine's own threads while they hold the
    engine's lock, and threads that are just starting. In these cases, a new thread does the stop. ``is_collecting``:
    whether the cycle collector collected the handle; otherwise its last reference was dropped.
    """
    if engine.is_forked or engine.is_abandoned or engine.started == 0.0 or engine.is_over:
        return
    # Other threads hold the lock for microseconds only.
    if not _may_join() or not engine.lock.acquire(timeout=_OTHERS_HOLD):
        reap = partial(_reap, engine)
        if is_collecting:
            # The collector will close the generator that the source's thread runs, and must not find it executing: see
            # ``_AfterCollection``.
            _AfterCollection.add(reap)
        else:
            reap()
        return
    engine.lock.release()
    _stop_abandoned(engine)


def _reap(engine: Endable) -> None:
    # No thread can start while the interpreter exits; then the exit hook stops this engine.
    with suppress(RuntimeError):
        threading.Thread(target=_stop_abandoned, args=(engine,), name="spdl-reaper", daemon=True).start()


class _AfterCollection:
    """Stops engines when the collection that runs on this thread has ended. Keeps them alive until then.

    A stop wakes the source's thread. If the engine is garbage too, the collector closes the generator that this thread
    runs, and prints an error on stderr if it is executing.
    """

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            gc.callbacks.remove(self)
            for call in self.calls:
                call()

    @classmethod
    def add(cls, call: Callable[[], None]) -> None:
        # Collections do not overlap, so there is at most one such object.
        found = [each for each in gc.callbacks if isinstance(each, cls)]
        if not found:
            found = [cls()]
            gc.callbacks.append(found[0])
        found[0].calls.append(call)


def _may_join() -> bool:
    """Return whether this thread may wait for the threads of an engine.

    A thread that is just starting may not: the thread that started it waits for it, and may be one of the engine's. Nor
    is it known to ``threading.current_thread()`` yet.
    """
    ident = threading.get_ident()
    this = [thread for thread in threading.enumerate() if thread.ident == ident and thread.is_alive()]
    return bool(this) and not any(isinstance(thread, EngineThread) for thread in this)


def _stop_abandoned(engine: Endable) -> None:
    engine.is_abandoned = True
    engine.request_stop()
    with suppress(KeyboardInterrupt):  # the join was abandoned, and there is no caller to raise to
        _join_abandoned(engine, DEFAULT_JOIN_TIMEOUT)


def _join_abandoned(engine: Endable, timeout: float) -> None:
    if engine.is_left:
        return
    stuck = engine.join(max(0.0, timeout))
    if stuck:
        text = describe_stuck(stuck, DEFAULT_JOIN_TIMEOUT)
        log(engine.log, logging.WARNING, "pipeline %d was dropped while ops run:\n%s", engine.pipeline_id, text)


class _Running:
    """All started engines, for interpreter exit and fork. Made on first use."""

    def __init__(self) -> None:
        # Not a WeakSet: other threads may start engines during an iteration. One operation of a dictionary needs no
        # lock, which a forked child might inherit from a thread that does not exist there.
        self._found: dict[int, weakref.ref[Endable]] = {}
        self._finalizer: Any = None
        atexit.register(self.stop_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.disown)

    def add(self, engine: Endable) -> None:
        key, found = id(engine), self._found
        found[key] = weakref.ref(engine, lambda _: found.pop(key, None))
        if self._finalizer is None and any(lane.has_child_processes for lane in engine.lanes):
            # A finalizer of multiprocessing terminates child processes, so the engines must stop before it runs. In a
            # process of multiprocessing, finalizers are all that runs at exit.
            from multiprocessing.util import Finalize

            self._finalizer = Finalize(None, self.stop_all, exitpriority=200)

    def engines(self) -> list[Endable]:
        """Return the engines that have not been collected, oldest first."""
        held = [engine for ref in self._found.copy().values() if (engine := ref()) is not None]
        return sorted(held, key=lambda engine: engine.pipeline_id)

    def stop_all(self) -> None:
        """Stop all engines at interpreter exit: request all stops first, then join all within one timeout."""
        engines = self.engines()
        for engine in engines:
            engine.is_abandoned = True
            engine.request_stop()
        deadline = perf_counter() + DEFAULT_JOIN_TIMEOUT
        with suppress(KeyboardInterrupt):  # all are stopped, and Ctrl-C abandons what has not ended
            for engine in engines:
                _join_abandoned(engine, deadline - perf_counter())

    def disown(self) -> None:
        global _running_lock
        _running_lock = threading.Lock()  # a thread that does not exist here may hold the old one
        for engine in self.engines():
            engine.is_forked = True
        self._found.clear()
        self._finalizer = None  # belongs to the parent process


_running: _Running | None = None
_running_lock = threading.Lock()


def register(engine: Endable) -> None:
    """Remember a started engine for exit and fork."""
    global _running
    with _running_lock:
        if _running is None:
            _running = _Running()
        _running.add(engine)
