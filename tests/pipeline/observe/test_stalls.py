"""``build(stall_timeout=)``: what counts as a stall, what is reported, and what readers get."""

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any
from unittest.mock import patch

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, StallError
from spdl.pipeline._engine import _stalls
from spdl.pipeline._engine._core import EngineState
from spdl.pipeline._engine._stalls import LivedClock, StallWatch
from tests.support.child import run_child
from tests.support.timeouts import TIMEOUT


class Clock:
    """How long the process has run, told by the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.armed: list[float] = []
        self.was_blind = False

    def lived(self) -> float:
        return self.now

    def arm(self, seconds: float, text: str) -> None:
        self.armed.append(seconds)

    def disarm(self) -> None:
        self.armed.append(0.0)

    def close(self) -> None:
        pass

    def set_waiting(self, is_waiting: bool) -> None:
        pass

    def take_report(self) -> bool:
        was_blind, self.was_blind = self.was_blind, False
        return was_blind


class Engine:
    """The counters of a pipeline and of its consumer."""

    class sink:
        tell_waiting: Any = None
        num_waits = 1

        class counters:
            waited = 0.0

            @classmethod
            def starved_until(cls, now: float) -> float:
                return cls.waited

    pipeline_id = 7

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.state = EngineState.RUNNING
        self.moves = 0
        self.errors: list[StallError] = []
        Engine.sink.counters.waited = 0.0

    def num_moves(self) -> int:
        return self.moves

    def fail_stalled(self, error: StallError) -> None:
        self.errors.append(error)


class Watched:
    """A watch with a timeout of 10 s, and what it sees."""

    def __init__(self, *, raises: bool = True) -> None:
        engine: Any = Engine()
        self.engine = engine
        self.clock = Clock()
        self.watch = StallWatch(engine, 10.0, raises, lambda _: "the report", lambda: self.clock)
        self.watch.start()
        self.watch.look()

    def after(self, lived: float, waited: float, *, moves: int = 0) -> int:
        """Look again; the number of stalls so far."""
        self.clock.now += lived
        Engine.sink.counters.waited += waited
        self.engine.moves += moves
        self.watch.look()
        return len(self.engine.errors)


def test_a_consumer_that_waits_for_so_long_is_a_stall_once() -> None:
    """It is reported with the report, and not again while nothing moves."""
    watched = Watched()
    assert watched.after(9.9, 9.9) == 0
    assert watched.after(0.2, 0.2) == 1
    assert watched.after(100, 100) == 1
    assert str(watched.engine.errors[0]).startswith("pipeline 7 has stalled: for 10 s")
    assert "the report" in str(watched.engine.errors[0])
    assert watched.engine.errors[0].seconds == 10


def test_a_consumer_that_is_away_is_no_stall() -> None:
    """Only the time that it waits counts, also in several waits."""
    watched = Watched()
    assert watched.after(1000, 9) == 0
    assert watched.after(1000, 0) == 0
    assert watched.after(1000, 2) == 1


def test_a_process_that_was_stopped_is_no_stall() -> None:
    """After SIGSTOP and SIGCONT the consumer has waited for long, and the process has hardly run."""
    watched = Watched()
    assert watched.after(0.5, 3600) == 0
    assert watched.after(9.0, 9.0) == 0


def test_whatever_moves_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    """One call that ended is enough. When a stall is over, the log says so, and the next one is reported again."""
    watched = Watched()
    assert watched.after(9, 9, moves=1) == 0
    assert watched.after(9, 9) == 0
    assert watched.after(2, 2) == 1
    with caplog.at_level(logging.WARNING, "spdl.pipeline"):
        assert watched.after(5, 5, moves=1) == 1
    assert "pipeline 7 moves again, after 11 s" in caplog.text
    assert watched.after(11, 11) == 2


def test_a_pipeline_that_is_stopping_does_not_stall() -> None:
    """What a stop waits for, the stop says."""
    watched = Watched()
    watched.engine.state = EngineState.STOPPING
    assert watched.after(100, 100) == 0


def test_the_native_watchdog_is_armed_for_the_rest_of_the_time() -> None:
    """It reports a little later than Python would, and not what Python has reported."""
    watched = Watched()
    watched.after(4, 4)
    assert watched.clock.armed[-1] == pytest.approx(6.5)
    watched.after(6, 6)
    assert watched.clock.armed[-1] == 0


def test_what_the_native_watchdog_reported_is_logged_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    """The log has no stacks then, but says where they are."""
    watched = Watched(raises=False)
    watched.clock.was_blind = True
    with caplog.at_level(logging.ERROR, "spdl.pipeline"):
        assert watched.after(30, 30, moves=1) == 0
    assert "pipeline 7 did not move for 10 s, because native code held the GIL" in caplog.text


def test_what_the_native_watchdog_reported_is_raised_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    """Whether the call ends before Python can look or after it: a stall is a stall. One that has ended cannot raise."""
    watched = Watched()
    watched.clock.was_blind = True
    assert watched.after(30, 30, moves=1) == 1
    text = "pipeline 7 did not move for 10 s, because native code held the GIL"
    assert str(watched.engine.errors[0]).startswith(text)
    assert "the report" in str(watched.engine.errors[0])
    watched.clock.was_blind = True
    watched.engine.state = EngineState.STOPPING
    with caplog.at_level(logging.ERROR, "spdl.pipeline"):
        assert watched.after(30, 30, moves=1) == 1
    assert "native code held the GIL" in caplog.text


def test_without_native_code_long_gaps_count_little() -> None:
    """A process that was stopped for an hour has hardly run."""
    now = 0.0
    clock = LivedClock(1.0, lambda: now)
    now = 0.25
    assert clock.lived() == 0.25
    now = 3600.0
    assert clock.lived() == 1.25


# -- real pipelines


@pytest.mark.parametrize("waits_before", [False, True], ids=["reads late", "pauses"])
def test_a_trainer_that_does_not_read_is_no_stall(waits_before: bool) -> None:
    """An hour in which it builds its model or evaluates it, before its first read or after one that had to wait."""
    gate, now, errors = threading.Event(), 0.0, list[StallError]()

    def wait_for_gate(item: int) -> int:
        gate.wait(TIMEOUT)
        return item

    pipeline = PipelineBuilder().add_source(range(9), continuous=True).pipe(wait_for_gate).add_sink(3).build()
    engine: Any = pipeline._engine
    engine.fail_stalled = errors.append
    clock = Clock()
    watch = StallWatch(engine, 10.0, True, lambda _: "the report", lambda: clock)
    with pipeline.auto_stop(), patch.object(_stalls, "perf_counter", lambda: perf_counter() + now):
        if waits_before:
            with pytest.raises(TimeoutError):
                pipeline.get_item(timeout=0)
        gate.set()
        if waits_before:
            assert pipeline.get_item(timeout=TIMEOUT) == 0
        watch.start()
        for _ in range(10):  # several: what moves meanwhile is no stall either
            watch.look()
            now += 3600
            clock.now += 3600
        stats = pipeline.stats()
        assert stats.stages[-1].starved == pytest.approx(stats.consumer_wait)
        assert stats.to_dict()["spdl/sink/starved"] == json.loads(stats.to_json())["stages"][-1]["starved"]
    assert errors == []


def stalling(op: Callable[[int], Any], **options: Any) -> Pipeline[Any]:
    return (
        PipelineBuilder()
        .add_source(range(9))
        .pipe(op, concurrency=2, name="decode")
        .add_sink()
        .build(num_threads=2, stall_timeout=0.05, **options)
    )


def test_a_stall_is_raised_with_the_call_its_item_and_its_stack() -> None:
    """Every later read raises it too, and neither they nor the stop wait for the call."""
    gate = threading.Event()

    def wait_for_gate(item: int) -> int:
        gate.wait(TIMEOUT)
        return item

    pipeline = stalling(wait_for_gate, stall_action="raise")
    try:
        with pytest.raises(StallError) as caught:
            pipeline.get_item(timeout=TIMEOUT)
        with pytest.raises(StallError):
            next(iter(pipeline))
        pipeline.stop()
        assert pipeline.stats().state == "failed"
    finally:
        gate.set()
    text = str(caught.value)
    assert ":decode[2]: item 0, for " in text
    assert "gate.wait(TIMEOUT)" in text
    assert "calls in flight" in text
    assert "thread MainThread" in text


def test_a_stall_is_logged_and_the_pipeline_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """A coroutine shows its own stack. Nothing is lost."""
    gate = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            gate.set()

    async def wait_for_gate(item: int) -> int:
        await asyncio.to_thread(gate.wait, TIMEOUT)
        return item

    handler = Handler(logging.ERROR)
    logger = logging.getLogger("spdl.pipeline")
    logger.addHandler(handler)
    try:
        assert sorted(stalling(wait_for_gate)) == list(range(9))
    finally:
        logger.removeHandler(handler)
    assert "has stalled: for 0.05 s" in caplog.text
    assert "await asyncio.to_thread" in caplog.text


def test_a_source_that_gives_nothing_is_named() -> None:
    """The report shows where its iterator waits."""
    gate = threading.Event()
    source = iter(gate.wait, True)  # the second argument ends it
    pipeline = PipelineBuilder().add_source(source).add_sink().build(stall_timeout=0.05, stall_action="raise")
    try:
        with pytest.raises(StallError, match=r":src: item \(the next one, number 0\)"):
            list(pipeline)
    finally:
        gate.set()


@pytest.mark.slow
def test_two_ops_that_wait_for_each_other_are_both_named() -> None:
    """Each has a lock that the other needs: the report has both calls, their items, and where they wait."""
    meeting, over = threading.Barrier(3), threading.Event()
    first, second = threading.Lock(), threading.Lock()

    def take_both(one: threading.Lock, other: threading.Lock) -> None:
        with one:
            meeting.wait(TIMEOUT)
            while not over.is_set():
                if other.acquire(timeout=0.01):
                    other.release()
                    return

    def left(item: int) -> int:
        if item == 1:
            take_both(first, second)
        return item

    def right(item: int) -> int:
        take_both(second, first)
        return item

    builder = PipelineBuilder().add_source(range(2)).pipe(left).pipe(right).add_sink()
    pipeline = builder.build(num_threads=2, stall_timeout=0.05, stall_action="raise")
    pipeline.start()
    try:
        meeting.wait(TIMEOUT)  # before the consumer waits, which begins the time
        with pytest.raises(StallError) as caught:
            list(pipeline)
    finally:
        over.set()
    text = str(caught.value)
    assert ":left: item 1, for " in text
    assert ":right: item 0, for " in text
    assert "take_both(first, second)" in text
    assert "take_both(second, first)" in text


@pytest.mark.slow
def test_an_op_that_is_stuck_in_native_code_without_the_gil_is_named() -> None:
    """Here a read that nothing is written for; the one with the GIL is below."""
    reader, writer = os.pipe()

    def read_pipe(item: int) -> int:
        try:
            return len(os.read(reader, 1))
        finally:
            os.close(reader)

    builder = PipelineBuilder().add_source(range(1)).pipe(read_pipe).add_sink()
    try:
        with pytest.raises(StallError) as caught:
            list(builder.build(num_threads=1, stall_timeout=0.05, stall_action="raise"))
    finally:
        os.close(writer)  # which ends the read
    assert ":read_pipe: item 0, for " in str(caught.value)
    assert " in read_pipe" in str(caught.value)


def test_a_reader_that_polls_waits_too() -> None:
    """Short timeouts in a row add up."""
    gate = threading.Event()
    pipeline = stalling(lambda item: gate.wait(TIMEOUT), stall_action="raise")

    def poll() -> None:
        while True:
            try:
                pipeline.get_item(timeout=0.01)
            except TimeoutError:
                continue

    try:
        with pytest.raises(StallError):
            poll()
    finally:
        gate.set()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"stall_timeout": 0}, ValueError), ({"stall_timeout": "1"}, TypeError),
        ({"stall_timeout": 1, "stall_action": "exit"}, ValueError),
    ],
)  # fmt: skip
def test_arguments_are_checked(options: dict[str, Any], error: type[Exception]) -> None:
    """When the pipeline is built."""
    with pytest.raises(error, match="stall_"):
        PipelineBuilder().add_source(range(3)).add_sink().build(**options)


def test_nothing_is_watched_unless_asked() -> None:
    """There is no thread for it, and the sink tells nobody."""
    pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build()
    assert pipeline._engine.sink.tell_waiting is None
    assert not any(type(lane).__name__ == "Deadlines" for lane in pipeline._engine.lanes)


def test_stacks_are_written_while_native_code_holds_the_gil() -> None:
    """The native thread writes them to stderr, with the thread that holds the GIL where Python tells."""
    ended = run_child("""
