"""A sync source, iterated by a dedicated thread; it may block.

When there is no room for another item, the thread helps: it runs calls that are known to be much shorter than a thread
switch, in place of an idle worker, so that never more than ``num_threads`` calls run. A switch costs about 25 us on the
machines measured, a no-op stage 2 us; with two items between two stages, the engine would otherwise switch for every
third item. The thread helps only while it is idle, and only in stages whose calls all take less than 20 us; a long call
ends the helping. While it sleeps for lack of room, a short call that becomes ready wakes it and not a worker.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakMethod

import spdl.pipeline._asyncio as asyncio
from spdl._errors import PipelineError
from spdl._reports import name_of
from spdl.pipeline._engine._ending import Joining, RunningCall
from spdl.pipeline._engine._failures import as_stage_failure
from spdl.pipeline._engine._lane import AsyncLane, Lane, OpenCall, Rank
from spdl.pipeline._engine._stages._call import CHEAP_SCORE
from spdl.pipeline._engine._stages._source import SourceNode
from spdl.pipeline._engine._thread import WAITS_ARE_COMMON, EngineThread, Task, end_fork

if TYPE_CHECKING:
    from spdl.pipeline._engine._core import Core
    from spdl.pipeline._engine._ticket import Ticket

    from ._pool import PoolLane

_EXHAUSTED: Final = object()

#: Iterators that run no user code and never wait, so several items can be taken under the lock.
_PLAIN_ITERATORS: Final = frozenset(map(type, (iter([]), iter(()), iter(range(0)), iter(range(2**70)))))

#: Maximum number of consecutive calls that a source thread runs although it has room for another item.
_MAX_HELPED = 16


class SourceLane(Lane):
    """The thread of one sync source. It helps the threads of ``pool``."""

    rank = Rank.SOURCE

    def __init__(self, engine: Core, node: SourceNode, pool: PoolLane) -> None:
        self.engine = engine
        self.node = node
        self.pool = pool
        # Created at the start: a thread object created before a fork cannot be started after it.
        self.thread: EngineThread | None = None
        self._work = Task(engine.thread_died, self._go_on)
        self._passes: Generator[None, None, None] | None = None  # the body of the thread; it sleeps at each ``yield``
        self._is_collected = False  # collected with the engine while the thread slept
        self._num_helped = 0
        self._is_called = False  # woken to help, although there may be no room
        self._is_more = False  # after a call: there may be something else to claim
        self._is_waiting = False  # in ``next``, for others

    def start(self) -> None:
        suffix = f"-{self.node.number}" if self.node.shares_ledger else ""
        thread = EngineThread(f"spdl-{self.engine.pipeline_id}-source{suffix}", self._work)
        thread.pausing = WeakMethod(self._paused)
        self._passes = self._iterate(thread)
        self.thread = thread
        thread.start()

    def join(self, joining: Joining) -> None:
        """A source that is blocked in ``next`` is abandoned soon and not reported; it takes no more items."""
        thread = self.thread
        if thread is not None and thread.in_source:
            joining.has_ended(thread, joining.short_deadline)
        else:
            joining.thread(thread)

    def open_calls(self) -> list[OpenCall]:
        thread = self.thread
        ticket = None if thread is None else thread.ticket
        return [] if thread is None or ticket is None else [OpenCall(ticket, thread.ident)]

    def reading(self) -> list[RunningCall]:
        thread = self.thread
        if thread is None or not thread.in_source or self._is_waiting:
            return []
        position = f"(the next one, number {self.node.positions.num_issued})"
        return [RunningCall(str(self.node.info), position, thread_id=thread.ident)]

    def open_times(self, now: float) -> list[tuple[object, float]]:
        """Return the call that it helps with, or for how long the current ``next`` has kept the next stage waiting.

        The start of a ``next`` is not recorded, which would cost every item. But the time since the next stage ran out
        of input is, and so are the times of all earlier calls and waits.
        """
        thread, node = self.thread, self.node
        if thread is None or node.ended:
            return []
        if (helped := super().open_times(now)) or not thread.in_source or self._is_waiting:
            return helped
        longest = now - self.engine.started - node.counters.busy - node.counters.blocked_until(now)
        since = node.out.consumer.counters.starved_since
        return [(node, max(0.0, longest if since is None else min(longest, now - since)))]

    def _go_on(self, thread: EngineThread) -> bool:
        """Body of the thread. Returns True if there is no room; ``_wake`` is called when there is."""
        passes = self._passes
        assert passes is not None
        try:
            for _ in passes:
                return True
        except ValueError:  # it is executing: a collector closes it, while a stop on another thread has woken this one
            if not (self._is_collected or inspect.getgeneratorstate(passes) == inspect.GEN_RUNNING):
                raise
        self._passes = None
        return False

    @contextmanager
    def _paused(self, is_starved: bool) -> Iterator[None]:
        """The iterator waits for others: for input, or until the consumer lets it go on. On its thread, in ``next``."""
        lock, node, counters = self.engine.lock, self.node, self.node.counters
        began = perf_counter()
        with lock:
            self._is_waiting = True
            if node.ended:
                pass
            elif is_starved:
                counters.begin_starved(began)
            else:
                counters.pause(began)
        try:
            yield
        finally:
            now = perf_counter()
            with lock:
                self._is_waiting = False
                counters.end_starved(now)
                counters.end_pause(now)
                counters.other_time -= now - began  # ``next`` adds it when it returns

    def _wake(self) -> None:
        """Wake the thread because there is room. Under the lock."""
        assert self.thread is not None
        self.pool.resting.remove(self)
        self.thread.wake(self._work)

    def wake_to_help(self) -> None:
        """Wake the thread for a short call that is ready. Under the lock."""
        assert self.thread is not None
        self.node.waiting = None
        self._is_called = True
        self.thread.wake(self._work)

    def _iterate(self, thread: EngineThread) -> Generator[None, None, None]:
        node, engine = self.node, self.engine
        error: BaseException | None = None
        try:
            goes_on = node.passes.has_next() and (yield from self._one_pass(thread))
            while goes_on and node.continuous and node.passes.has_next():
                with engine.lock:
                    if not (yield from self._wait_for_room(thread)) or node.ended:
                        break
                    node.end_pass(perf_counter())
                    if not (yield from self._wait_for_room(thread)):
                        break
                goes_on = yield from self._one_pass(thread)
        except BaseException as exc:  # user code: its error fails the stage
            if self._is_collected:
                raise
            where = f"source of pipeline {engine.pipeline_id}, at position {node.positions.num_issued}"
            error = as_stage_failure(exc, where)
        thread.in_source = False
        node.finish(error)
        engine.close_generators()

    def _one_pass(self, thread: EngineThread) -> Generator[None, None, bool]:
        """Iterate the source once. Returns False if the pipeline takes no more. Closes the iterator on an early end."""
        node, engine = self.node, self.engine
        lock, pool, counters, clock = engine.lock, self.pool, node.counters, perf_counter
        items, capacity, collates = node.out.items, node.out.capacity, node.collates
        thread.in_source = True
        iterator: Iterator[Any] = node.passes.begin()
        is_plain = type(iterator) in _PLAIN_ITERATORS
        exhausted = False
        began = clock()
        try:
            while True:
                value = next(iterator, _EXHAUSTED)
                if engine.is_forked:
                    end_fork()
                now = clock()
                with lock:
                    counters.other_time += now - began
                    if value is _EXHAUSTED:
                        exhausted = True
                        return not node.ended
                    if node.ended:
                        return False
                    if collates is not None and collates.accept(value, node, now):
                        if is_plain:
                            collates.fill(iterator, node)
                    elif not items and (ticket := pool.accept_cheap(node, value, now)) is not None:
                        self._run_cheap(thread, ticket, must_start=not pool.idle and pool.pass_on())
                        if self._is_more:
                            pool.wake_for_rest()
                    else:
                        node.emit(value, now)
                        if len(items) > capacity and not node.has_room():
                            self._num_helped = 0
                            while (may_go_on := self._help(thread)) is None:
                                lock.release()
                                try:
                                    yield
                                except GeneratorExit:
                                    self._is_collected = True
                                    raise
                                finally:
                                    lock.acquire()
                            if not may_go_on:
                                return False
                value = None  # this frame must not keep an item alive
                began = clock()
        except BaseException:
            exhausted = not self._is_collected  # an iterator that raised is exhausted
            raise
        finally:
            if not exhausted and (close := getattr(iterator, "close", None)) is not None:
                close()
            thread.in_source = False

    def _wait_for_room(self, thread: EngineThread) -> Generator[None, None, bool]:
        """Wait for room, helping meanwhile. Returns False if stopped.

        Called with the lock held; releases it in between. ``_one_pass``, the hot path, has its own copy.
        """
        node, lock = self.node, self.engine.lock
        if node.has_room():
            return not node.ended
        self._num_helped = 0
        while (may_go_on := self._help(thread)) is None:
            lock.release()
            try:
                yield
            except GeneratorExit:
                self._is_collected = True
                raise
            finally:
                lock.acquire()
        return may_go_on

    def _help(self, thread: EngineThread) -> bool | None:
        """Run cheap calls until there is room. Returns False if stopped, ``None`` if the thread must sleep.

        Called with the lock held; releases it in between. ``_num_helped`` is 0 at first. The thread leaves nothing
        unclaimed behind: whenever it returns, it wakes a worker for what is ready.
        """
        node, pool = self.node, self.pool
        thread.in_source = False
        now = perf_counter()
        must_claim, self._is_called = self._is_called, False
        if must_claim:
            pool.num_waking -= 1
            self._num_helped = 0
        # Once helping, it continues until its channel is empty: then items can bypass the channel (see
        # ``_one_pass``). The limit keeps it from working only for other sources.
        while not node.ended and (
            must_claim or not node.has_room() or (0 < self._num_helped < _MAX_HELPED and node.out.items)
        ):
            must_claim = False
            ticket = pool.claim_cheap(now)
            if ticket is not None:
                self._num_helped += 1
                now = self._run_cheap(thread, ticket, must_start=pool.pass_on())
                continue
            if node.has_room():
                break
            pool.wake_for_rest()
            node.waiting = self._wake
            pool.resting.append(self)
            return None
        pool.wake_for_rest()
        thread.in_source = True
        return not node.ended

    def _run_cheap(self, thread: EngineThread, ticket: Ticket, *, must_start: bool) -> float:
        """Run a call and the cheap calls that follow on its result. Called with the lock held; releases it in between.

        Returns the time.
        """
        pool, lock = self.pool, self.engine.lock
        thread.in_source = False
        thread.ticket = ticket
        while True:
            stage = ticket.stage
            if pool.num_waking or WAITS_ARE_COMMON:  # see ``PoolLane._work``
                ticket.started = perf_counter()
            lock.release()
            try:
                if must_start:
                    pool.start_worker()
                stage.run(ticket)
                if self.engine.is_forked:
                    end_fork()
            finally:
                now = perf_counter()
                lock.acquire()
            try:
                if not stage.hand_on(ticket, now, CHEAP_SCORE):
                    break
            except BaseException as exc:  # noqa: BLE001 - a broken invariant must not become a hang
                self.engine.broken(exc)
                break
            must_start = stage.ready() and pool.pass_on()
        self._is_more = pool.finish(ticket, now)
        thread.ticket = None
        thread.in_source = True
        return now


async def iterate_async_source(lane: AsyncLane, node: SourceNode) -> None:
    """Feed ``node`` until the source or the pipeline has ended. The iterator's ``aclose`` is always called."""
    engine = node.engine
    error: BaseException | None = None
    waiter = _RoomWaiter(lane, node)
    task = asyncio.current_task()
    assert task is not None
    try:
        goes_on = node.passes.has_next() and await _one_pass(lane, node, waiter)
        while goes_on and node.continuous and node.passes.has_next():
            if not await waiter.wait():
                break
            with engine.lock:
                if node.ended:
                    break
                node.end_pass(perf_counter())
            if not await waiter.wait():
                break
            goes_on = await _one_pass(lane, node, waiter)
    except asyncio.CancelledError as exc:
        if not node.ended:
            error = PipelineError(f"the async source {name_of(node.iterable)} was cancelled from inside")
            error.__cause__ = exc
        else:
            task.uncancel()
    except BaseException as exc:  # noqa: BLE001 - user code: its error fails the stage
        error = as_stage_failure(
            exc, f"source of pipeline {engine.pipeline_id}, at position {node.positions.num_issued}"
        )
    node.finish(error)


