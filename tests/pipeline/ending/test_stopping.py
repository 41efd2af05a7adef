"""Stopping: when it may be done and by whom, what stays readable, and what it says about what is stuck."""

import asyncio
import itertools
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from spdl.pipeline import Pipeline, TaskHook
from tests.pipeline.ending.endings import Endless, Silent, new_threads, of_numbers, threads
from tests.support.running import TIMEOUT, await_event, build_of

# -- stop


def test_stop_before_start_does_nothing_and_start_works_later() -> None:
    """stop of a new pipeline returns, and the pipeline can still be started and read."""
    pipeline = of_numbers()
    pipeline.stop()
    pipeline.stop(timeout=0)
    assert pipeline.stats().state == "new"
    pipeline.start()
    assert list(pipeline) == [0, 1, 2]


def test_stop_before_start_does_not_hinder_the_first_read() -> None:
    """After a stop of a new pipeline the first read starts it as ever."""
    pipeline = of_numbers()
    pipeline.stop()
    assert pipeline.get_item(timeout=TIMEOUT) == 0
    pipeline.stop()


def test_stop_can_be_repeated() -> None:
    """Every further stop is a no-op, with and without a timeout."""
    pipeline = of_numbers()
    pipeline.start()
    pipeline.stop()
    pipeline.stop()
    pipeline.stop(timeout=0)
    assert pipeline.stats().state == "ended"


@pytest.mark.parametrize("sink", [1, 3])
def test_stop_of_a_full_pipeline_leaves_the_sink_readable(sink: int) -> None:
    """stop returns on a full sink and an endless source; what is in the sink is read, then EOFError for ever."""
    source = Endless()
    pipeline: Pipeline[int] = build_of(source, sink=sink).build(num_threads=1)
    pipeline.start()
    await_event(source.asked(sink))
    pipeline.stop()
    assert [pipeline.get_item() for _ in range(sink)] == list(range(sink))
    for _ in range(3):
        with pytest.raises(EOFError):
            pipeline.get_item()
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=0)
    assert list(pipeline) == []
    assert source.closed.is_set()


def test_iterator_goes_on_after_stop_with_what_is_in_the_sink() -> None:
    """An iterator made before the stop gives the buffered items and ends."""
    source = Endless()
    pipeline: Pipeline[int] = build_of(source, sink=2).build(num_threads=1)
    iterator = iter(pipeline)
    assert next(iterator) == 0
    await_event(source.asked(3))
    pipeline.stop()
    assert list(iterator) == [1, 2]
    assert list(iterator) == []


def test_sink_of_one_holds_one_item_after_auto_stop() -> None:
    """Nobody reads: a sink of 1 holds exactly one item, however much was ready behind it."""
    second = threading.Event()

    def op(item: int) -> int:
        if item == 1:
            second.set()  # one call at a time: the result of the first is in the sink
        return item

    pipeline: Pipeline[int] = build_of(Endless(), lambda b: b.pipe(op), sink=1).build(num_threads=3)
    with pipeline.auto_stop():
        await_event(second)
    assert list(pipeline) == [0]


def test_stop_discards_what_calls_in_flight_hold() -> None:
    """The result of a call that ends after the stop is never read."""
    entered, gate = threading.Event(), threading.Event()

    def op(item: int) -> int:
        if item == 1:
            entered.set()
            await_event(gate)
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(op)).build(num_threads=1)
    pipeline.start()
    await_event(entered)
    with pytest.raises(TimeoutError):
        pipeline.stop(timeout=0)
    gate.set()
    assert list(pipeline) == [0]


def blocked_op(entered: threading.Event, gate: threading.Event) -> Callable[[Any], Any]:
    def stuck_in_a_call(item: Any) -> Any:
        entered.set()
        await_event(gate)
        return item

    return stuck_in_a_call


def test_stop_out_of_time_names_op_item_and_stack() -> None:
    """TimeoutError of stop(timeout=) says which stage is stuck, on which item, and where in the code."""
    entered, gate = threading.Event(), threading.Event()
    builder = build_of(["an item"], lambda b: b.pipe(blocked_op(entered, gate), name="slow stage"))
    pipeline = builder.build(num_threads=1)
    pipeline.start()
    await_event(entered)
    try:
        with pytest.raises(TimeoutError) as info:
            pipeline.stop(timeout=0)
    finally:
        gate.set()
    text = str(info.value)
    assert "slow stage" in text
    assert "'an item'" in text
    assert "stuck_in_a_call" in text
    pipeline.stop()


