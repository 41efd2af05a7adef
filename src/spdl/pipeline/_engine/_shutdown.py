"""The end of pipelines that are not stopped explicitly: garbage collection of the handle, interpreter exit, fork."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl._reports import log

from ._joining import describe_stuck
from ._thread import EngineThread

if TYPE_CHECKING:
    from ._engine import Engine

#: How long a stop without a timeout waits for sync ops, in seconds.
DEFAULT_JOIN_TIMEOUT = 10.0
#: A lock that is not free for this long is held by the calling thread itself.
_OTHERS_HOLD = 0.5


def abandon(engine: Engine, is_collecting: bool) -> None:
    """Stop the engine after its handle was collected, and join within the default timeout.

    Garbage collection may run on any thread at any moment, including the engine's own threads while they hold the
    engine's lock, and threads that are just starting. In these cases, a new thread does the stop.

    Args:
        engine: The engine of the handle.
        is_collecting: Whether the cycle collector collected the handle. False: its last reference was dropped.
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


def _reap(engine: Engine) -> None:
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
        # Not a WeakSet: other threads may start engines during an iteration. One operation of a dictionary needs no
        # lock, which a forked child might inherit from a thread that does not exist there.
        self._found: dict[int, weakref.ref[Engine]] = {}
        self._finalizer: Any = None
        atexit.register(self.stop_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.disown)

    def add(self, engine: Engine) -> None:
        key, found = id(engine), self._found
        found[key] = weakref.ref(engine, lambda _: found.pop(key, None))
        if self._finalizer is None and any(lane.has_child_processes for lane in engine.lanes):
            # A finalizer of multiprocessing terminates child processes, so the engines must stop before it runs. In a
            # process of multiprocessing, finalizers are all that runs at exit.
            from multiprocessing.util import Finalize

            self._finalizer = Finalize(None, self.stop_all, exitpriority=200)

    def engines(self) -> list[Engine]:
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


def register(engine: Engine) -> None:
    """Remember a started engine for exit and fork."""
    global _running
    with _running_lock:
        if _running is None:
            _running = _Running()
        _running.add(engine)
