"""The engine of one pipeline: starting, reading, stopping and joining.

``Core`` holds what its nodes and lanes share. The engine never refers to the handle (``Pipeline``) that owns it, so the
handle can be collected while the engine runs.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol

import spdl.pipeline._asyncio as asyncio
from spdl._reports import log, shown

from ._channel import MARK, Entry
from ._core import Core, EngineState, Node, swap_methods
from ._ending import Joining, RunningCall, Stuck, register
from ._thread import EngineThread, Task, new_wake_up

if TYPE_CHECKING:
    from spdl._errors import StallError
    from spdl.pipeline._info import StageInfo

    from ._failures import FailureReporter
    from ._origin import Origin


class _Nothing(Enum):
    """Result of a read that found no item."""

    END = "end of the stream"
    EPOCH = "end of the epoch"


END: Final = _Nothing.END
EPOCH: Final = _Nothing.EPOCH


class Engine(Core):
    """Made by ``build_graph``. Methods take the lock themselves unless their docstring says "under the lock"."""

    def __init__(self, pipeline_id: int, num_threads: int, num_sources: int, report_failure: FailureReporter) -> None:
        super().__init__(pipeline_id, num_threads, num_sources, report_failure)
        self.sink: Sink
        self.recorder: Recorder  # see ``record``
        self.starting = threading.Lock()  # held while the lanes are started; a concurrent join waits for it
        self.num_items = 0  # number of items returned to the consumer
        self.consumer_wait = 0.0
        self._consumer_wait_seen = 0.0  # the largest sum that was returned
        self.was_end_read = False  # the consumer knows that the stream has ended
        self.on_ended: list[Callable[[], None]] = []  # log totals; run once, by the thread that joins
        self.on_stopping: list[Callable[[], object]] = []  # end what blocks a source; they never block
        self._is_forgotten = False
        self.is_left = False  # a join was interrupted: do not wait for its threads again
        self.stall: StallError | None = None  # what readers get, after ``stall_timeout``
        #: Begins the measurement for verdicts, on the thread of a reader that waits this long after the start. A
        #: pipeline that ends sooner, or whose consumer never waits, needs none.
        self.begin_measuring: Callable[[], None] | None = None
        self.measured_after = 0.0
        self._measured_from = inf

    # -- start

    def start(self, timeout: float | None) -> bool:
        """Start all lanes. Returns False if the stage hooks were not entered in time."""
        with self.starting:
            with self.lock:
                self.lanes.sort(key=lambda lane: lane.rank)
                self.state = EngineState.RUNNING
                self.started = now = perf_counter()
                self._begin_starved(now)
                if self.begin_measuring is not None:
                    self._measured_from = now + self.measured_after
            register(self)
            for lane in self.lanes:
                lane.prepare()
            return self._start_lanes(timeout)

    # Loops that end with ``if`` are in functions of their own where the caller holds a lock. CPython 3.12 to 3.14
    # compile the jump back of such a loop to code outside of the ``with`` around it: Ctrl-C there would leave the lock
    # taken for good.

    def _begin_starved(self, now: float) -> None:
        """Under the lock: all nodes with an input lack it. The sink does so only while a reader waits."""
        for node in self.nodes:
            if node.inboxes and node is not self.sink:
                node.counters.begin_starved(now)

    def _start_lanes(self, timeout: float | None) -> bool:
        for lane in self.lanes:
            lane.start()
            if not lane.wait_started(timeout):
                return False
        return True

    # -- reading

    def read(self, timeout: float | None) -> Any:
        """Return the next item, ``EPOCH`` or ``END``, which counts as consumed. Raises ``TimeoutError``.

        Thread-safe: each item goes to one reader, the end of the stream to all.
        """
        channel = self.sink.inbox
        items = channel.items
        with self.lock:
            if items and items[0] is not MARK:
                value, origin = channel.take()
                self.num_items += 1
                if type(origin) is int:
                    self.ledger.pending.discard(origin)  # ``release`` is inlined: this is the hot path
                else:
                    self.ledger.release(origin)
                return value
            found = self._next()
            if found is not None:
                return self._committed(found)
        return self._wait_for_next(timeout, self._committed)

    def take(self, timeout: float | None) -> Entry | _Nothing:
        """``read`` for those who pass items on, with their origins: they count as consumed after ``commit`` only."""
        with self.lock:
            found = self._next()
        return found if found is not None else self._wait_for_next(timeout, _uncommitted)

    def commit(self, taken: Entry | _Nothing) -> None:
        """Count a result of ``take`` as consumed: the user has it. Each result once, ends in their order."""
        with self.lock:
            self._committed(taken)

    def _committed(self, taken: Entry | _Nothing) -> Any:
        """Under the lock: count what was taken as consumed. Returns the value of an item, other results as they are."""
        if isinstance(taken, tuple):
            self.ledger.release(taken[1])
            return taken[0]
        if taken is EPOCH:
            self.ledger.end_epoch()
        else:
            self.was_end_read = True
        return taken

    def _next(self) -> Entry | _Nothing | None:
        """Under the lock: take what is next. ``None``: nothing has arrived."""
        channel = self.sink.inbox
        if channel.items:
            entry = channel.take()
            if entry is MARK:
                return EPOCH
            self.num_items += 1
            return entry
        return END if channel.closed else None

    def _wait_for_next(self, timeout: float | None, committed: Callable[[Entry | _Nothing], Any]) -> Any:
        arrived = new_wake_up()
        began = perf_counter()
        if began >= self._measured_from:
            self._measure()
        deadline = None if timeout is None else began + timeout
        wait = Wait(arrived.release, began)
        is_late = False
        try:
            while True:
                with self.lock:
                    found = self._next()
                    if found is not None:
                        self._end_wait(wait)
                        return committed(found)
                    if is_late:  # checked after the queue: an item may have arrived at the last moment
                        raise TimeoutError(f"no item from pipeline {self.pipeline_id} within {timeout} s")
                    self.sink.begin_wait(wait)
                if deadline is None and (self.num_items or self._measured_from == inf):
                    arrived.acquire()  # without a timeout, which would cost more; the next wait may begin to measure
                else:
                    is_late = not self._is_woken(arrived, inf if deadline is None else deadline)
        finally:
            if not wait.is_over:
                with self.lock:
                    self._end_wait(wait)

    def _is_woken(self, arrived: threading.Lock, deadline: float) -> bool:
        """Wait until the deadline, and begin the measurement meanwhile if it is due. Returns False if it is late."""
        while True:
            until = min(deadline, self._measured_from)
            remaining = until - perf_counter()
            if remaining > 0 and arrived.acquire(timeout=min(remaining, threading.TIMEOUT_MAX)):
                return True
            if until == deadline:
                return False
            self._measure()

    def _measure(self) -> None:
        self._measured_from = inf
        begin, self.begin_measuring = self.begin_measuring, None
        if begin is not None:
            try:
                begin()
            except Exception as exc:  # noqa: BLE001 - the item matters more
                log(self.log, logging.DEBUG, "pipeline %d is not measured: %s", self.pipeline_id, shown(exc))

    async def read_async(self, timeout: float | None) -> Any:  # noqa: ASYNC109 - same parameter as read
        """``read`` for coroutines: does not block the event loop. Cancellation loses no item."""
        loop = asyncio.get_running_loop()
        began = perf_counter()
        wait: Wait | None = None
        if began >= self._measured_from:
            self._measure()
        try:
            async with asyncio.timeout(timeout):
                while True:
                    with self.lock:
                        found = self._next()
                        if found is not None:
                            return self._committed(found)
                        arrived = loop.create_future()
                        if wait is None:
                            wait = Wait(_threadsafe(loop, arrived), began)
                        wait.wake = _threadsafe(loop, arrived)
                        self.sink.begin_wait(wait)
                    await arrived
        except TimeoutError:
            raise TimeoutError(f"no item from pipeline {self.pipeline_id} within {timeout} s") from None
        finally:
            if wait is not None:
                with self.lock:
                    self._end_wait(wait)

    def consumer_wait_until(self, now: float) -> float:
        """Under the lock: ``consumer_wait`` with the time of the readers that are waiting."""
        total = self.consumer_wait + sum(max(0.0, now - wait.began) for wait in self.sink.waiting)
        self._consumer_wait_seen = max(total, self._consumer_wait_seen)
        return self._consumer_wait_seen

    def _end_wait(self, wait: Wait) -> None:
        """Under the lock."""
        now = perf_counter()
        if self.ended_at is not None:  # a reader that is woken late has not waited for an item since
            now = max(wait.began, min(now, self.ended_at))
        self.sink.end_wait(wait, now)
        self.consumer_wait += now - wait.began

    # -- the end

    def request_stop(self) -> None:
        """Cancel all nodes that have not ended. Does not block.

        Items in the sink, up to its capacity, can still be read.
        """
        with self.lock:
            if self.state not in (EngineState.NEW, EngineState.RUNNING):
                return
            self.state = EngineState.STOPPING
            self._cancel_all(set(self.nodes), perf_counter())  # not a loop here: see ``start``
            self.stopped.set()
            for lane in self.lanes:
                lane.request_stop()
        for callback in self.on_stopping:
            callback()

    def num_moves(self) -> int:
        """Under the lock: a number that changes whenever a call ends or an item moves."""
        return self.num_items + sum(node.num_moves() for node in self.nodes)

    def fail_stalled(self, error: StallError) -> None:
        """Stop the pipeline, and raise the error in its readers. Its calls are not waited for."""
        with self.lock:
            if self.state is not EngineState.RUNNING:
                return
            self.stall = error
        self.is_left = True
        self.request_stop()

    @property
    def is_over(self) -> bool:
        """Whether everything has ended and was joined."""
        return self._is_forgotten

    def join(self, timeout: float) -> list[Stuck]:
        """Join all lanes, at most ``timeout`` s for calls and 1 s for sources. Returns the calls that still run."""
        try:
            stuck = self._join_lanes(timeout)
        except BaseException:  # Ctrl-C: do not wait again
            self.is_left = True
            raise
        with self.lock:
            if self.state is EngineState.STOPPING:
                has_failed = self.stage_failures or self.stall is not None
                self.state = EngineState.FAILED if has_failed else EngineState.ENDED
            callbacks, self.on_ended = self.on_ended, []
            is_over = not stuck and not self.given_up and self.num_live == 0 and not self._is_forgotten
            self._is_forgotten = self._is_forgotten or is_over
        if is_over:
            self._forget()
        for callback in callbacks:
            try:
                callback()
            except Exception as exc:  # noqa: BLE001 - may be user code
                log(self.log, logging.ERROR, "a report of pipeline %d failed", self.pipeline_id, exc_info=exc)
        return stuck

    def _join_lanes(self, timeout: float) -> list[Stuck]:
        joining = Joining(self.pipeline_id, timeout, self.given_up, self._running_calls)
        if self.starting.acquire(timeout=max(0.0, timeout)):  # all lanes are started, or will not be
            self.starting.release()
        joining.begin()
        for lane in sorted(self.lanes, key=lambda lane: lane.rank, reverse=True):
            lane.join(joining)
        if self.to_close:  # no worker was left for it; close() is user code: it runs on a thread that can be abandoned
            closer = EngineThread(f"spdl-{self.pipeline_id}-closer", Task(None, lambda _: self.close_generators()))
            try:
                closer.start()
            except RuntimeError:  # the system has no more threads, or the interpreter exits, from Python 3.12 on
                self.close_generators()
            joining.thread(closer)
        return joining.stuck

    def _running_calls(self) -> list[RunningCall]:
        return [call for lane in self.lanes for call in lane.running()]

    def _forget(self) -> None:
        """Drop references to ops and sources. The engine is a reference cycle and may live until garbage collection."""
        for node in self.nodes:
            node.forget()
        for lane in self.lanes:
            lane.forget()


def _uncommitted(taken: Entry | _Nothing) -> Entry | _Nothing:
    return taken


def _threadsafe(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> Callable[[], None]:
    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        with suppress(RuntimeError):  # the consumer's loop is closed
            loop.call_soon_threadsafe(resolve)

    return wake


class Wait:
    """A waiting reader and how to wake it."""

    __slots__ = ("began", "has_begun", "is_over", "wake")

    def __init__(self, wake: Callable[[], None], began: float) -> None:
        self.wake = wake
        self.began = began
        self.has_begun = False
        self.is_over = False


class Sink(Node):
    """Wakes readers: the longest-waiting one for each item or mark; all of them at the end."""

    __slots__ = ("num_waits", "tell_waiting", "waiting")

    runs_on = "sink"

    def __init__(self, engine: Core, info: StageInfo) -> None:
        super().__init__(engine, info)
        self.waiting: deque[Wait] = deque()  # readers not woken yet
        self.num_waits = 0  # including woken ones
        self.tell_waiting: Callable[[bool], None] | None = None  # is told whether anybody waits

    def on_input(self, now: float) -> None:
        if self.waiting:
            self.waiting.popleft().wake()
        if self.inbox.closed:
            self.wake_all()
            if not self.ended:
                self.end(now)

    def wake_all(self) -> None:
        while self.waiting:
            self.waiting.popleft().wake()

    def begin_wait(self, wait: Wait) -> None:
        """Register a reader that found nothing. Called again if another reader took the item."""
        if not wait.has_begun:
            wait.has_begun = True
            self.num_waits += 1
            self.counters.begin_starved(wait.began)
            if self.tell_waiting is not None:
                self.tell_waiting(True)
        self.waiting.append(wait)

    def end_wait(self, wait: Wait, now: float) -> None:
        """Remove a reader that found something or gave up."""
        wait.is_over = True
        if not wait.has_begun:
            return
        self.num_waits -= 1
        self.counters.end_starved(now)
        if self.num_waits and not self.ended:
            self.counters.begin_starved(now)
        if not self.num_waits and self.tell_waiting is not None:
            self.tell_waiting(False)
        if wait in self.waiting:
            self.waiting.remove(wait)
        elif self.waiting and (self.inbox.items or self.inbox.closed):
            self.waiting.popleft().wake()  # pass the wake-up to the next reader

    def cancel(self, now: float) -> None:
        """Stop: items in the sink can still be read; finished results that wait for room are discarded."""
        self.inbox.discard(keep=self.inbox.capacity)
        self.inbox.close(now)
        self.end(now)

    def break_off(self) -> None:
        self.inbox.closed = True
        self.wake_all()


class Recorder(Protocol):
    """Receives the origins of the items that are read."""

    def note(self, origin: Origin) -> None:
        """An item with this origin is being read. Under the lock."""

    def write(self) -> None:
        """Called after one or more calls of ``note``. Not under the lock."""


def record(engine: Engine, recorder: Recorder) -> None:
    """Pass the origin of each item that is read to a recorder. Called before the start."""
    engine.recorder = recorder
    swaps = ("_committed", _recorded_committed), ("read", _recorded_read), ("read_async", _recorded_read_async)
    swap_methods(engine, *swaps, ("commit", _recorded_commit))


def _recorded_committed(committed: Callable[[Engine, Entry | _Nothing], Any]) -> Callable[..., Any]:
    def recorded(self: Engine, taken: Entry | _Nothing) -> Any:
        if isinstance(taken, tuple):
            self.recorder.note(taken[1])
        return committed(self, taken)

    return recorded


def _recorded_read(_: Callable[..., Any]) -> Callable[..., Any]:
    def recorded(self: Engine, timeout: float | None) -> Any:
        with self.lock:
            found = self._next()
            value = None if found is None else self._committed(found)
        if found is None:
            value = self._wait_for_next(timeout, self._committed)
        self.recorder.write()
        return value

    return recorded


def _recorded_read_async(read_async: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    async def recorded(self: Engine, timeout: float | None) -> Any:  # noqa: ASYNC109 - same parameter as read
        value = await read_async(self, timeout)
        self.recorder.write()
        return value

    return recorded


def _recorded_commit(commit: Callable[..., None]) -> Callable[..., None]:
    def recorded(self: Engine, taken: Entry | _Nothing) -> None:
        commit(self, taken)
        self.recorder.write()

    return recorded