def test_stop_without_timeout_warns_about_a_stuck_op_and_returns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a timeout of its own, stop that runs out of its default one logs a warning with the same facts."""
    monkeypatch.setattr("spdl.pipeline._reading.DEFAULT_JOIN_TIMEOUT", 0.0)
    entered, gate = threading.Event(), threading.Event()
    builder = build_of(["an item"], lambda b: b.pipe(blocked_op(entered, gate), name="slow stage"))
    pipeline = builder.build(num_threads=1)
    pipeline.start()
    await_event(entered)
    try:
        with caplog.at_level(logging.WARNING):
            pipeline.stop()
    finally:
        gate.set()
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    for words in ("slow stage", "'an item'", "stuck_in_a_call"):
        assert words in record.getMessage()


def test_stop_waits_for_ops_that_return_in_time() -> None:
    """An op that runs when stop is called is let to its end, and its thread is gone when stop returns."""
    entered, gate = threading.Event(), threading.Event()
    before = threads()
    pipeline = build_of(range(1), lambda b: b.pipe(blocked_op(entered, gate))).build(num_threads=1)
    pipeline.start()
    await_event(entered)
    opener = threading.Timer(0.01, gate.set)
    opener.start()
    pipeline.stop(timeout=TIMEOUT)
    assert gate.is_set()
    opener.join()
    assert new_threads(before) == []


def test_stop_from_another_thread_ends_a_waiting_read() -> None:
    """A reader that waits for an item that will not come gets EOFError when somebody stops the pipeline."""
    pipeline: Pipeline[int] = build_of(Silent()).build(num_threads=1)
    pipeline.start()
    ends: list[BaseException] = []

    def read() -> None:
        try:
            pipeline.get_item()
        except BaseException as exc:
            ends.append(exc)

    reader = threading.Thread(target=read)
    reader.start()
    pipeline.stop()
    reader.join(TIMEOUT)
    assert [type(end) for end in ends] == [EOFError]


def test_stop_from_another_thread_ends_a_loop() -> None:
    """A for loop over an endless pipeline ends, without an error, when another thread stops it."""
    pipeline: Pipeline[int] = build_of(Endless()).build(num_threads=1)
    some = threading.Event()

    def read() -> None:
        for item in pipeline:
            if item == 10:
                some.set()

    reader = threading.Thread(target=read)
    reader.start()
    await_event(some)
    pipeline.stop()
    reader.join(TIMEOUT)
    assert not reader.is_alive()


def test_stops_from_several_threads_at_once_all_return() -> None:
    """Several threads may stop one pipeline; none hangs, none raises, and it is stopped."""
    for _ in range(10):
        pipeline: Pipeline[int] = build_of(Endless()).build(num_threads=1)
        pipeline.start()
        barrier = threading.Barrier(4)
        errors: list[BaseException] = []

        def stop(
            pipeline: Pipeline[int] = pipeline,
            barrier: threading.Barrier = barrier,
            errors: list[BaseException] = errors,
        ) -> None:
            barrier.wait(TIMEOUT)
            try:
                pipeline.stop()
            except BaseException as exc:
                errors.append(exc)

        stoppers = [threading.Thread(target=stop) for _ in range(4)]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join(TIMEOUT)
        assert errors == []
        assert pipeline.stats().state == "ended"


def test_stop_from_an_op_does_not_hang() -> None:
    """An op may stop its own pipeline: its thread is not waited for, and reads find the end."""
    holder: list[Pipeline[int]] = []

    def op(item: int) -> int:
        if item == 2:
            holder[0].stop(timeout=TIMEOUT)
        return item

    pipeline: Pipeline[int] = build_of(itertools.count(), lambda b: b.pipe(op)).build(num_threads=1)
    holder.append(pipeline)
    items = list(pipeline)
    assert items == [0, 1][: len(items)]
    holder.clear()


def test_stop_cancels_async_ops() -> None:
    """An async op that waits for ever is cancelled, and its clean-up has run when stop returns."""
    entered, cleaned = threading.Event(), threading.Event()

    async def op(item: int) -> int:
        try:
            entered.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()
        return item

    pipeline = build_of(range(1), lambda b: b.pipe(op)).build(num_threads=1)
    pipeline.start()
    await_event(entered)
    pipeline.stop()
    assert cleaned.is_set()


# -- auto_stop


def test_auto_stop_starts_and_stops() -> None:
    """Inside, the pipeline runs; after it, the pipeline is stopped and its threads are gone."""
    before = threads()
    pipeline: Pipeline[int] = build_of(Endless(), lambda b: b.pipe(int)).build(num_threads=2)
    with pipeline.auto_stop() as nothing:
        assert nothing is None
        assert pipeline.stats().state == "running"
        assert new_threads(before) != []
    assert pipeline.stats().state == "ended"
    assert new_threads(before) == []


def test_auto_stop_lets_the_exception_of_the_body_through() -> None:
    """The body's exception is raised as it is, and the pipeline is stopped."""
    pipeline: Pipeline[int] = build_of(Endless()).build(num_threads=1)
    error = ValueError("of the body")
    with pytest.raises(ValueError) as info, pipeline.auto_stop():
        raise error
    assert info.value is error
    assert pipeline.stats().state == "ended"


