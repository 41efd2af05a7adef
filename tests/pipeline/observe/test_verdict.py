"""``Pipeline.verdict()``: when it measures, what of, and how it ends. The rules: ``test_verdict_rules.py``."""

import gc
import os
import pickle
import select
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineStateError, PipelineStats, Verdict, _observer
from spdl.pipeline._observe import _judging, _sampling
from tests.support.child import run_child
from tests.support.running import TIMEOUT, await_event, build_of

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def same(item: Any) -> Any:
    return item


def wait_in_select(item: Any) -> Any:
    select.select([], [], [], 0.004)
    return item


def spin(item: Any) -> Any:
    for _ in range(100_000):
        pass
    return item


class Numbers:
    """A source without end."""

    def __iter__(self) -> Any:
        number = 0
        while True:
            yield number
            number += 1


def num_native_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def until(pipeline: Pipeline[Any], holds: Any) -> PipelineStats:
    """The statistics, when they are so. Time passes by itself."""
    nothing = threading.Event()
    while not holds(stats := pipeline.stats()):
        nothing.wait(0.005)
    return stats


# -- when it measures


def test_a_new_pipeline_has_an_unsure_verdict() -> None:
    """Nothing has run, so nothing is known; asking before the start measures from the start."""
    pipeline = build_of(range(10), lambda b: b.pipe(same)).build(num_threads=2)
    verdict = pipeline.verdict()
    assert isinstance(verdict, Verdict)
    assert (verdict.cause, verdict.stage, verdict.rate, verdict.predicted_rate) == ("unsure", None, 0.0, None)
    assert list(pipeline) == list(range(10))
    after = pipeline.verdict()
    assert "a verdict needs 5 s and 200 calls" in after.reason
    assert "call verdict() before it, and again at its end" in after.advice
    measured = pipeline.stats().measured
    assert measured is not None
    assert measured.own_cpu >= 0
    assert pipeline.stats().measured == measured  # it has ended


def test_a_short_run_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends before the measurement begins: the verdict is made of the counters."""
    monkeypatch.setattr(_observer, "MEASURED_AFTER", 2 * TIMEOUT)
    pipeline = build_of(range(10), lambda b: b.pipe(same)).build(num_threads=2)
    assert len(list(pipeline)) == 10
    assert pipeline.verdict().cause == "unsure"
    assert pipeline.stats().measured is None


@linux_only
def test_every_run_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks before the end: the first wait of the reader begins the measurement."""
    monkeypatch.setattr(_observer, "MEASURED_AFTER", 0.0)
    pipeline = build_of(Numbers(), lambda b: b.pipe(wait_in_select)).build(num_threads=1)
    with pipeline.auto_stop():
        while (measured := pipeline.stats().measured) is None or measured.stages[1].num < 3:
            pipeline.get_item(timeout=TIMEOUT)
    ended = pipeline.stats().measured
    assert ended is not None
    assert ended.stages[1].num >= 3
    assert pipeline.verdict().is_estimated is False


@linux_only
@pytest.mark.parametrize("timeout", [None, TIMEOUT])
def test_a_first_wait_without_an_end_is_measured(monkeypatch: pytest.MonkeyPatch, timeout: float | None) -> None:
    """A reader that waits for the first item, for long, begins the measurement meanwhile, once, and gets the item."""
    monkeypatch.setattr(_observer, "MEASURED_AFTER", 0.01)
    may_leave = threading.Event()

    def held(item: int) -> int:
        may_leave.wait(TIMEOUT)
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(held)).build(num_threads=1)
    found: list[int] = []
    reading = threading.Thread(target=lambda: found.append(pipeline.get_item(timeout=timeout)))
    reading.start()
    until(pipeline, lambda stats: stats.measured is not None and stats.measured.stages[1].num > 1)
    may_leave.set()
    reading.join(TIMEOUT)
    assert found == [0]
    assert list(pipeline) == [1, 2]


