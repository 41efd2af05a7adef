"""Verdicts without samples of threads: what CPU times alone can tell, on made-up counters."""

from dataclasses import replace
from typing import Any

import pytest

from spdl.pipeline import PipelineStats
from spdl.pipeline._info import StageInfo
from spdl.pipeline._observe import _facts
from spdl.pipeline._observe._facts import facts_of
from spdl.pipeline._observe._judging import judge
from spdl.pipeline._observe._sampling import has_gil
from spdl.pipeline._observe._stats import Measured, StageSamples, StageStats
from spdl.pipeline._records import Place


def stage(index: int, name: str, *, calls: float = 1.0, cpu: float = 0.0, runs_on: Place = "pool") -> StageStats:
    """A stage of which so many calls run at once all the time, each with that share of a CPU."""
    busy = 10.0 * calls
    return StageStats(
        info=StageInfo(0, str(index), name, max(1, int(calls))),
        elapsed=10.0,
        runs_on=runs_on,
        num_calls=1000,
        num_success=1000,
        busy=busy,
        wall_time=busy,
        cpu_time=busy * cpu,
        num_cpu_samples=1000,
    )


def stats(*stages: StageStats, measured: Measured | None = None) -> PipelineStats:
    """Ten seconds of a pipeline whose consumer waits nearly all of the time."""
    sink = StageStats(info=StageInfo(0, "9", "sink"), elapsed=10.0, runs_on="sink")
    found = PipelineStats(
        stages=(*stages, sink), elapsed=10.0, state="running", num_threads=8, num_items=1000, consumer_wait=9.5
    )
    since = None if measured is None else replace(found, elapsed=10.0 - measured.seconds)
    return replace(found, measured=measured, since=since)


def measured(seconds: float = 3.0, **changes: Any) -> Measured:
    """A measurement that is too short for a verdict of its own."""
    values: dict[str, Any] = {"cpu_limit": 8.0, "machine_cpus": 8, "num_looks": 60, "own_cpu": 0.0, "machine_cpu": None}
    return Measured(seconds=seconds, stages=(StageSamples(),) * 3, **(values | changes))


@pytest.fixture
def cpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets how many CPUs this process may use."""
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    return lambda number: monkeypatch.setattr(_facts, "cpu_limit", lambda: number)


@pytest.mark.parametrize(
    ("limit", "calls", "cpu", "cause"),
    [
        (0.5, 1, 0.5, "cpu"),
        (0.5, 4, 0.12, "oversubscribed"),
        (1.0, 4, 0.24, "oversubscribed"),
        (2.0, 4, 0.49, "oversubscribed"),
        (2.0, 2, 0.95, "cpu"),
        (0.5, 4, 0.01, "io"),
        (2.0, 4, 0.1, "io"),
    ],
)
def test_who_uses_all_cpus_waits_for_one(cpus: Any, limit: float, calls: int, cpu: float, cause: str) -> None:
    """A wait where no CPU is left is one for a CPU; where some are left, it is I/O."""
    cpus(limit)
    verdict = judge(stats(stage(1, "op", calls=calls, cpu=cpu)))
    assert (verdict.cause, verdict.stage) == (cause, "op")
    assert verdict.is_estimated
    (shares,) = verdict.shares
    assert shares.cpu + shares.queue + shares.gil + shares.lock + shares.io == pytest.approx(1.0)


def test_calls_that_take_little_cpu_time_wait_little_for_it(cpus: Any) -> None:
    """Beside a stage that fills the CPUs, one that sleeps still waits for I/O."""
    cpus(1.0)
    found = facts_of(stats(stage(1, "fetch", calls=8, cpu=0.01), stage(2, "decode", calls=4, cpu=0.23)))
    fetch, decode = (each.shares for each in found.stages)
    assert decode.queue == pytest.approx(0.77)
    assert fetch.queue == pytest.approx(0.01 * 0.77 / 0.23)
    assert fetch.io == pytest.approx(1.0 - 0.01 - fetch.queue)


@pytest.mark.skipif(not has_gil(), reason="there is no GIL")
def test_python_code_without_samples_is_still_taken_for_the_gil(cpus: Any) -> None:
    """Threads that use one CPU together while others are left."""
    cpus(8.0)
    assert judge(stats(stage(1, "op", calls=4, cpu=0.24))).cause == "gil"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, "io"),
        # others of the same group use its quota up
        ({"num_periods": 30, "num_throttled": 29, "cpu_limit": 0.5, "own_cpu": 0.9}, "oversubscribed"),
        # threads of native code, which the engine does not see
        ({"own_cpu": 23.9}, "unsure"),
        ({"machine_cpu": 23.9, "own_cpu": 1.2}, "unsure"),
        ({"seconds": 0.4, "own_cpu": 3.2}, "io"),
    ],
    ids=["nothing", "quota", "own CPUs", "other processes", "too short"],
)
def test_short_measurements_tell_who_uses_the_cpus(cpus: Any, changes: Any, cause: str) -> None:
    """A measurement too short for samples counts for CPU times and for the quota, which are known sooner."""
    cpus(8.0)
    verdict = judge(stats(stage(1, "op", calls=4, cpu=0.1), measured=measured(**changes)))
    assert verdict.cause == cause
    assert verdict.is_estimated == (cause != "unsure")
    assert verdict.seconds == 10.0


def test_cpus_that_are_used_up_elsewhere_leave_it_open(cpus: Any) -> None:
    """What calls wait for while other threads of the process use the CPUs is not guessed, but processes are its own."""
    cpus(8.0)
    verdict = judge(stats(stage(1, "op", calls=4, cpu=0.1), measured=measured(own_cpu=23.9)))
    assert "threads that work for no stage use up the CPUs" in verdict.reason
    assert "verdict(seconds=5)" in verdict.advice
    in_processes = stage(1, "op", calls=8, runs_on="process")
    assert judge(stats(in_processes, measured=measured(own_cpu=23.9))).cause == "cpu"


def test_a_source_limits_by_its_calls_alone(cpus: Any) -> None:
    """What its thread waits for between calls, as a CPU that others use, is not the source's."""
    cpus(0.5)
    source = replace(stage(0, "source", calls=0.01, runs_on="source"), num_cpu_samples=0)
    op = replace(stage(1, "op", calls=4, cpu=0.12), starved=1.0)
    verdict = judge(stats(source, op))
    assert (verdict.cause, verdict.stage) == ("oversubscribed", "op")