def test_auto_stop_allows_stop_inside() -> None:
    """A stop inside the body makes that at the exit a no-op."""
    pipeline: Pipeline[int] = build_of(Endless()).build(num_threads=1)
    with pipeline.auto_stop():
        pipeline.stop()
    assert pipeline.stats().state == "ended"


def test_auto_stop_gives_its_timeout_to_stop() -> None:
    """An op stuck at the exit of auto_stop(timeout=) is a TimeoutError."""
    entered, gate = threading.Event(), threading.Event()
    pipeline = build_of(range(1), lambda b: b.pipe(blocked_op(entered, gate))).build(num_threads=1)
    try:
        with pytest.raises(TimeoutError, match="stuck_in_a_call"), pipeline.auto_stop(timeout=0.01):
            await_event(entered)
    finally:
        gate.set()


def test_stop_while_another_thread_starts() -> None:
    """A stop that comes while start waits for a stage hook ends the pipeline as soon as the hook lets it."""
    entering = threading.Event()
    let: list[Callable[[], object]] = []

    class Late(TaskHook):
        @asynccontextmanager
        async def stage_hook(self) -> AsyncIterator[None]:
            gate, loop = asyncio.Event(), asyncio.get_running_loop()
            let.append(lambda: loop.call_soon_threadsafe(gate.set))
            entering.set()
            await gate.wait()
            yield

    pipeline = build_of(Endless(), lambda b: b.pipe(int)).build(num_threads=1, task_hook_factory=lambda info: [Late()])
    starter = threading.Thread(target=pipeline.start)
    starter.start()
    await_event(entering)
    stopper = threading.Thread(target=pipeline.stop)
    stopper.start()
    let[0]()
    starter.join(TIMEOUT)
    stopper.join(TIMEOUT)
    assert not starter.is_alive()
    assert not stopper.is_alive()
    pipeline.stop()
    assert len(list(pipeline)) <= 3
    assert pipeline.stats().state == "ended"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_stop_from_inside_the_pipeline_is_no_deadlock(kind: str) -> None:
    """A stage hook on its way out, or an async op, may stop the pipeline that it is a part of."""
    holder: list[Pipeline[Any]] = []

    class Stopping(TaskHook):
        @asynccontextmanager
        async def stage_hook(self) -> AsyncIterator[None]:
            yield
            holder[0].stop(timeout=TIMEOUT)

    async def op(item: int) -> int:
        if item == 2:
            holder[0].stop(timeout=TIMEOUT)
        return item

    if kind == "sync":
        pipeline = build_of(range(3), lambda b: b.pipe(int)).build(
            num_threads=1, task_hook_factory=lambda info: [Stopping()]
        )
    else:
        pipeline = build_of(itertools.count(), lambda b: b.pipe(op)).build(num_threads=1)
    holder.append(pipeline)
    items = list(pipeline.get_iterator(timeout=TIMEOUT))
    assert items == list(range(len(items)))
    holder.clear()