def test_a_read_that_is_late_while_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout of a read holds, before the measurement is due and when it has begun."""
    may_leave = threading.Event()
    for after in (0.0, 0.001, TIMEOUT):
        monkeypatch.setattr(_observer, "MEASURED_AFTER", after)
        may_leave.clear()
        pipeline = build_of(range(1), lambda b: b.pipe(lambda item: may_leave.wait(TIMEOUT) and item)).build(
            num_threads=1
        )
        for _ in range(2):
            with pytest.raises(TimeoutError, match="no item from pipeline"):
                pipeline.get_item(timeout=0.005)
        may_leave.set()
        pipeline.stop()


def test_a_measurement_that_cannot_begin_costs_no_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of threads, or without the extension: the reader gets its items, and the verdict is an estimate."""
    monkeypatch.setattr(_observer, "MEASURED_AFTER", 0.0)

    def fail(*arguments: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_sampling.Sampling, "__init__", fail)
    pipeline = build_of(range(20), lambda b: b.pipe(wait_in_select)).build(num_threads=1)
    assert list(pipeline) == list(range(20))
    assert pipeline.stats().measured is None


@linux_only
def test_threads_that_start_later_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool starts its threads when there is work: those after the begin of the measurement count too."""
    monkeypatch.setattr(_observer, "MEASURED_AFTER", 0.0)
    are_many, may_leave = threading.Barrier(4), threading.Event()

    def meet(item: int) -> int:
        if item:
            are_many.wait(TIMEOUT)
            may_leave.wait(TIMEOUT)
        return item

    pipeline = build_of([0, 1, 1, 1], lambda b: b.pipe(meet, concurrency=4)).build(num_threads=4)
    pipeline.verdict()
    assert pipeline.get_item(timeout=TIMEOUT) == 0
    are_many.wait(TIMEOUT)

    def are_seen(stats: PipelineStats) -> bool:
        measured = stats.measured
        return measured is not None and measured.stages[1].num > 2 * max(1, measured.num_looks)

    until(pipeline, are_seen)
    may_leave.set()
    assert list(pipeline) == [1, 1, 1]


def test_statistics_end_with_the_sentence() -> None:
    """The last line under the table is that of the verdict; so it is of a record that was pickled."""
    pipeline = build_of(range(10), lambda b: b.pipe(same)).build(num_threads=2)
    assert len(list(pipeline)) == 10
    stats = pipeline.stats()
    assert str(stats).splitlines()[-1] == pipeline.verdict().sentence
    assert str(pickle.loads(pickle.dumps(stats))) == str(stats)


def test_seconds_need_a_started_pipeline() -> None:
    """Nobody reads a pipeline that has not been started, and this thread would wait."""
    pipeline = build_of(range(10)).build(num_threads=1)
    with pytest.raises(PipelineStateError, match="it has not been started"):
        pipeline.verdict(seconds=1)
    with pytest.raises(ValueError, match="seconds"):
        pipeline.verdict(seconds=-1)


def test_seconds_end_with_the_pipeline() -> None:
    """The measurement of a pipeline that ends meanwhile ends with it."""
    pipeline = build_of(Numbers(), lambda b: b.pipe(wait_in_select)).build(num_threads=1)
    pipeline.start()
    found: list[Verdict] = []
    asking = threading.Thread(target=lambda: found.append(pipeline.verdict(seconds=10 * TIMEOUT)))
    asking.start()
    until(pipeline, lambda stats: stats.measured is not None and stats.num_items == 0 and stats.stages[1].num_calls > 3)
    pipeline.stop()
    asking.join(TIMEOUT)
    assert not asking.is_alive()
    assert found[0].seconds > 0


def test_nothing_is_loaded_until_asked() -> None:
    """Statistics and their table need neither the extension nor the sampler."""
    run_child(
        """
        import sys
        from spdl.pipeline import PipelineBuilder

        pipeline = PipelineBuilder().add_source(range(100)).pipe(str, concurrency=2).add_sink().build(num_threads=2)
        assert len(list(pipeline)) == 100
        str(pipeline.stats())
        loaded = {"spdl.pipeline._engine._published", "spdl.pipeline._observe._sampling"}  # 100 items are a short run
        if "t" not in sys.abiflags:  # without the GIL, the engine's locks come from it
            loaded.add("spdl._processes._memory")
        print(*sorted(loaded & set(sys.modules) - {"spdl.pipeline._observe._sampling"}), "none")
        """
    ).check("none")


# -- what it measures


@linux_only
@pytest.mark.parametrize("where", ["pool", "executor", "loop"])
def test_a_stuck_call_is_seen_although_it_began_before(where: str) -> None:
    """A call in flight at the first question, which never returns, is measured all the same."""
    is_inside, may_leave = threading.Event(), threading.Event()

    def stuck(item: Any) -> Any:
        is_inside.set()
        may_leave.wait(TIMEOUT)
        return item

    async def stuck_async(item: Any) -> Any:
        return stuck(item)

    with ThreadPoolExecutor(1) as executor:
        options: dict[str, Any] = {"executor": executor} if where == "executor" else {}
        op = stuck_async if where == "loop" else stuck
        pipeline = build_of(range(3), lambda b: b.pipe(op, name="stuck", **options)).build(num_threads=1)
        if where == "executor":  # a thread of the user's, which says what it does from its next call on
            pipeline.verdict()
        pipeline.start()
        await_event(is_inside)
        pipeline.verdict()

        def is_seen(stats: PipelineStats) -> bool:
            assert stats.measured is not None
            samples = stats.measured.loop if where == "loop" else stats.measured.stages[1]
            return samples.num > 3

        stats = until(pipeline, is_seen)
        may_leave.set()
        assert stats.limiting_stage is stats.stages[1]
        pipeline.stop()


@linux_only
def test_calls_that_ended_before_are_not_seen() -> None:
    """A worker that was in a call at the first question and is idle now is not taken for one that waits in the call."""
    is_inside, may_leave = threading.Event(), threading.Event()

    def once(item: int) -> int:
        if item == 0:
            is_inside.set()
            may_leave.wait(TIMEOUT)
        return item

    pipeline = build_of(range(1), lambda b: b.pipe(once), lambda b: b.pipe(same), sink=1).build(num_threads=1)
    pipeline.start()
    await_event(is_inside)
    pipeline.verdict()
    may_leave.set()
    until(pipeline, lambda stats: stats.stages[1].num_calls == 1)
    measured = pipeline.stats().measured
    assert measured is not None
    assert measured.stages[1].num == 0
    pipeline.stop()


@linux_only
def test_shares_sum_up_to_one() -> None:
    """Shares of each stage with calls, whatever runs beside."""
    pipeline = build_of(
        Numbers(), lambda b: b.pipe(spin, concurrency=2), lambda b: b.pipe(wait_in_select, concurrency=2)
    ).build(num_threads=4)
    with pipeline.auto_stop():
        pipeline.verdict()
        while (measured := pipeline.stats().measured) is None or measured.num_looks < 10:
            pipeline.get_item(timeout=TIMEOUT)
        shares = pipeline.verdict().shares
    assert [each.stage for each in shares] == ["src", "spin", "wait_in_select"]
    for each in shares:
        assert each.cpu + each.queue + each.gil + each.lock + each.io == pytest.approx(1, abs=0.05)
        assert min(each.cpu, each.queue, each.gil, each.lock, each.io) >= 0


@linux_only
@pytest.mark.soak(only=True)  # what others do on the machine decides too; benchmarks/verdict tries 40 of them
@pytest.mark.parametrize(("op", "cause"), [(wait_in_select, "io"), (spin, "gil")])
def test_a_real_pipeline(op: Any, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are I/O, Python code keeps the GIL; on a busy machine the verdict may be unsure, but not wrong."""
    monkeypatch.setattr(_judging, "MIN_SECONDS", 1.0)
    monkeypatch.setattr(_judging, "MIN_CALLS", 20)
    pipeline = build_of(Numbers(), lambda b: b.pipe(op, name="op", concurrency=3)).build(num_threads=3)
    with pipeline.auto_stop():
        pipeline.verdict()
        until = time.perf_counter() + 1.2
        while time.perf_counter() < until:  # asking for statistics would make the consumer the slowest part
            pipeline.get_item(timeout=TIMEOUT)
        verdict = pipeline.verdict()
    assert verdict.cause in (cause, "unsure"), verdict
    assert verdict.stage == "op" or verdict.cause == "unsure"
    assert not verdict.is_estimated


