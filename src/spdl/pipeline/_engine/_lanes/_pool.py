"""The pool: ``num_threads`` threads shared by all sync ops of a pipeline.

A worker completes its ticket and claims the next in one acquisition of the lock. Two rules avoid both needless and
missing wake-ups:

- At most one idle worker is being woken at a time. A thread that adds work wakes one only if none is waking.
- Before a worker runs user code, it ensures that another worker is awake or waking if there is more to claim
  (``pass_on``). So work never waits for a call to return while a worker is idle.

Workers are started on demand, by the same rules. For a short call, the thread of a source that sleeps for lack of room
is woken in place of a worker (``Helper``).
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from spdl.pipeline._engine._lane import CallLane, OpenCall
from spdl.pipeline._engine._stages._call import CHEAP_SCORE
from spdl.pipeline._engine._thread import WAITS_ARE_COMMON, EngineThread, Task, end_fork
from spdl.pipeline._engine._ticket import CallSource, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._ending import Joining
    from spdl.pipeline._engine._stages._source import SourceNode


class Helper(Protocol):
    """The lane of a source whose thread sleeps for lack of room. It can run short calls in place of a worker."""

    def wake_to_help(self) -> None:
        """Wake the thread. It will decrement ``PoolLane.num_waking`` and claim a call. Under the lock."""


class PoolLane(CallLane):
    """The lane of worker threads. Guarded by the engine's lock, except while a worker runs a call."""

    def __init__(self, engine: Core, num_threads: int | None = None, name: str = "worker") -> None:
        self.engine = engine
        self.name = name  # of its threads
        self.num_threads = engine.num_threads if num_threads is None else num_threads
        self.stages: list[CallSource] = []  # downstream first: a worker prefers the calls nearest to the consumer
        self.threads: list[EngineThread] = []
        self.num_started = 0
        self.num_names = 0  # several workers may be starting at once
        self.idle: list[EngineThread] = []
        self.resting: list[Helper] = []
        self.work = Task(engine.thread_died, self._work)
        self.num_waking = 0  # woken or started, and has not acquired the lock yet
        self.is_claiming = False
        self.was_offered = False  # something became ready while a thread was claiming
        self.busy = 0  # running calls, on workers and on helping source threads
        self.stopping = False
        self.on_thread: Callable[[EngineThread], None] | None = None  # called with each thread that was started

    def add(self, source: CallSource) -> None:
        self.stages.insert(0, source)

    # -- under the lock

    def offer(self, source: CallSource) -> None:
        if self.is_claiming:
            self.was_offered = True
        elif self.idle and not self.num_waking and source.ready():
            self._wake_for(source)

    def cancel_calls(self, source: CallSource) -> None:
        """Mark running calls as cancelled. They cannot be interrupted; their results are discarded."""

    def _wake_for(self, source: CallSource) -> None:
        """Wake a thread for a call that is ready: if the call is short, a helper if there is one, otherwise a worker.

        A helper must be woken soon in any case. If a worker makes room for it, the two take turns for every few items.
        """
        if self.resting and source.cheap_score >= CHEAP_SCORE:
            self.num_waking += 1
            self.resting.pop().wake_to_help()
        else:
            self._wake()

    def _wake(self) -> None:
        self.num_waking += 1
        thread = self.idle.pop()  # ``wake`` is inlined here: this is the hot path
        thread.task = self.work
        thread.wake_up.release()

    def claim(self, now: float) -> Ticket | None:
        """Claim the most downstream ticket that can run, if fewer than ``num_threads`` calls run."""
        if self.busy < self.num_threads:
            for stage in self.stages:
                if stage.ready():
                    self.busy += 1
                    return stage.take(now)
        return None

    def claim_cheap(self, now: float) -> Ticket | None:
        """Claim a ticket whose op is known to be shorter than a thread switch.

        For a source thread with nothing to do.
        """
        if self.busy < self.num_threads:
            for stage in self.stages:
                if stage.cheap_score >= CHEAP_SCORE and stage.ready():
                    self.busy += 1
                    return stage.take(now)
        return None

    def accept_cheap(self, source: SourceNode, value: Any, now: float) -> Ticket | None:
        """Claim a ticket for an item passed directly from its source, if the source's thread may run it."""
        stage = source.next_call
        if stage is None or stage.cheap_score < CHEAP_SCORE or self.busy >= self.num_threads:
            return None
        ticket = stage.accept(value, source.next_origin, now)
        if ticket is not None:
            self.busy += 1
        return ticket

    def pass_on(self) -> bool:
        """Ensure, before user code runs, that a worker takes the remaining work. True: the caller must start one."""
        if self.num_waking or self.busy >= self.num_threads:
            return False
        if self.idle:
            for stage in self.stages:
                if stage.ready():
                    self._wake_for(stage)
                    break
            return False
        if self.num_started < self.num_threads:
            self.num_started += 1
            self.num_waking += 1
            return True
        return False

    def finish(self, ticket: Ticket, now: float) -> bool:
        """Complete a call that a source thread has run.

        Returns whether there may be something to claim: then the caller claims it, or calls ``wake_for_rest``.
        """
        stage = ticket.stage
        was_full = self.busy >= self.num_threads
        self.was_offered = False
        self.is_claiming = True
        try:
            stage.finish(ticket, now)
        except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
            self.engine.broken(exc)
        finally:
            self.is_claiming = False
        self.busy -= 1
        return was_full or self.was_offered or stage.ready()

    def wake_for_rest(self) -> None:
        """Wake a thread for a call that the caller does not claim itself."""
        if self.idle and not self.num_waking and self.busy < self.num_threads:
            for stage in self.stages:
                if stage.ready():
                    self._wake_for(stage)
                    return

    def lose_call(self, ticket: Ticket) -> bool:
        """Give up the thread that runs ``ticket``."""
        self.busy -= 1
        self.num_started -= 1
        for thread in self.threads:
            if thread.ticket is ticket:
                self.engine.given_up.add(thread)
        if self.stopping:
            return False
        if self.num_started == 0:
            self.num_started += 1
            self.num_waking += 1
            return True
        return self.pass_on()

    def request_stop(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Workers end after their current call."""
        self.stopping = True
        while self.idle:
            self._wake()

    def _has_work(self) -> bool:
        """Whether a call may start. Not part of ``start``, which holds the lock: see ``Engine.start``."""
        return any(stage.ready() for stage in self.stages)

    # -- not under the lock

    def start(self) -> None:
        """Start the first worker. It starts the second when there is work, and so on."""
        with self.engine.lock:
            # A stop may come before the start. A job that the loop queued before it must run: a coroutine waits for it.
            if not self.stages or (self.stopping and not self._has_work()):
                return
            self.num_started += 1
            self.num_waking += 1
        self.start_worker()

    def start_worker(self) -> None:
        with self.engine.lock:
            number = self.num_names
            self.num_names += 1
        thread = EngineThread(f"spdl-{self.engine.pipeline_id}-{self.name}-{number}", self.work)
        try:
            thread.start()
        except RuntimeError:  # out of threads, or the interpreter exits: the existing workers continue
            with self.engine.lock:
                self.num_waking -= 1
                self.num_started -= 1
                if self.num_started == 0:
                    raise
                self.num_threads = self.num_started
                self.note_size()
        else:
            self.threads.append(thread)
            if self.on_thread is not None:
                self.on_thread(thread)

    def note_size(self) -> None:
        """Under the lock: the system has no more threads than ``num_threads``."""
        self.engine.num_threads = self.num_threads

    def join(self, joining: Joining) -> None:
        position = 0
        while position < len(self.threads):  # a worker may start another before it ends
            joining.thread(self.threads[position])
            position += 1

    def open_calls(self) -> list[OpenCall]:
        return [OpenCall(ticket, thread.ident) for thread in self.threads if (ticket := thread.ticket) is not None]

    def run(self, thread: EngineThread, ticket: Ticket) -> None:
        """Run the call of ``ticket``. Never raises."""
        ticket.stage.run(ticket)
        if self.engine.is_forked:
            end_fork()

    def leave(self, thread: EngineThread) -> None:
        """The thread is about to end."""

    def _work(self, thread: EngineThread) -> bool:
        """Body of a worker: complete one ticket and claim the next under a single acquisition of the lock.

        Returns True if there was nothing more to claim and the worker is idle.
        """
        engine, lock = self.engine, self.engine.lock
        ticket: Ticket | None = None
        was_waking = True
        now = perf_counter()
        while True:
            must_start = False
            with lock:
                try:
                    self.is_claiming = True
                    if was_waking:
                        self.num_waking -= 1
                        was_waking = False
                        now = perf_counter()  # the call that it claims has not waited for the lock
                    may_be_more = True  # whether there may be something to claim after this
                    if ticket is not None:
                        stage = ticket.stage
                        self.was_offered = False
                        if stage.hand_on(ticket, now, 0):
                            may_be_more = self.was_offered or stage.ready()
                        else:
                            stage.finish(ticket, now)
                            ticket = None
                            self.busy -= 1
                    if ticket is None:
                        ticket = self.claim(now)
                    if ticket is not None:
                        if may_be_more:
                            must_start = self.pass_on()
                        if self.num_waking or WAITS_ARE_COMMON:
                            # Waking a thread, or waiting for the lock, takes longer than a short call.
                            ticket.started = perf_counter()
                    elif self.stopping:
                        break
                    else:
                        self.idle.append(thread)
                except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
                    engine.broken(exc)
                    break
                finally:
                    self.is_claiming = False
            if engine.to_close:
                engine.close_generators()
            if ticket is None:
                thread.stage = None
                return True
            if must_start:
                self.start_worker()
            thread.stage = ticket.stage
            thread.ticket = ticket
            self.run(thread, ticket)
            thread.ticket = None
            if ticket.given_up:  # another thread replaced this one
                engine.close_given_up(ticket)
                break
            now = perf_counter()
        self.leave(thread)
        engine.close_generators()
        return False
