"""Shutdown: joins a pipeline's threads, reports stuck calls, and handles collection, interpreter exit and fork."""

from __future__ import annotations

import atexit
import concurrent.futures
import logging
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl._reports import log

from ._failures import short_repr
from ._thread import EngineThread, Task

if TYPE_CHECKING:
    from ._engine import Engine
    from ._lanes import RegionLane

__all__ = ["DEFAULT_JOIN_TIMEOUT", "Stuck", "abandon", "describe_stuck", "join_all", "register", "stack_of"]

#: How long a stop without a timeout waits for sync ops, in seconds.
DEFAULT_JOIN_TIMEOUT = 10.0
#: How long a stop waits for a source blocked in ``next``, in seconds.
_SOURCE_TIMEOUT = 1.0
#: How long a stop waits for stage hooks after it abandoned a call of their stage, in seconds.
_HOOKS_TIMEOUT = 1.0
#: A stop that takes longer logs what it waits for.
_SILENT_SECONDS = 0.5
#: A lock that is not free for this long is held by the calling thread itself.
_OTHERS_HOLD = 0.5


class Stuck(NamedTuple):
    """A call that did not return."""

    stage: str
    item: str
    stack: str


def stack_of(ident: int | None) -> str:
    """Return the stack of a thread. ``None``: the stack is not accessible, for example in another process."""
    frame = sys._current_frames().get(ident) if ident is not None else None
    return "".join(traceback.format_stack(frame)) if frame is not None else "  (its stack is not available here)\n"


def describe_stuck(stuck: list[Stuck], seconds: float) -> str:
    return "\n".join(
        f"stage {one.stage}: it has not returned {seconds:g} s after the stop, on item {one.item}; it is at\n"
        f"{one.stack}"
        for one in stuck
    )


def join_all(engine: Engine, timeout: float) -> list[Stuck]:
    """Join the threads of ``engine`` and its calls in executors; abandon and return those that do not finish."""
    joining = _Joining(engine, timeout)
    if engine.starting.acquire(timeout=max(0.0, timeout)):  # all lanes are started, or will not be
        engine.starting.release()
    engine.deadlines.stop()
    stuck = joining.thread(engine.deadlines.thread)
    stuck += joining.sources()
    for lane in engine.executors:  # before collecting their calls: a lane may be submitting one
        stuck += joining.thread(lane.thread)
    stuck += joining.executors()
    for region in engine.regions:
        stuck += joining.region(region)
    for pool in (*engine.isolated, engine.pool):
        position = 0
        while position < len(pool.threads):  # a worker may start another before it ends
            stuck += joining.thread(pool.threads[position])
            position += 1
    if stuck:
        # A call that does not return would keep the stage hooks, and so the loop, open forever.
        with engine.lock:
            for node in engine.nodes:
                if node.ended and node.num_hooks:
                    engine.leave_stage_hooks(node)
        joining.deadline = max(joining.deadline, perf_counter() + min(timeout, _HOOKS_TIMEOUT))
    loop = engine.loop
    if joining.thread(loop.thread):
        assert loop.thread is not None
        calls = [Stuck(str(t.stage.info), short_repr(t.value), stack) for t, stack in loop.running_calls()]
        calls += [Stuck(f"{info} (its stage hook)", "(none)", stack) for info, stack in loop.running_hooks()]
        stuck += calls or [Stuck(loop.thread.name, "(none)", stack_of(loop.thread.ident))]
    if engine.to_close:  # no worker was left for it; close() is user code: it runs on a thread that can be abandoned
        closer = EngineThread(f"spdl-{engine.pipeline_id}-closer", Task(None, lambda _: engine.close_generators()))
        closer.start()
        stuck += joining.thread(closer)
    return stuck


class _Joining:
    """Joins the threads of an engine. After a while it logs what it waits for, and for how long."""

    def __init__(self, engine: Engine, timeout: float) -> None:
        self.engine = engine
        self.began = perf_counter()
        self.deadline = self.began + timeout
        self.notice = self.began + _SILENT_SECONDS  # when to log it

    def wait(self, wait: Callable[[float], bool], until: float) -> bool:
        """Call ``wait(seconds)``, which returns whether its condition holds, at most until ``until``."""
        if self.notice < until:
            if wait(max(0.0, self.notice - perf_counter())):
                return True
            if self.say():
                self.notice = float("inf")
        return wait(max(0.0, until - perf_counter()))

    def say(self) -> bool:
        """Log which calls have not returned. Returns False if there are none."""
        engine = self.engine
        calls = [f"  stage {stage}: item {item}" for stage, item in _running_calls(engine)]
        if not calls:
            return False
        text = "pipeline %d is stopping and waits up to %.3g s for calls that have not returned:\n%s"
        if threading.current_thread() is threading.main_thread():
            calls.append("  Ctrl-C abandons them at once.")
        seconds = self.deadline - self.began
        log(engine.log, logging.WARNING, text, engine.pipeline_id, seconds, "\n".join(calls))
        return True

    def thread(self, thread: EngineThread | None, until: float | None = None) -> list[Stuck]:
        """Join a thread. Returns empty if it has ended or was already abandoned by an earlier join."""
        given_up = self.engine.given_up
        if thread is None or thread is threading.current_thread() or thread.ident is None or thread in given_up:
            return []

        def has_ended(seconds: float) -> bool:
            thread.join(seconds)
            return not thread.is_alive()

        if self.wait(has_ended, self.deadline if until is None else until):
            return []
        given_up.add(thread)
        ticket = thread.ticket
        if ticket is None:
            return [Stuck(thread.name, "(none)", stack_of(thread.ident))]
        return [Stuck(str(ticket.stage.info), short_repr(ticket.value), stack_of(thread.ident))]

    def sources(self) -> list[Stuck]:
        """Join the sources. One that is blocked in ``next`` is abandoned after a second; it takes no more items."""
        source_deadline = min(self.deadline, perf_counter() + _SOURCE_TIMEOUT)
        stuck: list[Stuck] = []
        for source in self.engine.sources:
            thread = source.thread
            if thread is not None and thread.in_source:
                self.thread(thread, source_deadline)
            else:
                stuck += self.thread(thread)
        return stuck

    def region(self, region: RegionLane) -> list[Stuck]:
        """Join a region. Its collector thread ends when the workers have ended or have been killed."""
        info = str(region.node.info)
        if region.collector is None:  # the start failed
            region.stop_workers()
        elif self.thread(region.collector):
            return [Stuck(info, items, f"  {who}\n") for who, items in region.give_up()]
        killed, region.killed = region.killed, []
        stuck = [Stuck(info, items, f"  {who}, which was killed\n") for who, items in killed]
        return stuck + self.thread(region.dealer)

    def executors(self) -> list[Stuck]:
        engine = self.engine
        this = threading.get_ident()
        with engine.lock:
            tickets = {t.handle: t for lane in engine.executors for t in lane.tickets if t.handle is not None}
        waited_for = [future for future, t in tickets.items() if future not in engine.given_up and t.thread_id != this]
        if not waited_for or isinstance(threading.current_thread(), EngineThread):
            return []
        self.wait(lambda seconds: not concurrent.futures.wait(waited_for, seconds).not_done, self.deadline)
        remaining = [future for future in waited_for if not future.done()]
        engine.given_up.update(remaining)
        unfinished = [tickets[future] for future in remaining]
        return [Stuck(str(t.stage.info), short_repr(t.value), stack_of(t.thread_id)) for t in unfinished]