import ctypes, threading
from spdl.pipeline import PipelineBuilder

def hold_the_gil(item):
    while not pipeline._engine.sink.num_waits:  # until the consumer waits
        threading.Event().wait(0.001)
    ctypes.PyDLL(None).usleep(900_000)
    return item

pipeline = PipelineBuilder().add_source(range(1)).pipe(hold_the_gil).add_sink().build(stall_timeout=0.1)
print(*pipeline)
""")
    assert (ended.returncode, ended.stdout.split()) == (0, ["0"]), ended
    assert "spdl: pipeline 0 has stalled: for 0.1 s no call has ended" in ended.stderr, ended
    assert "native code holds the GIL" in ended.stderr, ended
    if "no function for its stacks" not in ended.stderr:
        assert "in hold_the_gil" in ended.stderr, ended
    ended.check_no_complaint()


@pytest.mark.slow
def test_a_stall_is_raised_although_the_gil_was_held() -> None:
    """Also if the call ends as soon as Python code can run, and everything moves again."""
    ended = run_child("""
import ctypes, itertools, threading
from spdl.pipeline import PipelineBuilder, StallError

def hold_the_gil_once(item):
    if item == 0:
        while not pipeline._engine.sink.num_waits:  # until the consumer waits
            threading.Event().wait(0.001)
        ctypes.PyDLL(None).usleep(2_000_000)  # the native thread may come late
    return item

source = itertools.count()
builder = PipelineBuilder().add_source(source).pipe(hold_the_gil_once).add_sink()
pipeline = builder.build(stall_timeout=0.1, stall_action="raise")
try:
    for item in pipeline:
        pass
except StallError as error:
    print("raised", error.seconds)
""")
    assert (ended.returncode, ended.stdout.split()) == (0, ["raised", "0.1"]), ended
    assert "native code holds the GIL" in ended.stderr, ended
    ended.check_no_complaint()


@pytest.mark.slow
def test_a_process_that_is_stopped_and_continued_reports_nothing() -> None:
    """SIGSTOP for longer than the timeout, while the consumer waits, is no stall."""
    run_child("""
import os, subprocess, sys
from spdl.pipeline import PipelineBuilder

# Stopped for longer than the stall timeout: that is what must not count.
stop = f"from os import kill; import time; kill({os.getpid()}, 19); time.sleep(1.5); kill({os.getpid()}, 18)"

def op(item):
    subprocess.run([sys.executable, "-S", "-c", stop], check=True)  # ends when this process has been continued
    return item

pipeline = PipelineBuilder().add_source(range(1)).pipe(op).add_sink().build(stall_timeout=1.2, stall_action="raise")
print(*pipeline)
""").check("0")