# -- how it ends


@linux_only
def test_many_pipelines_are_measured_at_once() -> None:
    """Each has its own measurement, and none is left behind."""
    before = num_native_threads()
    pipelines = [build_of(Numbers(), lambda b: b.pipe(wait_in_select)).build(num_threads=1) for _ in range(8)]
    for pipeline in pipelines:
        pipeline.verdict()
        pipeline.start()
    for pipeline in pipelines:
        until(pipeline, lambda stats: stats.measured is not None and stats.measured.num_looks > 1)
    for pipeline in pipelines:
        pipeline.stop()
    nothing = threading.Event()
    while num_native_threads() > before:
        nothing.wait(0.005)


@linux_only
def test_a_pipeline_is_collected_while_it_is_measured() -> None:
    """The measurement keeps neither the pipeline nor its op alive, and ends with it."""
    before = num_native_threads()

    class Holder:
        def __init__(self) -> None:
            self.pipeline = build_of(Numbers(), lambda b: b.pipe(self.op)).build(num_threads=1)

        def op(self, item: Any) -> Any:
            return item

    holder = Holder()
    holder.pipeline.verdict()
    holder.pipeline.get_item(timeout=TIMEOUT)
    until(holder.pipeline, lambda stats: stats.measured is not None and stats.measured.num_looks > 0)
    found = weakref.ref(holder.pipeline)
    del holder
    nothing = threading.Event()
    while found() is not None or num_native_threads() > before:
        gc.collect()
        nothing.wait(0.005)


