"""Queues: the interface of custom merge ops, and observers of the channels between stages.

Inside a pipeline, items pass through the engine's channels. The object made by ``queue_class`` observes such a channel:
its statistics are views of the channel's counters. Outside a pipeline, the same class is an ordinary queue that
measures itself.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from spdl._numbers import as_finite, as_int
from spdl._reports import log
from spdl.pipeline._info import StageInfo, is_eof, is_epoch_end
from spdl.pipeline._observe._percentiles import percentile_of_waits
from spdl.pipeline._observe._reporting import report_around_stage, report_every
from spdl.pipeline._observe._units import duration
from spdl.pipeline._records import ChannelCounts, ChannelReader, ItemReader, ItemWriter

__all__ = ["AsyncQueue", "QueuePerfStats", "StatsQueue", "check_observer", "is_eof", "is_epoch_end"]

_LOG = logging.getLogger(__name__)

# The engine keeps the same number of recent waits; see ChannelCounts.
_WINDOW = 1024

_CARRYING = ("get", "put", "get_nowait", "put_nowait")


class AsyncQueue(asyncio.Queue[Any]):
    """An :class:`asyncio.Queue` with the identity of the stage that puts into it.

    Like its base class, it may be used from one event loop and one thread only. It can be created without a running
    loop.

    Args:
        info: Identity of the stage that puts.
        buffer_size: Maximum number of items in the queue.
    """

    def __init__(self, info: StageInfo, *, buffer_size: int = 1) -> None:
        super().__init__(as_int("buffer_size", buffer_size))
        self.info = info

    def stage_hook(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that runs around the stage that puts. By default it does nothing."""
        return nullcontext()


@dataclass(frozen=True, slots=True)
class QueuePerfStats:
    """Statistics of one queue, in total or within one interval. Times are in seconds.

    Attributes:
        elapsed: Time covered.
        num_items: Number of items taken out.
        ave_put_time: Mean wait for room; items that did not wait count as 0.
        ave_get_time: Mean wait for an item.
        p90_put_time: 90th percentile of the waits for room.
        p99_put_time: 99th percentile of the waits for room.
        p90_get_time: 90th percentile of the waits for an item.
        p99_get_time: 99th percentile of the waits for an item.
        occupancy_rate: Share of ``elapsed`` in which the queue was not empty, 0 to 1. Low: the producer is slow. High:
            the consumer is slow.
    """

    elapsed: float
    num_items: int
    ave_put_time: float
    ave_get_time: float
    p90_put_time: float
    p99_put_time: float
    p90_get_time: float
    p99_get_time: float
    occupancy_rate: float

    @property
    def qps(self) -> float:
        """Items taken out per second; 0 if no time has passed."""
        return self.num_items / self.elapsed if self.elapsed > 0 else 0.0


