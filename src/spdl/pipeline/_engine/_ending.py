"""Joining a pipeline's threads, naming what is stuck, and the two ends that nobody asks for: fork and collection."""

from __future__ import annotations

import concurrent.futures
import os
import sys
import threading
import traceback
import weakref
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ._failures import short_repr
from ._lanes._base import EngineThread

if TYPE_CHECKING:
    from ._scheduler import Engine

__all__ = ["DEFAULT_JOIN_TIMEOUT", "Stuck", "abandon", "describe_stuck", "join_all", "register"]

#: How long a stop without a timeout waits for sync ops.
DEFAULT_JOIN_TIMEOUT = 10.0
#: How long a stop waits for a source blocked in ``next``.
_SOURCE_TIMEOUT = 1.0
#: A lock that is not free for so long is held by the thread that asks.
_OTHERS_HOLD = 0.5


class Stuck(NamedTuple):
    """A call that did not return."""

    stage: str
    item: str
    stack: str


def _current(thread: EngineThread) -> Stuck | None:
    ticket = thread.ticket
    if ticket is None:
        return None
    return Stuck(str(ticket.stage.info), short_repr(ticket.value), _stack(thread))


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or -1)
    return "".join(traceback.format_stack(frame)) if frame is not None else "  (no stack)\n"


def describe_stuck(stuck: list[Stuck], seconds: float) -> str:
    return "\n".join(
        f"stage {one.stage}: the op has not returned {seconds:g} s after the stop, on item {one.item}; it is at\n"
        f"{one.stack}"
        for one in stuck
    )


def join_all(engine: Engine, timeout: float) -> list[Stuck]:
    """Wait for the threads of ``engine`` and for its calls in executors."""
    this = threading.current_thread()
    deadline = perf_counter() + timeout

    def join(thread: EngineThread | None, until: float) -> bool:
        """True: it has ended, or it is not to be waited for: what was given up once is not waited for again."""
        if thread is None or thread is this or thread.ident is None or thread in engine.given_up:
            return True
        thread.join(max(0.0, until - perf_counter()))
        if thread.is_alive():
            engine.given_up.add(thread)
            return False
        return True

    stuck: list[Stuck] = []
    # Sources first: one that is blocked in next() is given a second and then left alone; it takes nothing more.
    source_deadline = perf_counter() + min(_SOURCE_TIMEOUT, timeout)
    for source in engine.sources:
        thread = source.thread
        if not thread.in_source:
            continue
        join(thread, source_deadline)
    for source in engine.sources:
        thread = source.thread
        if not join(thread, deadline):
            stuck.append(_current(thread) or Stuck(thread.name, "(none)", _stack(thread)))
    futures: dict[concurrent.futures.Future[Any], Any] = {}
    with engine.lock:
        for lane in engine.executors:
            for ticket in lane.tickets:
                if ticket.handle is not None:
                    futures[ticket.handle] = ticket
    futures = {future: ticket for future, ticket in futures.items() if future not in engine.given_up}
    if futures and not isinstance(this, EngineThread):
        waited = concurrent.futures.wait(futures, max(0.0, deadline - perf_counter()))
        where = "  (in an executor; its stack is not known)\n"
        engine.given_up.update(waited.not_done)
        unfinished = [futures[future] for future in waited.not_done]
        stuck.extend(Stuck(str(ticket.stage.info), short_repr(ticket.value), where) for ticket in unfinished)
    if not join(engine.loop.thread, deadline) and engine.loop.thread is not None:
        calls = engine.loop.running_calls()
        stuck.extend(Stuck(str(ticket.stage.info), short_repr(ticket.value), stack) for ticket, stack in calls)
        if not calls:
            stuck.append(Stuck(engine.loop.thread.name, "(none)", _stack(engine.loop.thread)))
    for other in [*engine.pool.threads, *(lane.thread for lane in engine.executors)]:
        if not join(other, deadline) and other is not None:
            stuck.append(_current(other) or Stuck(other.name, "(none)", _stack(other)))
    if (
        engine.to_close
    ):  # no worker was left to do it; close() is user code, so it gets a thread that may be left behind
        closer = EngineThread(f"spdl-{engine.pipeline_id}-closer", lambda _: engine.close_generators())
        closer.start()
        if not join(closer, deadline):
            stuck.append(Stuck(closer.name, "(none)", _stack(closer)))
    return stuck


def abandon(engine: Engine) -> None:
    """The handle was collected, or the interpreter exits: stop, and join within the usual bound.

    A collection may happen on any thread at any moment, also on one of the engine's own and also while that thread
    holds the engine's lock. Then the stop is left to a thread made for it.
    """
    if engine.is_forked or engine.started == 0.0:
        return
    # Anybody else holds the lock for microseconds.
    if isinstance(threading.current_thread(), EngineThread) or not engine.lock.acquire(timeout=_OTHERS_HOLD):
        threading.Thread(target=_stop_abandoned, args=(engine,), name="spdl-reaper", daemon=True).start()
        return
    engine.lock.release()
    _stop_abandoned(engine)


def _stop_abandoned(engine: Engine) -> None:
    engine.request_stop()
    stuck = engine.join(DEFAULT_JOIN_TIMEOUT)
    if stuck:
        text = describe_stuck(stuck, DEFAULT_JOIN_TIMEOUT)
        engine.log.warning("pipeline %d was dropped while ops run:\n%s", engine.pipeline_id, text)


class _Running:
    """Engines that have been started, so that the child of a fork can disown its copies. Made on first use."""

    def __init__(self) -> None:
        self.engines: weakref.WeakSet[Engine] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.disown)

    def disown(self) -> None:
        for engine in list(self.engines):
            engine.is_forked = True
        self.engines.clear()


_running: _Running | None = None
_running_lock = threading.Lock()


def register(engine: Engine) -> None:
    """Remember a started engine for ``fork``."""
    global _running
    with _running_lock:
        if _running is None:
            _running = _Running()
        _running.engines.add(engine)