@linux_only
def test_the_interpreter_may_exit_while_it_measures() -> None:
    """Nothing is printed, nothing hangs."""
    run_child(
        """
        import itertools, time
        from spdl.pipeline import PipelineBuilder

        pipeline = PipelineBuilder().add_source(itertools.count()).pipe(str).add_sink().build(num_threads=2)
        pipeline.verdict()
        while (stats := pipeline.stats()).measured is None or stats.measured.num_looks < 2:
            pipeline.get_item()
        print("done")
        """
    ).check("done")


@linux_only
def test_a_forked_child_measures_its_own() -> None:
    """The inherited pipeline refuses, another one can be measured."""
    run_child(
        """
        import itertools, os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from spdl.pipeline import PipelineBuilder, PipelineStateError

        def measured():
            pipeline = PipelineBuilder().add_source(itertools.count()).pipe(str).add_sink().build(num_threads=2)
            pipeline.verdict()
            while (stats := pipeline.stats()).measured is None or stats.measured.num_looks < 2:
                pipeline.get_item()
            return pipeline

        parent = measured()
        if (pid := os.fork()) == 0:
            try:
                parent.verdict()
            except PipelineStateError:
                measured().stop()
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        before = parent.stats().measured.num_looks
        while parent.stats().measured.num_looks < before + 2:
            parent.get_item()
        parent.stop()
        print("done")
        """
    ).check("done")


def test_systems_without_proc_get_an_estimate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the sampler cannot start, CPU times alone are measured, and the verdict says that it is an estimate."""
    monkeypatch.setattr(_sampling.Sampling, "_make_sampler", lambda self: None)
    monkeypatch.setattr(_judging, "MIN_SECONDS", 0.05)
    monkeypatch.setattr(_judging, "MIN_CALLS", 5)
    pipeline = build_of(Numbers(), lambda b: b.pipe(wait_in_select, concurrency=2)).build(num_threads=2)
    with pipeline.auto_stop():
        pipeline.verdict()
        while (stats := pipeline.stats()).elapsed < 0.1 or stats.stages[1].num_calls < 6:
            pipeline.get_item(timeout=TIMEOUT)
        verdict = pipeline.verdict()
    assert stats.measured is not None
    assert stats.measured.num_looks == 0
    if verdict.cause not in ("unsure", "consumer"):  # on a busy machine
        assert verdict.is_estimated
        assert str(verdict).startswith("estimated: ")
