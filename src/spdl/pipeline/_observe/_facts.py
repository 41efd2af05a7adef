"""The facts behind a verdict: rates, shares and loads of a pipeline, from counters and samples. Arithmetic only."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import NamedTuple

from spdl._cpus import cpu_limit
from spdl.pipeline._observe._sampling import has_gil
from spdl.pipeline._observe._stats import Measured, PipelineStats, StageSamples, StageStats
from spdl.pipeline._observe._verdict import StageShares
from spdl.pipeline._records import Place, Unit

#: Minimum number of observations of threads from which the shares of a stage are computed.
_ENOUGH_SAMPLES = 20
#: Minimum number of calls that must have run alone, and beside others, to be compared.
_ENOUGH_CALLS = 10
#: If other processes use at least this share of the machine, its CPUs do not count as free for this process.
_LOADED = 0.15
#: A measurement that began so many seconds after the pipeline counts as one of the whole run.
FROM_START = 0.5
#: Share of the slots or threads in use from which on they count as used up.
FULL = 0.8
#: Share of the CPUs in use from which they count as used up: in practice no process gets more.
CPUS_USED = 0.9
#: Share of a quota's periods in which it was used up, from which on the quota is the limit. Other processes of the
#: group use the quota too.
THROTTLED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """One stage. Shares are those of ``StageShares``."""

    name: str
    runs_on: Place
    limit: int  #: calls that may run at once
    num_calls: int
    load: float  #: calls that run at once, on average
    score: float  #: share of the time in which it was neither starved nor blocked
    shares: StageShares
    #: CPU time of calls that run beside others over that of calls that run alone; ``None``: too few ran alone.
    slowdown: float | None = None
    #: Threads or processes of its own: those of its executor or region; 0: it has none, or they are not known.
    num_workers: int = 0
    concurrency: int = 0  #: calls that may be submitted at once; 0: as many as may run
    #: CPUs that the calls use in other processes, where it is not known for each call.
    cpus_away: float = 0.0

    @property
    def fill(self) -> float:
        """Share of the stage's slots that are in use."""
        return self.load / self.limit

    @property
    def cpus(self) -> float:
        """CPUs that the stage's calls use."""
        return self.load * self.shares.cpu + self.cpus_away

    @property
    def is_away(self) -> bool:
        """Whether its calls run in other processes."""
        return self.runs_on in ("process", "region")

    @property
    def held(self) -> float:
        return self.shares.held or 0.0

    @property
    def own_load(self) -> float:
        """Calls that would run at once if none waited for a CPU or the GIL, at the same rate."""
        return self.load * max(0.0, 1.0 - self.shares.queue - self.shares.gil)

    @property
    def waiting(self) -> float:
        """Number of calls that wait at a time, for something other than a CPU or the GIL."""
        return max(0.0, self.own_load - self.load * self.shares.cpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A pipeline in the time that was measured."""

    seconds: float
    num_items: int
    num_calls: int  #: of the stage with most calls
    rate: float  #: items per second
    wait: float  #: share of the time in which the consumer waited
    num_threads: int
    cpus: float  #: that this process may use
    cpus_used: float
    cpus_outside: float  #: used by other processes; 0 if unknown
    machine_cpus: int
    throttled: float = 0.0  #: share of a CPU quota's periods in which it was used up
    has_gil: bool
    gil_held: float | None  #: share of the time in which a thread held the GIL; ``None``: unknown
    gil_elsewhere: float = 0.0  #: the part of it in which the thread worked for no stage
    is_sampled: bool
    stages: tuple[StageFacts, ...]  #: sources and stages with calls
    #: Share of the time in which the sink's buffer had items.
    sink_occupied: float = 0.0
    state: str = "running"
    unit: Unit = "items"  #: what the rates count

    @property
    def cpus_left(self) -> float:
        """CPUs that this process may use and that other processes leave free.

        At least half of them: the system divides the CPUs among the processes that want them, and favours processes
        that want little.
        """
        return min(self.cpus, max(self.cpus_used, self.machine_cpus - self.cpus_outside, self.cpus / 2))

    @property
    def is_cpu_full(self) -> bool:
        """Whether this process uses all the CPU time that it may use."""
        return self.cpus_used >= CPUS_USED * self.cpus or self.throttled >= THROTTLED

    @property
    def is_loaded(self) -> bool:
        """Whether other processes use so much of the machine that this process cannot count on its CPUs."""
        return self.cpus_outside >= _LOADED * self.machine_cpus

    @property
    def threads_for_cpus(self) -> float:
        """Threads and workers of this process that are on a CPU or want one, on average."""
        return sum(
            (stage.num_workers or stage.load)
            if self.computes(stage)
            else stage.load * (stage.shares.cpu + stage.shares.queue)
            for stage in self.stages
        )

    def computes(self, stage: StageFacts) -> bool:
        """Whether the calls of a stage that runs elsewhere compute more than they wait."""
        share = 0.25 if self.is_loaded else 0.5
        return stage.is_away and stage.cpus_away >= share * max(1, stage.num_workers or stage.limit)

    def lacks_threads(self, stage: StageFacts) -> bool:
        """Whether the number of pool threads, not the stage's own limit, limits the stage."""
        return stage.runs_on == "pool" and stage.fill < FULL and self.pool_fill >= FULL

    @property
    def is_machine_full(self) -> bool:
        """Whether this process and others together use all CPUs that this process may use."""
        return self.is_cpu_full or self.cpus_used + self.cpus_outside >= CPUS_USED * self.machine_cpus

    @property
    def limiting(self) -> StageFacts | None:
        """The stage that the other stages wait for."""
        candidates = [stage for stage in self.stages if stage.load > 0]
        return max(candidates, key=lambda stage: (round(stage.score, 1), stage.load), default=None)

    @property
    def pool(self) -> tuple[StageFacts, ...]:
        return tuple(stage for stage in self.stages if stage.runs_on == "pool")

    @property
    def pool_fill(self) -> float:
        """Share of the worker threads that run calls."""
        return sum(stage.load for stage in self.pool) / max(1, self.num_threads)


def facts_of(stats: PipelineStats) -> Facts:
    """Return the facts of a pipeline over the measured time; without a measurement, since its start."""
    measured = stats.measured
    window = stats if measured is None or stats.since is None else stats - stats.since
    elapsed = window.elapsed
    cpus = _cpus_of(window, measured)
    shares = _shares_of(window, measured, cpus)
    numbers = [k for k, stage in enumerate(window.stages) if stage.runs_on not in ("engine", "sink")]
    samples = measured.stages if measured is not None and measured.num_looks else ()
    stages = tuple(_stage_of(window, k, shares[k], samples[k] if samples else StageSamples()) for k in numbers)
    stages = _with_cpus_away(stages, cpus.used)
    is_sampled = measured is not None and measured.num_looks > 0
    knows_holder = is_sampled and measured is not None and measured.knows_holder
    is_whole = stats.since is not None and stats.since.elapsed <= FROM_START
    return Facts(
        seconds=stats.elapsed if is_whole else elapsed,
        num_items=window.num_items,
        num_calls=max((stage.num_calls for stage in window.stages), default=0),
        rate=window.rate,
        wait=min(1.0, window.consumer_wait / elapsed) if elapsed > 0 else 0.0,
        num_threads=stats.num_threads,
        cpus=cpus.limit,
        cpus_used=cpus.used,
        cpus_outside=cpus.outside,
        throttled=cpus.throttled,
        machine_cpus=cpus.machine,
        has_gil=measured.has_gil if measured is not None else has_gil(),
        gil_held=measured.gil_held / measured.num_looks if measured is not None and knows_holder else None,
        gil_elsewhere=measured.gil_elsewhere / measured.num_looks if measured is not None and knows_holder else 0.0,
        is_sampled=is_sampled,
        stages=stages,
        sink_occupied=window.stages[-1].occupancy if window.stages else 0.0,
        state=stats.state,
        unit=stats.unit,
    )


def _with_cpus_away(stages: tuple[StageFacts, ...], used: float) -> tuple[StageFacts, ...]:
    """Divide the CPU time that no thread of this process has used among the stages that run elsewhere, by their load.

    An upper limit: it has the CPU time of threads that work for no stage.
    """
    if (load := sum(stage.load for stage in stages if stage.is_away)) <= 0:
        return stages
    left = max(0.0, used - sum(stage.cpus for stage in stages))
    return tuple(replace(stage, cpus_away=left * stage.load / load) if stage.is_away else stage for stage in stages)


class _Cpus(NamedTuple):
    """CPU seconds per second: available and used."""

    limit: float  #: that this process may use
    used: float  #: by this process
    outside: float  #: by other processes; 0 if unknown
    machine: int
    throttled: float  #: share of a CPU quota's periods in which it was used up

    @property
    def is_full(self) -> bool:
        """Whether a thread that wants a CPU must wait for one."""
        is_limit = self.used >= CPUS_USED * self.limit or self.throttled >= THROTTLED
        return is_limit or self.used + self.outside >= CPUS_USED * self.machine


def _cpus_of(window: PipelineStats, measured: Measured | None) -> _Cpus:
    if measured is None or measured.seconds <= 0:
        used = sum((_measured_cpu(stage) or 0.0) * stage.busy for stage in window.stages) / max(window.elapsed, 1e-9)
        return _Cpus(cpu_limit(), used, 0.0, os.cpu_count() or 1, 0.0)
    seconds, machine_cpu = measured.seconds, measured.machine_cpu
    return _Cpus(
        limit=measured.cpu_limit,
        used=measured.own_cpu / seconds,
        outside=0.0 if machine_cpu is None else max(0.0, (machine_cpu - measured.own_cpu) / seconds),
        machine=measured.machine_cpus,
        throttled=measured.num_throttled / measured.num_periods if measured.num_periods else 0.0,
    )


def _stage_of(window: PipelineStats, number: int, shares: StageShares, samples: StageSamples) -> StageFacts:
    stage = window.stages[number]
    elapsed = max(window.elapsed, 1e-9)
    limit = 1 if stage.runs_on == "source" else stage.info.concurrency or 1
    load = stage.busy / elapsed
    if stage.runs_on in ("executor", "process") and stage.num_workers:
        # Calls that wait for a worker of a pool are submitted, but do not run.
        limit = min(limit, stage.num_workers)
        load = min(load, float(limit))
    score = max(0.0, 1.0 - (stage.starved + stage.blocked) / elapsed) if stage.busy > 0 else 0.0
    if stage.runs_on == "source":  # the rest of the time, its thread waits for a CPU or the GIL
        score = min(score, load)
    return StageFacts(
        name=stage.info.stage_name,
        runs_on=stage.runs_on,
        limit=limit,
        concurrency=stage.info.concurrency or 1,
        num_workers=stage.num_workers,
        num_calls=stage.num_calls,
        load=load,
        score=score,
        shares=shares,
        slowdown=_slowdown(samples),
    )


def _slowdown(samples: StageSamples) -> float | None:
    if min(samples.num_alone, samples.num_beside) < _ENOUGH_CALLS or samples.cpu_alone <= 0:
        return None
    return (samples.cpu_beside / samples.num_beside) / (samples.cpu_alone / samples.num_alone)


def _shares_of(window: PipelineStats, measured: Measured | None, cpus: _Cpus) -> list[StageShares]:
    if measured is None or not measured.num_looks:
        return _estimated(window, cpus)
    per_look = measured.seconds / measured.num_looks
    # For calls whose CPU time the engine does not measure (steps of generators): how much of "running" is "on a CPU".
    pool = [s for s, stage in zip(measured.stages, window.stages, strict=True) if stage.runs_on in ("pool", "executor")]
    running = sum(samples.running for samples in pool) * per_look
    on_cpu = min(1.0, measured.pool_cpu / running) if running > 0 else 1.0
    loop_calls = sum(stage.busy for stage in window.stages if stage.runs_on == "loop")
    shares = []
    for stage, samples in zip(window.stages, measured.stages, strict=True):
        if stage.runs_on == "source":
            found = _of_thread(stage, samples, per_look, stage.busy)
        elif stage.runs_on == "loop" and not samples.num:
            found = _of_thread(stage, measured.loop, per_look, loop_calls, rest="io")
        elif stage.runs_on in ("process", "region"):
            found = StageShares(stage.info.stage_name, 0.0, 0.0, 0.0, 1.0, 0.0)
        else:
            found = _of_calls(stage, samples, on_cpu)
        shares.append(replace(found, held=samples.held / measured.num_looks if measured.knows_holder else None))
    return shares


def _of_calls(stage: StageStats, samples: StageSamples, on_cpu: float) -> StageShares:
    """Return the shares of calls that are sampled on their threads."""
    if not samples.num:
        cpu = _measured_cpu(stage) or 0.0
        return StageShares(stage.info.stage_name, cpu, 0.0, 0.0, 0.0, 1.0 - cpu)
    running = samples.running / samples.num
    cpu = running * on_cpu
    measured = _measured_cpu(stage)
    if measured is not None and stage.wall_time > 0.5 * stage.busy:
        # Covers all calls, not only the sampled ones. Calls that have not returned are not included.
        cpu = min(measured, running) if samples.num >= _ENOUGH_SAMPLES else measured
    rest = max(0.0, 1.0 - cpu)
    queue = max(0.0, running - cpu)
    waiting = (queue, samples.gil / samples.num, samples.lock / samples.num, samples.io / samples.num)
    scale = rest / sum(waiting) if sum(waiting) > 0 else 0.0
    return StageShares(stage.info.stage_name, cpu, *(share * scale for share in waiting))


def _of_thread(
    stage: StageStats, samples: StageSamples, per_look: float, busy: float, rest: str = "lock"
) -> StageShares:
    """Return the shares of calls of a thread that also waits between calls. ``busy``: seconds of all its calls."""
    if busy <= 0 or not samples.num:
        return StageShares(stage.info.stage_name, 0.0, 0.0, 0.0, 0.0, 1.0)
    cpu = min(1.0, samples.cpu / busy)
    running, gil, io = (n * per_look / busy for n in (samples.running, samples.gil, samples.io))
    queue = max(0.0, running - cpu)
    if rest == "io":  # while the loop sleeps, its calls wait
        io = 0.0
    total = cpu + queue + gil + io
    scale = 1.0 / total if total > 1.0 else 1.0
    cpu, queue, gil, io = (share * scale for share in (cpu, queue, gil, io))
    left = max(0.0, 1.0 - cpu - queue - gil - io)
    lock, io = (left, io) if rest == "lock" else (0.0, left)
    return StageShares(stage.info.stage_name, cpu, queue, gil, lock, io)


def _estimated(window: PipelineStats, cpus: _Cpus) -> list[StageShares]:
    """Estimate the shares from CPU times alone, which do not show what a call waits for.

    If the CPUs are used up, calls wait for a CPU, in proportion to the CPU time that they take, because the system
    divides CPU time that way; the calls that take most wait for nothing else. Otherwise, threads that together use one
    CPU wait for the GIL. All other waits count as I/O.
    """
    elapsed = max(window.elapsed, 1e-9)
    found = [_measured_cpu(stage) or 0.0 for stage in window.stages]
    uses = [share * stage.busy / elapsed for share, stage in zip(found, window.stages, strict=True)]
    hungriest = found[max(range(len(uses)), key=uses.__getitem__)] if uses else 0.0
    queued = (1.0 - hungriest) / hungriest if cpus.is_full and hungriest > 0 else 0.0  # per CPU time
    is_gil = not cpus.is_full and has_gil() and cpus.limit > 1.2 and 0.7 <= sum(uses) <= 1.15
    shares = []
    for stage, cpu in zip(window.stages, found, strict=True):
        name = stage.info.stage_name
        if stage.runs_on in ("process", "region"):
            shares.append(StageShares(name, 0.0, 0.0, 0.0, 1.0, 0.0))
            continue
        queue = min(1.0 - cpu, cpu * queued)
        rest = 1.0 - cpu - queue
        shares.append(StageShares(name, cpu, queue, rest if is_gil else 0.0, 0.0, 0.0 if is_gil else rest))
    return shares


def _measured_cpu(stage: StageStats) -> float | None:
    """Return CPU time over wall time of successful calls, as the engine measured them."""
    if not stage.num_cpu_samples or stage.wall_time <= 0:
        return None
    return min(1.0, max(0.0, stage.cpu_time / stage.wall_time))