class _RoomWaiter:
    """Waits until the source node may emit another item."""

    def __init__(self, lane: AsyncLane, node: SourceNode) -> None:
        self.lane = lane
        self.node = node

    async def wait(self) -> bool:
        """Wait for room. Returns False if the pipeline takes no more items."""
        lane, node = self.lane, self.node
        while True:
            with node.engine.lock:
                if node.ended:
                    return False
                if node.has_room():
                    return True
                room = asyncio.get_running_loop().create_future()
                node.waiting = lambda room=room: lane.notify(room)
            await room


async def _one_pass(lane: AsyncLane, node: SourceNode, waiter: _RoomWaiter) -> bool:
    iterator: Any = node.passes.begin_async()
    engine, counters = node.engine, node.counters
    try:
        began = perf_counter()
        while True:
            try:
                value = await anext(iterator)
            except StopAsyncIteration:
                with engine.lock:
                    return not node.ended
            now = perf_counter()
            with engine.lock:
                counters.other_time += now - began
                if node.ended:
                    return False
                node.emit(value, now)
                has_room = node.has_room()
            value = None
            if not has_room and not await waiter.wait():
                return False
            began = perf_counter()
    finally:
        lane.spare_task(node)  # from here on the task is not cancelled: ``aclose`` must complete
        if (aclose := getattr(iterator, "aclose", None)) is not None:
            await aclose()
        lane.watch_task(node)
