"""Joining a pipeline's threads, naming what is stuck, and the two ends that nobody asks for: fork and collection."""

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
from ._lanes._base import EngineThread, Task

if TYPE_CHECKING:
    from ._engine import Engine
    from ._lanes import RegionLane

__all__ = ["DEFAULT_JOIN_TIMEOUT", "Stuck", "abandon", "describe_stuck", "join_all", "register", "stack_of"]

#: How long a stop without a timeout waits for sync ops.
DEFAULT_JOIN_TIMEOUT = 10.0
#: How long a stop waits for a source blocked in ``next``.
_SOURCE_TIMEOUT = 1.0
#: How long it then waits for stage hooks after it has given up on a call of theirs.
_HOOKS_TIMEOUT = 1.0
#: A stop that takes longer says what it waits for.
_SILENT_SECONDS = 0.5
#: A lock that is not free for so long is held by the thread that asks.
_OTHERS_HOLD = 0.5


class Stuck(NamedTuple):
    """A call that did not return."""

    stage: str
    item: str
    stack: str


def stack_of(ident: int | None) -> str:
    """Where a thread is. ``None``: the call runs where it cannot be seen, in another process for example."""
    frame = sys._current_frames().get(ident) if ident is not None else None
    return "".join(traceback.format_stack(frame)) if frame is not None else "  (its stack cannot be seen from here)\n"


def describe_stuck(stuck: list[Stuck], seconds: float) -> str:
    return "\n".join(
        f"stage {one.stage}: it has not returned {seconds:g} s after the stop, on item {one.item}; it is at\n"
        f"{one.stack}"
        for one in stuck
    )


def join_all(engine: Engine, timeout: float) -> list[Stuck]:
    """Wait for the threads of ``engine`` and for its calls in executors; what remains is given up and named."""
    joining = _Joining(engine, timeout)
    if engine.starting.acquire(timeout=max(0.0, timeout)):  # the lanes are all there, or will not come
        engine.starting.release()
    engine.deadlines.stop()
    stuck = joining.thread(engine.deadlines.thread)
    stuck += joining.sources()
    for lane in engine.executors:  # before their calls are collected: one may be submitting
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
        # A call that does not return would keep the stage hooks, and so the loop, for ever.
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
    if engine.to_close:  # no worker was left to do it; close() is user code: it gets a thread that may be left behind
        closer = EngineThread(f"spdl-{engine.pipeline_id}-closer", Task(None, lambda _: engine.close_generators()))
        closer.start()
        stuck += joining.thread(closer)
    return stuck


class _Joining:
    """One wait for the threads of an engine. After a while it says what it waits for, and for how long."""

    def __init__(self, engine: Engine, timeout: float) -> None:
        self.engine = engine
        self.began = perf_counter()
        self.deadline = self.began + timeout
        self.notice = self.began + _SILENT_SECONDS  # when it is said, if there is anything to say

    def wait(self, wait: Callable[[float], bool], until: float) -> bool:
        """``wait(seconds)``, which tells whether what is waited for has come, at most until ``until``."""
        if self.notice < until:
            if wait(max(0.0, self.notice - perf_counter())):
                return True
            if self.say():
                self.notice = float("inf")
        return wait(max(0.0, until - perf_counter()))

    def say(self) -> bool:
        """Log which calls have not returned. False: there are none, so something else is waited for."""
        engine = self.engine
        calls = [f"  stage {stage}: item {item}" for stage, item in _running_calls(engine)]
        if not calls:
            return False
        text = "pipeline %d is stopping and waits up to %.3g s for calls that have not returned:\n%s"
        if threading.current_thread() is threading.main_thread():
            calls.append("  Ctrl-C leaves them behind at once.")
        seconds = self.deadline - self.began
        log(engine.log, logging.WARNING, text, engine.pipeline_id, seconds, "\n".join(calls))
        return True

    def thread(self, thread: EngineThread | None, until: float | None = None) -> list[Stuck]:
        """Empty if the thread has ended, or is not to be waited for: what was given up once is not waited for again."""
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
        """A source that is blocked in ``next`` is given a second and then left alone; it takes nothing more."""
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
        """The collecting thread ends when the workers have ended, or have been killed."""
        info = str(region.node.info)
        if region.collector is None:  # the start was broken off
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
    """Stage and item of each call that has not returned."""
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
    """The handle was collected: stop, and join within the usual bound.

    A collection may happen on any thread at any moment, also on one of the engine's own and also while that thread
    holds the engine's lock. Then the stop is left to a thread made for it.
    """
    if engine.is_forked or engine.is_abandoned or engine.started == 0.0 or engine.is_over:
        return
    # Anybody else holds the lock for microseconds.
    if isinstance(threading.current_thread(), EngineThread) or not engine.lock.acquire(timeout=_OTHERS_HOLD):
        # No thread can be started while the interpreter exits; then the exit hook stops this engine.
        with suppress(RuntimeError):
            threading.Thread(target=_stop_abandoned, args=(engine,), name="spdl-reaper", daemon=True).start()
        return
    engine.lock.release()
    _stop_abandoned(engine)


def _stop_abandoned(engine: Engine) -> None:
    engine.is_abandoned = True
    engine.request_stop()
    with suppress(KeyboardInterrupt):  # it has left at once what it waited for, and nobody else can be told
        _join_abandoned(engine, DEFAULT_JOIN_TIMEOUT)


def _join_abandoned(engine: Engine, timeout: float) -> None:
    if engine.is_left:
        return
    stuck = engine.join(max(0.0, timeout))
    if stuck:
        text = describe_stuck(stuck, DEFAULT_JOIN_TIMEOUT)
        log(engine.log, logging.WARNING, "pipeline %d was dropped while ops run:\n%s", engine.pipeline_id, text)


class _Running:
    """Engines that have been started, for the ends that concern all of them: exit and fork. Made on first use."""

    def __init__(self) -> None:
        self.engines: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._finalizer: Any = None
        atexit.register(self.stop_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.disown)

    def add(self, engine: Engine) -> None:
        self.engines.add(engine)
        if engine.isolated and self._finalizer is None:
            # Children are ended by a finalizer of multiprocessing's. It must find none that is still needed, and it is
            # all that runs at the exit of a process of multiprocessing.
            from multiprocessing.util import Finalize

            self._finalizer = Finalize(None, self.stop_all, exitpriority=200)

    def stop_all(self) -> None:
        """The interpreter exits. All are stopped before any is waited for, and one bound holds for all."""
        engines = sorted(self.engines, key=lambda engine: engine.pipeline_id)
        for engine in engines:
            engine.is_abandoned = True
            engine.request_stop()
        deadline = perf_counter() + DEFAULT_JOIN_TIMEOUT
        with suppress(KeyboardInterrupt):  # all are stopped, and Ctrl-C leaves at once what has not ended
            for engine in engines:
                _join_abandoned(engine, deadline - perf_counter())

    def disown(self) -> None:
        for engine in list(self.engines):
            engine.is_forked = True
        self.engines.clear()
        self._finalizer = None  # it is for the process that made it


_running: _Running | None = None
_running_lock = threading.Lock()


def register(engine: Engine) -> None:
    """Remember a started engine for exit and fork."""
    global _running
    with _running_lock:
        if _running is None:
            _running = _Running()
        _running.add(engine)
