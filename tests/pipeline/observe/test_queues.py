"""``AsyncQueue`` and ``StatsQueue``: a real queue by hand, an observer of a channel in a pipeline."""

import asyncio
import copy
import logging
import pickle
from typing import Any

import pytest

from spdl.pipeline import AsyncQueue, QueuePerfStats, StatsQueue, is_eof, is_epoch_end
from spdl.pipeline._info import EOF, EPOCH_END, StageInfo
from spdl.pipeline._observe._queues import check_observer
from spdl.pipeline._records import ChannelCounts

INFO = StageInfo(0, "2", "decode")
NOTHING = ChannelCounts(0.0, 0, 0, 0.0, 0.0, (), (), 0, 0, 0.0)


class Clock:
    """Time that moves only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def clocked(clock: Clock, **kwargs: Any) -> StatsQueue:
    cls = type("ClockedQueue", (StatsQueue,), {"_clock": staticmethod(clock)})
    queue: StatsQueue = cls(INFO, **kwargs)
    return queue


def totals(queue: StatsQueue, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        queue._log_totals()
    (line,) = caplog.messages
    return line


def test_an_async_queue_is_a_bounded_asyncio_queue_that_knows_its_stage() -> None:
    """It is made outside a loop and passes items in order."""
    queue = AsyncQueue(INFO, buffer_size=2)

    async def use() -> list[int]:
        async with queue.stage_hook():
            await queue.put(1)
            await queue.put(2)
            assert queue.full()
            return [await queue.get(), await queue.get()]

    assert asyncio.run(use()) == [1, 2]
    assert queue.info is INFO
    assert isinstance(queue, asyncio.Queue)
    assert AsyncQueue(INFO).maxsize == 1


def test_a_stats_queue_by_hand_measures_waits_of_both_sides() -> None:
    """A get on an empty queue and a put on a full one are timed; others count as zero."""
    clock = Clock()
    seen: list[QueuePerfStats] = []

    class Measured(StatsQueue):
        _clock = clock

        async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
            seen.append(stats)

    async def use() -> None:
        queue = Measured(INFO, buffer_size=1)
        getter = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        clock.now += 4.0  # the getter waits 4 s for the first item
        await queue.put("a")
        assert await getter == "a"
        await queue.put("b")
        putter = asyncio.ensure_future(queue.put("c"))
        await asyncio.sleep(0)
        clock.now += 2.0  # the putter waits 2 s for room; the queue is not empty
        assert await queue.get() == "b"
        await putter
        assert await queue.get() == "c"
        clock.now += 2.0
        await queue._report_lap()

    asyncio.run(use())
    assert seen == [QueuePerfStats(8.0, 3, 2.0 / 3, 4.0 / 3, 2.0, 2.0, 4.0, 4.0, 0.25)]


def test_occupancy_counts_an_open_period(caplog: pytest.LogCaptureFixture) -> None:
    """An item that nobody has taken yet makes the queue not empty up to now, an empty end makes it emptier."""
    clock = Clock()
    queue = clocked(clock)
    queue.put_nowait(1)
    clock.now += 1.0
    assert "not empty 100 % of the time" in totals(queue, caplog)
    queue.get_nowait()
    clock.now += 3.0
    assert "not empty 25 % of the time" in totals(queue, caplog)


def test_refused_items_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """QueueFull and QueueEmpty leave the statistics as they were."""
    queue = StatsQueue(INFO)
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()
    queue.put_nowait(1)
    with pytest.raises(asyncio.QueueFull):
        queue.put_nowait(2)
    assert queue._read().num_put == 1
    assert queue._read().num_items == 0


def test_an_attached_queue_shows_the_counters_of_its_channel(caplog: pytest.LogCaptureFixture) -> None:
    """Totals cover everything since the start of the pipeline, with waits weighed against items that did not wait."""
    queue = StatsQueue(INFO, buffer_size=3)
    queue._attach(lambda: ChannelCounts(2.0, 10, 10, 0.5, 0.02, (0.1, 0.4), (0.02,), 2, 1, 0.5))
    assert totals(queue, caplog) == (
        "[0:2:decode queue] 10 items in 2.0 s (5.0/s), not empty 25 % of the time; "
        "wait to put: mean 50.0 ms, p90 100.0 ms, p99 400.0 ms; wait to get: mean 2.0 ms, p90 0.0 us, p99 20.0 ms"
    )


def test_intervals_of_an_attached_queue_cover_that_interval_only() -> None:
    """Each report has what happened since the one before, percentiles included."""

    class Reporting(StatsQueue):
        async def interval_stats_callback(self, stats: QueuePerfStats) -> None:
            reports.append(stats)
            reported.set()

    reports: list[QueuePerfStats] = []
    reported = asyncio.Event()

    async def use() -> None:
        queue = Reporting(INFO, interval=1e-6)
        counts = ChannelCounts(10.0, 5, 5, 9.0, 9.0, (9.0,), (9.0,), 1, 1, 10.0)
        queue._attach(lambda: counts)
        async with queue.stage_hook():
            await asyncio.sleep(0)  # lets it take its first reading
            counts = ChannelCounts(12.0, 9, 6, 10.0, 9.0, (9.0, 1.0), (9.0,), 2, 1, 11.0)
            await reported.wait()

    asyncio.run(use())
    assert reports[0] == QueuePerfStats(2.0, 4, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.5)
    assert reports[0].qps == 2.0


def test_interval_reports_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    """Without an override, an interval is one log line that names the queue."""
    stats = QueuePerfStats(2.0, 4, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.5)
    with caplog.at_level(logging.INFO):
        asyncio.run(StatsQueue(INFO).interval_stats_callback(stats))
    assert caplog.messages[0].startswith("[0:2:decode queue] 4 items in 2.0 s (2.0/s), not empty 50 % of the time")


@pytest.mark.parametrize("elapsed", [0.0, -1.0])
def test_rate_is_zero_when_no_time_has_passed(elapsed: float) -> None:
    """Nothing divides by zero."""
    assert QueuePerfStats(elapsed, 4, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0).qps == 0


def test_observers_are_queues_that_carry_items_the_standard_way() -> None:
    """AsyncQueue, StatsQueue and subclasses with another callback or stage hook observe a channel."""

    class Fine(StatsQueue):
        async def interval_stats_callback(self, stats: QueuePerfStats) -> None: ...

    for queue in (AsyncQueue(INFO), StatsQueue(INFO), Fine(INFO)):
        assert check_observer(queue) is queue


@pytest.mark.parametrize("name", ["get", "put", "get_nowait", "put_nowait"])
@pytest.mark.parametrize("base", [AsyncQueue, StatsQueue])
def test_a_queue_that_carries_items_in_its_own_way_is_rejected(base: type[AsyncQueue], name: str) -> None:
    """An override that would never be called is an error that names it and says what to override instead."""
    cls = type("Recording", (base,), {name: lambda self, *args: None})
    with pytest.raises(TypeError, match=rf"Recording that overrides {name}: .*interval_stats_callback"):
        check_observer(cls(INFO))
    patched = base(INFO)
    setattr(patched, name, lambda *args: None)
    with pytest.raises(TypeError, match=f"overrides {name}"):
        check_observer(patched)


def test_what_is_no_async_queue_is_rejected() -> None:
    """A plain asyncio queue does not know its stage and cannot observe."""
    with pytest.raises(TypeError, match=r"must return an AsyncQueue, got .* of type Queue"):
        check_observer(asyncio.Queue())


@pytest.mark.parametrize("mark", [EOF, EPOCH_END])
def test_marks_stay_singletons_when_pickled_and_copied(mark: object) -> None:
    """A mark that has crossed a process boundary is still recognised."""
    assert pickle.loads(pickle.dumps(mark)) is mark
    assert copy.deepcopy(mark) is mark


def test_marks_are_told_apart_from_items_and_from_each_other() -> None:
    """is_eof and is_epoch_end are true for their own mark only."""
    items = [EOF, EPOCH_END, None, 0, "EOF", NOTHING]
    assert [is_eof(item) for item in items] == [True, False, False, False, False, False]
    assert [is_epoch_end(item) for item in items] == [False, True, False, False, False, False]
    assert repr(EOF) == "<EOF: end of the stream>"
    assert repr(EPOCH_END) == "<EPOCH_END: end of an epoch>"
