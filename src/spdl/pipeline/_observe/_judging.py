"""Makes a verdict from facts: the cause, the stage and the advice. The rules are checked in their order in this file.

The thresholds are the constants below. ``README.md``, "Verdicts", explains how the facts are measured.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from spdl.pipeline._observe._advice import TERMS, Terms, User, change_for
from spdl.pipeline._observe._facts import CPUS_USED, FROM_START, FULL, THROTTLED, Facts, StageFacts, facts_of
from spdl.pipeline._observe._stats import PipelineStats
from spdl.pipeline._observe._verdict import Cause, Verdict, as_rate

#: A verdict needs a measurement of this many seconds with this many calls of one stage, or of twice the time.
MIN_SECONDS = 5.0
MIN_CALLS = 200
#: CPU times of this many seconds show what uses the CPUs, even if the measurement is too short for the other causes.
_MIN_CPU_SECONDS = 0.5
_CONSUMER_WAIT = 0.02
_QUEUE = 0.25
_GIL = 0.25
_GIL_HELD = 0.85
_IO = 0.7
_CPU = 0.7
_SLOWDOWN = 1.3
#: If others use the machine, the holder of the GIL waits for a CPU too, and other threads for both.
_GIL_HELD_PROBABLY = 0.6
#: A consumer whose buffer has items for this share of the time is the limit, even if it waits for up to this share.
_CONSUMER_FULL = 0.8
_CONSUMER_WAIT_FULL = 0.1
#: So many items show that it is the consumer, with fewer calls than the other causes need.
_MIN_ITEMS = 20


class Found(NamedTuple):
    """A cause and its stage. If the cause is unknown, ``missing`` says why.

    ``is_probable``: other processes use so much of the machine that the shares leave some doubt.
    """

    cause: Cause
    stage: StageFacts | None = None
    missing: str = ""
    is_probable: bool = False


def judge(stats: PipelineStats, user: User = "pipeline") -> Verdict:
    """Return the verdict on a pipeline. Without measured samples it is estimated from CPU times.

    ``user``: the interface whose arguments the advice names.
    """
    measured, since = stats.measured, stats.since
    is_late = since is not None and since.elapsed > FROM_START
    if measured is not None and is_late and measured.seconds < MIN_SECONDS <= stats.elapsed:
        # An estimate over the whole run, until the measurement is long enough. The use of the CPUs is known sooner.
        known = replace(measured, num_looks=0) if measured.seconds >= _MIN_CPU_SECONDS else None
        stats = replace(stats, measured=known, since=None)
    return verdict_of(facts_of(stats), TERMS[user])


def verdict_of(facts: Facts, terms: Terms = TERMS["pipeline"]) -> Verdict:
    """Return the verdict on facts."""
    found = decide(facts)
    stage, cause = found.stage, found.cause
    change = change_for(facts, cause, stage, terms) if cause != "unsure" else None
    return Verdict(
        stage=None if stage is None else stage.name,
        cause=cause,
        reason=_reason(facts, found),
        advice=_way_to_know(facts, found) if change is None else change.advice,
        arguments={} if change is None else change.arguments,
        rate=facts.rate,
        predicted_rate=None if change is None else change.rate,
        next_bound=None if change is None else change.bound,
        shares=tuple(each.shares for each in facts.stages),
        seconds=facts.seconds,
        is_estimated=not facts.is_sampled and cause not in ("unsure", "consumer"),
        is_probable=found.is_probable,
        unit=facts.unit,
    )


# ------------------------------------------------------------------------------------------------------------- rules


def decide(facts: Facts) -> Found:
    """Return the cause."""
    missing = _missing(facts)
    # A consumer that has read for long is known for the limit, however few calls that took.
    has_read = facts.seconds >= MIN_SECONDS and facts.num_items >= _MIN_ITEMS
    if _is_consumer(facts) and (not missing or has_read):
        return Found("consumer")
    if missing:
        return Found("unsure", missing=missing)
    stage = facts.limiting
    if stage is None:
        return Found(
            "unsure", missing="it is not known what the calls do: they run in other processes, or have not run"
        )
    if not facts.num_items:
        ran = "the source was in next()" if stage.runs_on == "source" else f"calls of {stage.name} ran"
        return Found("unsure", stage, f"nothing came out in {facts.seconds:.1f} s, while {ran}")
    shares = stage.shares
    is_cpu_full = facts.is_cpu_full
    if is_cpu_full and not facts.is_sampled and _is_filled_elsewhere(facts):
        missing = "threads that work for no stage use up the CPUs, and the measurement does not show why calls wait"
        return Found("unsure", stage, missing)
    is_loaded = facts.is_loaded
    # Time in a CPU's queue that is caused by other processes says nothing about the call.
    io = shares.io / max(0.1, 1.0 - shares.queue) if is_loaded else shares.io
    if shares.queue >= _QUEUE and shares.queue > shares.gil:
        if is_loaded and not is_cpu_full:
            return _beside_others(facts, stage)
        if is_cpu_full and facts.threads_for_cpus > ceil(facts.cpus) + 0.5:
            return Found("oversubscribed", _hungriest(facts))
    # With one CPU or less that is used up, sharing it with worker processes gains nothing.
    is_gil_free = is_cpu_full and facts.cpus <= 1.0
    if facts.has_gil and not is_gil_free and (shares.gil >= _GIL or (facts.gil_held or 0.0) >= _GIL_HELD):
        return Found("gil", _gil_holder(facts, stage))
    if _shares_memory(facts, stage):
        return Found("memory", stage)
    if is_cpu_full and io < _IO:
        return Found("cpu", _hungriest(facts))
    if stage.runs_on == "source":
        return Found("source", stage)
    if (
        shares.cpu + shares.queue >= _CPU
        and is_loaded
        and facts.cpus_used + facts.cpus_outside >= CPUS_USED * facts.cpus
    ):
        return _beside_others(facts, stage)
    if facts.computes(stage) and facts.is_machine_full and facts.threads_for_cpus > ceil(facts.cpus) - 0.5:
        return Found("cpu", stage, is_probable=True)
    if _is_full(facts, stage):
        return Found("io" if io >= _IO else "cap", stage)
    return Found(
        "unsure",
        stage,
        f"{stage.name} is the slowest stage, but it uses only {_percent(stage.fill)} of its slots while the consumer "
        f"waits {_percent(facts.wait)} of the time",
    )


def _beside_others(facts: Facts, stage: StageFacts) -> Found:
    """Return what the shares show, apart from the time in which other processes had the CPU."""
    shares = stage.shares
    if not facts.is_sampled:
        return Found("unsure", stage, _outside(facts))
    undisturbed = max(0.1, 1.0 - shares.queue)
    # Of many threads that want a CPU, some are interrupted while they hold the GIL, which is then held for long.
    is_crowd = facts.threads_for_cpus > 2 * ceil(facts.cpus) and shares.queue > 2 * shares.gil
    gil = shares.gil >= _GIL or (facts.gil_held or 0.0) >= _GIL_HELD_PROBABLY
    if facts.has_gil and facts.cpus > 1.0 and gil and not is_crowd:
        return Found("gil", _gil_holder(facts, stage), is_probable=True)
    if facts.is_machine_full and facts.threads_for_cpus > ceil(facts.cpus) + 0.5:
        return Found("oversubscribed", _hungriest(facts), is_probable=True)
    if stage.runs_on == "source":
        return Found("source", stage, is_probable=True)
    if not _is_full(facts, stage):
        return Found("unsure", stage, _outside(facts))
    if shares.io / undisturbed >= _IO:
        return Found("io", stage, is_probable=True)
    if facts.is_machine_full and facts.threads_for_cpus > ceil(facts.cpus) - 0.5:
        return Found("cpu", _hungriest(facts), is_probable=True)
    return Found("cap", stage, is_probable=True)


def _is_consumer(facts: Facts) -> bool:
    wait = facts.wait
    return wait < _CONSUMER_WAIT or (wait < _CONSUMER_WAIT_FULL and facts.sink_occupied >= _CONSUMER_FULL)


def _shares_memory(facts: Facts, stage: StageFacts) -> bool:
    """Return whether calls take more CPU time beside others, with no other explanation than shared memory."""
    shares, slowdown = stage.shares, stage.slowdown
    if slowdown is None or facts.is_loaded:
        return False
    return slowdown >= _SLOWDOWN and shares.cpu >= _CPU and shares.queue < _QUEUE and shares.gil < _GIL


def _is_filled_elsewhere(facts: Facts) -> bool:
    """Return whether most of the CPU time is spent outside of calls, as far as the CPU time of calls is known."""
    is_known = all(each.runs_on not in ("process", "region") for each in facts.stages)
    return is_known and sum(each.cpus for each in facts.stages) < facts.cpus_used / 2


def _missing(facts: Facts) -> str:
    """Return what is missing for a verdict, as a sentence; empty if nothing is missing."""
    # Neighbours that take the CPUs leave fewer calls, not fewer samples of them.
    least = MIN_CALLS // 4 if facts.is_loaded and facts.is_sampled else MIN_CALLS
    has_enough = facts.num_calls >= least or facts.seconds >= 2 * MIN_SECONDS
    if facts.seconds >= MIN_SECONDS and has_enough:
        return ""
    return (
        f"a verdict needs {MIN_SECONDS:g} s and {MIN_CALLS} calls, or {2 * MIN_SECONDS:g} s; measured are "
        f"{facts.seconds:.1f} s and {facts.num_calls} {'call' if facts.num_calls == 1 else 'calls'}"
    )


def _is_full(facts: Facts, stage: StageFacts) -> bool:
    return stage.fill >= FULL or facts.lacks_threads(stage)


def _gil_holder(facts: Facts, stage: StageFacts) -> StageFacts | None:
    """Return the stage that holds the GIL most; it may not be the one that waits. ``None``: no stage holds it."""
    if facts.gil_held is None:
        return max(facts.stages, key=lambda each: each.cpus, default=stage)
    if facts.gil_elsewhere > 0.6 * facts.gil_held:
        return None
    return max(facts.stages, key=lambda each: each.held, default=stage)


def _hungriest(facts: Facts) -> StageFacts | None:
    return max(facts.stages, key=lambda each: each.cpus, default=None)


def _outside(facts: Facts) -> str:
    return (
        f"other processes use {facts.cpus_outside:.1f} of {facts.machine_cpus} CPUs, so that calls wait for a CPU that "
        "would otherwise be free"
    )


# ------------------------------------------------------------------------------------------------------ what is missing


def _way_to_know(facts: Facts, found: Found) -> str:
    if not facts.num_items and found.stage is not None:
        return "find where these calls are, with spdl dump or py-spy: they hang, or take longer than the measurement"
    if facts.seconds < MIN_SECONDS or facts.num_calls < MIN_CALLS:
        if facts.state in ("ended", "failed"):
            return "measure a longer run: call verdict() before it, and again at its end"
        return f"ask again later, or call verdict(seconds={MIN_SECONDS:g})"
    if "other processes use" in found.missing:
        return "measure again when the machine is free, or reserve CPUs for this process"
    if not facts.is_sampled:
        return f"call verdict(seconds={MIN_SECONDS:g}), which samples the threads"
    return "look at the shares of this verdict and at stats()"


# ----------------------------------------------------------------------------------------------------------- reasons


def _reason(facts: Facts, found: Found) -> str:
    cause, stage = found.cause, found.stage
    if cause == "unsure":
        # The counters show the limiting stage sooner than its cause, and tables name it in the line above.
        return f"{'the cause is ' if _missing(facts) else ''}unsure: {found.missing}"
    if cause == "consumer":
        took = as_rate(facts.rate, facts.unit)
        return f"the consumer is the limit: it waits only {_percent(facts.wait)} of the time, and takes {took}"
    rates = f"the pipeline makes {as_rate(facts.rate, facts.unit)}"
    if facts.wait < 0.98:
        rates += f", the consumer could take {as_rate(facts.rate / (1.0 - facts.wait), facts.unit)}"
    if stage is None:
        return f"the GIL is held outside of the pipeline {_percent(facts.gil_elsewhere)} of the time; {rates}"
    doubt = ""
    if found.is_probable:
        shares = stage.shares
        doubt = (
            f"; other processes use {facts.cpus_outside:.1f} of {facts.machine_cpus} CPUs, and calls of {stage.name} "
            f"are on a CPU {_percent(shares.cpu)} of their time, and wait {_percent(shares.queue)} for one, "
            f"{_percent(shares.gil)} for the GIL and {_percent(shares.io)} for I/O"
        )
    return f"{_what(facts, cause, stage)}{doubt}; {rates}"


def _what(facts: Facts, cause: Cause, stage: StageFacts) -> str:
    name, shares = stage.name, stage.shares
    if cause == "gil":
        if shares.held is not None:
            waiting = max(facts.stages, key=lambda each: each.load * each.shares.gil)
            text = f"{name} is GIL-bound: it holds the GIL {_percent(shares.held)} of the time"
            if waiting.shares.gil >= 0.1:
                whose = "its own calls wait" if waiting is stage else f"calls of {waiting.name} wait"
                text += f", and {whose} for it {_percent(waiting.shares.gil)} of theirs"
            return text
        return f"{name} is GIL-bound: its calls wait for the GIL {_percent(shares.gil)} of their time"
    if cause == "cpu":
        text = f"{name} is CPU-bound: the process uses {facts.cpus_used:.1f} of {facts.cpus:g} CPUs, most of it there"
        if facts.throttled >= THROTTLED:
            text += f"; the CPU quota of its control group is used up in {_percent(facts.throttled)} of the periods"
        return text
    if cause == "oversubscribed":
        return (
            f"{name} is CPU-bound, with more threads than CPUs: its calls wait for a CPU {_percent(shares.queue)} of "
            f"their time, and the process uses {facts.cpus_used:.1f} of {facts.cpus:g}"
        )
    if cause == "io":
        return (
            f"{name} is I/O-bound: its calls wait for I/O {_percent(shares.io)} of their time, {_slots(facts, stage)}"
        )
    if cause == "source":
        return f"the source is slow: next() takes {_percent(stage.load)} of the time"
    if cause == "memory":
        return f"{name} is bound by memory: its calls take {stage.slowdown:.1f} times the CPU time beside others"
    free = "" if facts.is_machine_full else ", while CPUs are free"
    return f"{name} is limited by its number of calls at once: {_slots(facts, stage).removeprefix('and ')}{free}"


def _slots(facts: Facts, stage: StageFacts) -> str:
    if facts.lacks_threads(stage):
        return f"and all {facts.num_threads} threads are in use"
    if stage.runs_on == "region" and stage.num_workers:
        return (
            f"and {'its only worker is' if stage.num_workers == 1 else f'all {stage.num_workers} workers are'} in use"
        )
    return "one at a time" if stage.limit == 1 else f"and all {stage.limit} slots are in use"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