def _running_calls(engine: Engine) -> list[tuple[str, str]]:
    """Return stage and item of each call that has not returned."""
    threads = [*engine.pool.threads, *(source.thread for source in engine.sources)]
    threads += [thread for lane in engine.isolated for thread in lane.threads]
    threads += [lane.thread for lane in engine.executors]
    tickets = [thread.ticket for thread in threads if thread is not None]
    with engine.lock:
        tickets += [ticket for lane in engine.executors for ticket in lane.tickets]
    tickets += [ticket for ticket, _ in engine.loop.running_calls()]
    found = [(str(ticket.stage.info), short_repr(ticket.value)) for ticket in tickets if ticket is not None]
    for region in engine.regions:
        held = [one.describe() for worker in region.node.workers for one in list(worker.held.values())]
        if held and region.collector is not None and region.collector.is_alive():
            found.append((str(region.node.info), ", ".join(held)))
    return found


def abandon(engine: Engine) -> None:
    """Stop the engine after its handle was collected, and join within the default timeout.

    Garbage collection may run on any thread at any moment, including the engine's own threads while they hold the
    engine's lock. In that case, a new thread does the stop.
    """
    if engine.is_forked or engine.is_abandoned or engine.started == 0.0 or engine.is_over:
        return
    # Other threads hold the lock for microseconds only.
    if isinstance(threading.current_thread(), EngineThread) or not engine.lock.acquire(timeout=_OTHERS_HOLD):
        # No thread can start while the interpreter exits; then the exit hook stops this engine.
        with suppress(RuntimeError):
            threading.Thread(target=_stop_abandoned, args=(engine,), name="spdl-reaper", daemon=True).start()
        return
    engine.lock.release()
    _stop_abandoned(engine)


def _stop_abandoned(engine: Engine) -> None:
    engine.is_abandoned = True
    engine.request_stop()
    with suppress(KeyboardInterrupt):  # the join was abandoned, and there is no caller to raise to
        _join_abandoned(engine, DEFAULT_JOIN_TIMEOUT)


def _join_abandoned(engine: Engine, timeout: float) -> None:
    if engine.is_left:
        return
    stuck = engine.join(max(0.0, timeout))
    if stuck:
        text = describe_stuck(stuck, DEFAULT_JOIN_TIMEOUT)
        log(engine.log, logging.WARNING, "pipeline %d was dropped while ops run:\n%s", engine.pipeline_id, text)


class _Running:
    """All started engines, for interpreter exit and fork. Made on first use."""

    def __init__(self) -> None:
        self.engines: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._finalizer: Any = None
        atexit.register(self.stop_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.disown)

    def add(self, engine: Engine) -> None:
        self.engines.add(engine)
        if engine.isolated and self._finalizer is None:
            # A finalizer of multiprocessing terminates child processes, so the engines must stop before it runs. In a
            # process of multiprocessing, finalizers are all that runs at exit.
            from multiprocessing.util import Finalize

            self._finalizer = Finalize(None, self.stop_all, exitpriority=200)

    def stop_all(self) -> None:
        """Stop all engines at interpreter exit: request all stops first, then join all within one timeout."""
        engines = sorted(self.engines, key=lambda engine: engine.pipeline_id)
        for engine in engines:
            engine.is_abandoned = True
            engine.request_stop()
        deadline = perf_counter() + DEFAULT_JOIN_TIMEOUT
        with suppress(KeyboardInterrupt):  # all are stopped, and Ctrl-C abandons what has not ended
            for engine in engines:
                _join_abandoned(engine, deadline - perf_counter())

    def disown(self) -> None:
        for engine in list(self.engines):
            engine.is_forked = True
        self.engines.clear()
        self._finalizer = None  # belongs to the parent process


_running: _Running | None = None
_running_lock = threading.Lock()


def register(engine: Engine) -> None:
    """Remember a started engine for exit and fork."""
    global _running
    with _running_lock:
        if _running is None:
            _running = _Running()
        _running.add(engine)