class StatsQueue(AsyncQueue):
    """A queue that measures the waits of put and get, the throughput, and the time during which it was not empty.

    Logs totals when the stage that puts ends and, with a positive ``interval``, calls
    :meth:`interval_stats_callback` every interval. Percentiles use the newest 1024 non-zero waits, together with the
    number of items that did not wait.

    Inside a pipeline, it observes a channel of the engine. A subclass may then override ``interval_stats_callback`` and
    ``stage_hook``, but not ``get``, ``put``, ``get_nowait`` or ``put_nowait``, because no item goes through them.

    Args:
        info: Identity of the stage that puts.
        buffer_size: Maximum number of items in the queue.
        interval: Seconds between two reports. If not positive, only totals are logged.
    """

    #: Clock; a subclass can replace it.
    _clock: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self, info: StageInfo, *, buffer_size: int = 1, interval: float = -1) -> None:
        super().__init__(info, buffer_size=buffer_size)
        self.interval = as_finite("interval", interval)
        self._meter = _Meter(self._clock)
        self._read: ChannelReader = self._meter.read
        self._lap_start = self._read()

    async def put(self, item: Any) -> None:
        """Put an item in; wait while the queue is full."""
        start = self._clock()
        waits = self.full()
        await super().put(item)
        if waits:
            self._meter.add_put_wait(self._clock() - start)

    async def get(self) -> Any:
        """Take the next item out; wait while the queue is empty."""
        start = self._clock()
        waits = self.empty()
        item = await super().get()
        if waits:
            self._meter.add_get_wait(self._clock() - start)
        return item

    def put_nowait(self, item: Any) -> None:
        """Put an item in, or raise :class:`asyncio.QueueFull`."""
        super().put_nowait(item)
        self._meter.count_put()

    def get_nowait(self) -> Any:
        """Take the next item out, or raise :class:`asyncio.QueueEmpty`."""
        item = super().get_nowait()
        self._meter.count_get(empty=self.empty())
        return item

    def stage_hook(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that reports at intervals while it is open and logs totals on exit."""
        return report_around_stage(self._run_interval, self._log_totals, self.interval)

    async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
        """Handle the statistics of the interval that has just ended. By default they are logged.

        Override it to send them elsewhere. An exception is logged, and reporting continues.
        """
        log(_LOG, logging.INFO, "[%s queue] %s", self.info, _describe(stats))

    def _attach(self, read: ChannelReader) -> None:
        """Read all statistics from a channel of the engine from now on."""
        self._read = read
        self._lap_start = read()

    async def _run_interval(self) -> None:
        """Report every interval until cancelled. Returns at once if the interval is not positive."""
        self._lap_start = self._read()
        await report_every(self.interval, self._report_lap, f"the queue of stage {self.info}")

    async def _report_lap(self) -> None:
        before, self._lap_start = self._lap_start, self._read()
        await self.interval_stats_callback(_between(before, self._lap_start))

    def _log_totals(self) -> None:
        """Log the statistics since the start."""
        log(_LOG, logging.INFO, "[%s queue] %s", self.info, _describe(_between(_NOTHING, self._read())))


def check_observer(queue: object) -> AsyncQueue:
    """Raise ``TypeError`` unless the result of a ``queue_class`` can observe a channel; return it."""
    cls = type(queue)
    if not isinstance(queue, AsyncQueue):
        raise TypeError(
            f"queue_class must return an AsyncQueue, got {queue!r} of type {cls.__qualname__}; "
            "derive from spdl.pipeline.AsyncQueue or StatsQueue"
        )
    own = vars(queue)
    replaced = [
        name
        for name in _CARRYING
        if name in own or getattr(cls, name) not in (getattr(AsyncQueue, name), getattr(StatsQueue, name))
    ]
    if replaced:
        raise TypeError(
            f"queue_class returned a {cls.__qualname__} that overrides {', '.join(replaced)}: inside a pipeline a "
            "queue observes a channel and items do not go through it, so these would never be called; "
            "override interval_stats_callback or stage_hook instead"
        )
    return queue


_NOTHING = ChannelCounts(0.0, 0, 0, 0.0, 0.0, (), (), 0, 0, 0.0)


class _Meter:
    """Counters of a queue used outside a pipeline; the same that the engine keeps for a channel."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = clock()
        self._num_items = self._num_put = 0
        self._put_wait = self._get_wait = 0.0
        self._put_waits: deque[float] = deque(maxlen=_WINDOW)
        self._get_waits: deque[float] = deque(maxlen=_WINDOW)
        self._num_put_waits = self._num_get_waits = 0
        self._occupied = 0.0
        self._nonempty_since: float | None = None

    def count_put(self) -> None:
        self._num_put += 1
        if self._nonempty_since is None:
            self._nonempty_since = self._clock()

    def count_get(self, *, empty: bool) -> None:
        self._num_items += 1
        if empty and self._nonempty_since is not None:
            self._occupied += self._clock() - self._nonempty_since
            self._nonempty_since = None

    def add_put_wait(self, seconds: float) -> None:
        self._put_wait += seconds
        self._put_waits.append(seconds)
        self._num_put_waits += 1

    def add_get_wait(self, seconds: float) -> None:
        self._get_wait += seconds
        self._get_waits.append(seconds)
        self._num_get_waits += 1

    def read(self) -> ChannelCounts:
        now = self._clock()
        open_period = 0.0 if self._nonempty_since is None else now - self._nonempty_since
        return ChannelCounts(
            elapsed=now - self._start,
            num_items=self._num_items,
            num_put=self._num_put,
            put_wait=self._put_wait,
            get_wait=self._get_wait,
            recent_put_waits=tuple(self._put_waits),
            recent_get_waits=tuple(self._get_waits),
            num_put_waits=self._num_put_waits,
            num_get_waits=self._num_get_waits,
            occupied=self._occupied + open_period,
        )


def _between(before: ChannelCounts, now: ChannelCounts) -> QueuePerfStats:
    elapsed = now.elapsed - before.elapsed
    num_items = now.num_items - before.num_items
    num_put = now.num_put - before.num_put
    num_put_waits = now.num_put_waits - before.num_put_waits
    num_get_waits = now.num_get_waits - before.num_get_waits
    occupied = now.occupied - before.occupied
    return QueuePerfStats(
        elapsed=elapsed,
        num_items=num_items,
        ave_put_time=(now.put_wait - before.put_wait) / num_put if num_put else 0.0,
        ave_get_time=(now.get_wait - before.get_wait) / num_items if num_items else 0.0,
        p90_put_time=percentile_of_waits(now.recent_put_waits, num_put_waits, num_put, 0.90),
        p99_put_time=percentile_of_waits(now.recent_put_waits, num_put_waits, num_put, 0.99),
        p90_get_time=percentile_of_waits(now.recent_get_waits, num_get_waits, num_items, 0.90),
        p99_get_time=percentile_of_waits(now.recent_get_waits, num_get_waits, num_items, 0.99),
        occupancy_rate=min(1.0, occupied / elapsed) if elapsed > 0 else 0.0,
    )


def _describe(stats: QueuePerfStats) -> str:
    return (
        f"{stats.num_items} items in {duration(stats.elapsed)} ({stats.qps:.1f}/s), "
        f"not empty {stats.occupancy_rate * 100:.0f} % of the time; "
        f"wait to put: mean {duration(stats.ave_put_time)}, p90 {duration(stats.p90_put_time)}, "
        f"p99 {duration(stats.p99_put_time)}; "
        f"wait to get: mean {duration(stats.ave_get_time)}, p90 {duration(stats.p90_get_time)}, "
        f"p99 {duration(stats.p99_get_time)}"
    )


class _MergeInput(AsyncQueue):
    """Input queue of a custom merge op: the outputs of one sub-pipeline."""

    def __init__(self, info: StageInfo, reader: ItemReader) -> None:
        super().__init__(info, buffer_size=reader.capacity)
        self._reader = reader

    def qsize(self) -> int:
        return self._reader.qsize()

    def empty(self) -> bool:
        return self.qsize() == 0

    async def get(self) -> Any:
        return await self._reader.get()

    def get_nowait(self) -> Any:
        return self._reader.get_nowait()

    async def put(self, item: Any) -> None:
        raise TypeError("a merge op reads its inputs; it puts into output_queue")

    def put_nowait(self, item: Any) -> None:
        raise TypeError("a merge op reads its inputs; it puts into output_queue")


class _MergeOutput(AsyncQueue):
    """Output queue of a custom merge op."""

    def __init__(self, info: StageInfo, writer: ItemWriter) -> None:
        super().__init__(info, buffer_size=writer.capacity)
        self._writer = writer

    def qsize(self) -> int:
        return self._writer.qsize()

    def empty(self) -> bool:
        return self.qsize() == 0

    def full(self) -> bool:
        return self._writer.full()

    async def put(self, item: Any) -> None:
        await self._writer.put(item)

    def put_nowait(self, item: Any) -> None:
        self._writer.put_nowait(item)

    async def get(self) -> Any:
        raise TypeError("a merge op puts into its output; it reads from input_queues")

    def get_nowait(self) -> Any:
        raise TypeError("a merge op puts into its output; it reads from input_queues")


def make_merge_queues(
    info: StageInfo, inputs: list[tuple[StageInfo, ItemReader]], output: ItemWriter
) -> tuple[list[AsyncQueue], AsyncQueue]:
    """Return the queues that a custom merge op is called with."""
    return [_MergeInput(of, reader) for of, reader in inputs], _MergeOutput(info, output)
