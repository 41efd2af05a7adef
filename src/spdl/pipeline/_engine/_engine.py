"""The engine of one pipeline: its lock, nodes and lanes; failing, stopping and reading.

``Engine.lock`` guards all scheduling state of a pipeline. It is held for microseconds and never while user code runs.
Lanes (``claim``) and nodes (``finish``) decide what runs next; this file holds what concerns the whole graph. The
engine never refers to the handle (``Pipeline``) that owns it, so the handle can be collected while the engine runs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from spdl._reports import add_note, log, name_of
from spdl.pipeline._errors import InternalError

from ._channel import MARK
from ._deadlines import Deadlines
from ._lanes import LoopLane, PoolLane
from ._origin import Ledger
from ._shutdown import Stuck, join_all, register
from ._stages import CallStage, Sink, SourceNode, Turns, Wait

if TYPE_CHECKING:
    from ._failures import FailureRecord, FailureReporter, Limit
    from ._lanes import ExecutorLane, IsolatedLane, RegionLane, SourceLane
    from ._stages import Node

__all__ = ["END", "EPOCH", "Engine", "EngineState"]


class EngineState(Enum):
    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"


class _Nothing(Enum):
    """Result of a read that found no item."""

    END = "end of the stream"
    EPOCH = "end of the epoch"


END: Final = _Nothing.END
EPOCH: Final = _Nothing.EPOCH


class Engine:
    """Made by ``build_graph``. Methods take the lock themselves unless their docstring says "under the lock"."""

    log = logging.getLogger("spdl.pipeline")
    clock = staticmethod(perf_counter)

    def __init__(self, pipeline_id: int, num_threads: int, num_sources: int, report_failure: FailureReporter) -> None:
        self.pipeline_id = pipeline_id
        self.report_failure = report_failure  # not under the lock
        self.lock = threading.Lock()
        self.ledger = Ledger(num_sources)
        self.nodes: list[Node] = []  # upstream before downstream
        self.num_live = 0  # number of nodes that have not ended
        self.sink: Sink
        self.pool = PoolLane(self, num_threads)
        self.loop = LoopLane(self)
        self.executors: list[ExecutorLane] = []
        self.isolated: list[IsolatedLane] = []
        self.sources: list[SourceLane] = []
        self.regions: list[RegionLane] = []
        self.deadlines = Deadlines(pipeline_id)
        #: Set when the pipeline ends or is stopped: interrupts the delays before retries.
        self.stopped = threading.Event()
        self.state = EngineState.NEW
        self.starting = threading.Lock()  # held while the lanes are started; a concurrent join waits for it
        self.started = 0.0
        self.ended_at: float | None = None
        self.num_failures = 0  # number of failed items of all stages
        self.limit: Limit | None = None  # the pipeline's max_failures
        self.crossing_failure: FailureRecord | None = None  # exceeded the limit; for a rate, the newest
        self.stage_failures: list[tuple[str, BaseException]] = []
        self.num_items = 0  # number of items returned to the consumer
        self.consumer_wait = 0.0
        self.hooks_entered = threading.Event()
        #: Generators to close and futures to cancel: runs user code, so a thread does it when it has released the lock.
        self.to_close: deque[Callable[[], Any]] = deque()
        self.on_ended: list[Callable[[], None]] = []  # log totals; run once, by the thread that joins
        self.given_up: set[object] = set()  # threads and futures abandoned by a join; used by joins only
        self._is_forgotten = False
        self.is_abandoned = False  # the handle was collected, or the interpreter is exiting
        self.is_left = False  # a join was interrupted: do not wait for its threads again
        self._is_broken = False
        self.turns = Turns()
        self.is_forked = False  # a copy in the child of a fork, without the threads

    # -- start

    def start(self, timeout: float | None) -> bool:
        """Start all lanes. Returns False if the stage hooks were not entered in time."""
        with self.starting:
            with self.lock:
                self.state = EngineState.RUNNING
                self.started = now = perf_counter()
                for node in self.nodes:
                    if node.inboxes:
                        node.counters.begin_starved(now)
            register(self)
            for region in self.regions:  # before any thread starts, so that the fork start method is safe
                region.start_workers()
            if self.loop.is_needed():
                self.loop.start()
                if not self.hooks_entered.wait(timeout):
                    return False
            self.deadlines.start()
            for pool in (self.pool, *self.isolated):
                pool.start()
            for executor in self.executors:
                executor.start()
            for region in self.regions:
                region.start()
            for source in self.sources:
                source.start()
            return True

    # -- advancing nodes, under the lock

    def advance(self, node: Node, now: float) -> None:
        """Call ``node.advance``, which moves items, marks and the end of the stream.

        Neighbours that can advance because of it are queued and advance afterwards, not recursively, so the length of
        the pipeline is not limited by the stack.
        """
        turns = self.turns
        if turns.is_taken:
            turns.waiting.append(node)
            return
        turns.is_taken = True
        node.advance(now)
        turns.is_taken = False
        if turns.waiting:
            self.advance_rest(now)

    def advance_rest(self, now: float) -> None:
        """Second part of ``advance``: the queued nodes."""
        turns = self.turns
        turns.is_taken = True
        while turns.waiting:
            turns.waiting.popleft().advance(now)
        turns.is_taken = False

    # -- failure and the end of nodes, under the lock

    def fail(self, node: Node, error: BaseException, now: float) -> None:
        """Fail a stage: close its output and cancel the stages before it; the stages after it drain."""
        if node.cancelled:
            return
        info = node.info
        add_note(error, f"Pipeline stage: {info.pipeline_id}:{info.stage_id}:{info.stage_name}")
        self.stage_failures.append((info.stage_name, error))
        was_ended = node.ended
        doomed = self._upstream_of(node)
        spared = self._downstream_of(node)
        block = node.block
        while block is not None:  # a failing path also fails its router and the other paths
            doomed |= {block, *block.members} | self._upstream_of(block)
            block = block.block
        if not was_ended:
            node.cancel(now)
        doomed -= spared
        for other in reversed(self.nodes):
            if other in doomed and not other.ended:
                other.cancel(now)

    def cancel_upstream(self, node: Node, now: float) -> None:
        doomed = self._upstream_of(node)
        for other in reversed(self.nodes):
            if other in doomed and not other.ended:
                other.cancel(now)

    def _upstream_of(self, node: Node) -> set[Node]:
        found: set[Node] = set()
        todo = [node]
        while todo:
            for channel in todo.pop().inboxes:
                if channel.producer not in found:
                    found.add(channel.producer)
                    todo.append(channel.producer)
        return found

    def _downstream_of(self, node: Node) -> set[Node]:
        found = {node}
        todo = [node]
        while todo:
            for channel in todo.pop().outs:
                if channel.consumer not in found:
                    found.add(channel.consumer)
                    todo.append(channel.consumer)
        return found

    def leave_stage_hooks(self, node: Node) -> None:
        self.loop.leave_hooks(node)

    def node_ended(self, node: Node) -> None:
        self.num_live -= 1
        if self.num_live == 0:
            self.ended_at = perf_counter()
            if self.state is not EngineState.STOPPING:
                self.state = EngineState.FAILED if self.stage_failures else EngineState.ENDED
            self._release_lanes()

    def _release_lanes(self) -> None:
        self.stopped.set()
        self.deadlines.stop()
        for isolated in self.isolated:
            isolated.stop()
        self.pool.stop()
        self.loop.stop()
        for executor in self.executors:
            executor.stop()
        for region in self.regions:
            region.stop()

    def broken(self, error: BaseException) -> None:
        """Handle a broken invariant of the engine: raise an error in the consumer instead of hanging."""
        if self._is_broken:
            return
        self._is_broken = True
        if not isinstance(error, InternalError):
            wrapped = InternalError(
                f"the engine of pipeline {self.pipeline_id} is broken by a {name_of(error)}; please report this"
            )
            wrapped.__cause__ = error
            error = wrapped
        self.stage_failures.append(("engine", error))
        self.state = EngineState.FAILED
        for node in self.nodes:
            node.cancelled = node.ended = True
            if isinstance(node, CallStage):
                node.limit = 0
            elif isinstance(node, SourceNode):
                with suppress(Exception):  # its state may be broken
                    node.drop_work()
        self.sink.inbox.closed = True
        self.sink.wake_all()
        self._release_lanes()
        self.to_close.append(
            partial(log, self.log, logging.CRITICAL, "pipeline %d is broken", self.pipeline_id, exc_info=error)
        )

    # -- counts, under the lock

    def num_counted_calls(self) -> int:
        return sum(node.num_counted_calls for node in self.nodes)

    def note_failure(self, record: FailureRecord) -> None:
        """Count a failed item of any stage."""
        self.num_failures += 1
        limit = self.limit
        if limit is None or (self.crossing_failure is not None and limit.is_count):
            return
        if not limit.is_count or limit.exceeded(self.num_failures, 0):
            self.crossing_failure = record

    # -- user code that must not run under the lock

    def close_later(self, generator: Any) -> None:
        """Under the lock: schedule closing a generator (or ``None``); a thread without the lock closes it."""
        if generator is not None:
            self.to_close.append(partial(_close, generator))

    def close_generators(self) -> None:
        while True:
            try:
                close = self.to_close.popleft()
            except IndexError:
                return
            try:
                close()
            except BaseException as exc:  # noqa: BLE001 - user code, and there is no caller to raise to
                text = "closing a generator of pipeline %d failed"
                log(self.log, logging.ERROR, text, self.pipeline_id, exc_info=exc)

    # -- reading

    def read(self, timeout: float | None) -> Any:
        """Return the next item, ``EPOCH`` or ``END``.

        Thread-safe: each item goes to one reader, the end of the stream to all.

        Raises:
            TimeoutError: No item arrived in time.
        """
        channel = self.sink.inbox
        items = channel.items
        with self.lock:
            if items and items[0] is not MARK:
                value, origin = channel.take()
                self.num_items += 1
                self.ledger.release(origin)
                return value
            found, value = self._next()
        return value if found else self._read_waiting(timeout)

    def _next(self) -> tuple[bool, Any]:
        channel = self.sink.inbox
        if channel.items:
            entry = channel.take()
            if entry is MARK:
                return True, EPOCH
            self.num_items += 1
            self.ledger.release(entry[1])
            return True, entry[0]
        return channel.closed, END

    def _read_waiting(self, timeout: float | None) -> Any:
        arrived = threading.Lock()
        arrived.acquire()
        began = perf_counter()
        deadline = None if timeout is None else began + timeout
        wait = Wait(arrived.release, began)
        is_late = False
        try:
            while True:
                with self.lock:
                    found, value = self._next()
                    if found:
                        self._end_wait(wait)
                        return value
                    if is_late:  # checked after the queue: an item may have arrived at the last moment
                        raise TimeoutError(f"no item from pipeline {self.pipeline_id} within {timeout} s")
                    self.sink.begin_wait(wait)
                if deadline is None:
                    arrived.acquire()
                else:
                    remaining = deadline - perf_counter()
                    is_late = remaining <= 0 or not arrived.acquire(timeout=min(remaining, threading.TIMEOUT_MAX))
        finally:
            if not wait.is_over:
                with self.lock:
                    self._end_wait(wait)

    async def read_async(self, timeout: float | None) -> Any:  # noqa: ASYNC109 - same parameter as read
        """``read`` for coroutines: does not block the event loop. Cancellation loses no item."""
        loop = asyncio.get_running_loop()
        began = perf_counter()
        wait: Wait | None = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    with self.lock:
                        found, value = self._next()
                        if found:
                            return value
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

    def _end_wait(self, wait: Wait) -> None:
        """Under the lock."""
        now = perf_counter()
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
            now = perf_counter()
            for node in reversed(self.nodes):
                if not node.ended:
                    node.cancel(now)
            self.stopped.set()
            # No more calls will be claimed. The loop runs until the stage hooks have exited.
            for pool in (self.pool, *self.isolated):
                pool.stop()
            for executor in self.executors:
                executor.stop()

    @property
    def is_over(self) -> bool:
        """Whether everything has ended and was joined."""
        return self._is_forgotten

    def join(self, timeout: float) -> list[Stuck]:
        """Join all threads, waiting at most ``timeout`` s for ops and one second for sources.

        Returns the calls that are still running.
        """
        try:
            stuck = join_all(self, timeout)
        except BaseException:  # Ctrl-C: do not wait again
            self.is_left = True
            raise
        with self.lock:
            if self.state is EngineState.STOPPING:
                self.state = EngineState.FAILED if self.stage_failures else EngineState.ENDED
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

    def _forget(self) -> None:
        """Drop references to ops and sources. The engine is a reference cycle and may live until garbage collection."""
        for node in self.nodes:
            node.forget()
        for lane in self.isolated:
            lane.forget()
        self.loop.hooks.clear()
        self.loop.background.clear()
        self.loop.merges.clear()


def _close(generator: Any) -> None:
    close = getattr(generator, "close", None)
    if close is not None:
        close()


def _threadsafe(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> Callable[[], None]:
    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        with suppress(RuntimeError):  # the consumer's loop is closed
            loop.call_soon_threadsafe(resolve)

    return wake
