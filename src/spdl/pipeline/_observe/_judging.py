"""Makes a verdict from facts: the cause, the stage and the advice. The rules are checked in their order in this file.

The thresholds are the constants below. ``docs/architecture.md``, "Verdicts", explains how the facts are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from spdl.pipeline._observe._bounds import Bound, bounds_of, lowest
from spdl.pipeline._observe._facts import CPUS_USED, THROTTLED, Facts, StageFacts, facts_of
from spdl.pipeline._observe._stats import PipelineStats
from spdl.pipeline._observe._terms import TERMS, Terms, User
from spdl.pipeline._observe._verdict import Cause, Verdict, as_rate

__all__ = ["Found", "decide", "judge", "verdict_of"]

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
#: If fewer threads than this wait for something other than a CPU on average, the advice adds no threads for them.
_SOME_WAIT = 0.3
_FULL = 0.8
#: Maximum factor by which a change is proposed: how a disk behaves beyond that is not known.
_MOST = 4
#: Minimum gain, as a factor, for which a move to other processes is proposed.
_WORTH_IT = 1.1


class Found(NamedTuple):
    """A cause and its stage. If the cause is unknown, ``missing`` says why."""

    cause: Cause
    stage: StageFacts | None = None
    missing: str = ""


def judge(stats: PipelineStats, user: User = "pipeline") -> Verdict:
    """Return the verdict on a pipeline. Without measured samples it is estimated from CPU times.

    Args:
        stats: The statistics.
        user: Interface whose arguments the advice names.
    """
    measured = stats.measured
    if measured is not None and stats.since is not None and measured.seconds < MIN_SECONDS <= stats.elapsed:
        # An estimate over the whole run, until the measurement is long enough. The use of the CPUs is known sooner.
        known = replace(measured, num_looks=0) if measured.seconds >= _MIN_CPU_SECONDS else None
        stats = replace(stats, measured=known, since=None)
    return verdict_of(facts_of(stats), TERMS[user])


def verdict_of(facts: Facts, terms: Terms = TERMS["pipeline"]) -> Verdict:
    """Return the verdict on facts."""
    found = decide(facts)
    stage, cause = found.stage, found.cause
    change = _change(facts, found, terms)
    return Verdict(
        stage=None if stage is None else stage.name,
        cause=cause,
        reason=_reason(facts, found),
        advice=change.advice,
        arguments=change.arguments,
        rate=facts.rate,
        predicted_rate=change.rate,
        next_bound=change.bound,
        shares=tuple(each.shares for each in facts.stages),
        seconds=facts.seconds,
        is_estimated=not facts.is_sampled and cause not in ("unsure", "consumer"),
    )


# ------------------------------------------------------------------------------------------------------------- rules


def decide(facts: Facts) -> Found:
    """Return the cause."""
    if missing := _missing(facts):
        return Found("unsure", missing=missing)
    if facts.wait < _CONSUMER_WAIT:
        return Found("consumer")
    stage = facts.limiting
    if stage is None:
        return Found(
            "unsure", missing="it is not known what the calls do: they run in other processes, or have not run"
        )
    if not facts.num_items:
        return Found("unsure", stage, f"nothing came out in {facts.seconds:.1f} s, while {_in_flight(stage)}")
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
            return Found("unsure", stage, _outside(facts))
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
        return Found("unsure", stage, _outside(facts))
    if _is_full(facts, stage):
        return Found("io" if io >= _IO else "cap", stage)
    return Found(
        "unsure",
        stage,
        f"{stage.name} is the slowest stage, but it uses only {_percent(stage.fill)} of its slots while the consumer "
        f"waits {_percent(facts.wait)} of the time",
    )


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
    has_enough = facts.num_calls >= MIN_CALLS or facts.seconds >= 2 * MIN_SECONDS
    if facts.seconds >= MIN_SECONDS and has_enough:
        return ""
    return (
        f"a verdict needs {MIN_SECONDS:g} s and {MIN_CALLS} calls, or {2 * MIN_SECONDS:g} s; measured are "
        f"{facts.seconds:.1f} s and {facts.num_calls} {'call' if facts.num_calls == 1 else 'calls'}"
    )


def _in_flight(stage: StageFacts) -> str:
    return "the source was in next()" if stage.runs_on == "source" else f"calls of {stage.name} ran"


def _is_full(facts: Facts, stage: StageFacts) -> bool:
    return stage.fill >= _FULL or _lacks_threads(facts, stage)


def _lacks_threads(facts: Facts, stage: StageFacts) -> bool:
    """Return whether the number of pool threads, not the stage's own limit, limits the stage."""
    return stage.runs_on == "pool" and stage.fill < _FULL and facts.pool_fill >= _FULL


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


# ------------------------------------------------------------------------------------------------------------ advice


class _Change(NamedTuple):
    advice: str
    rate: float | None
    bound: str | None
    arguments: Mapping[str, int] = {}


def _change(facts: Facts, found: Found, terms: Terms) -> _Change:
    bounds = bounds_of(facts, terms.num_threads)
    cause, stage = found.cause, found.stage
    if cause == "consumer":
        bound = lowest(bounds, "consumer")
        advice = "nothing in the pipeline: it is not what limits you"
        return _Change(advice, facts.rate, None if bound is None else f"{bound.name}, at {as_rate(bound.rate)}")
    if cause == "unsure":
        return _Change(_way_to_know(facts, found), None, None)
    if cause == "gil":
        return _without_gil(facts, stage, terms)
    assert stage is not None
    if cause == "oversubscribed":
        waiting = max(0, ceil(sum(each.waiting for each in facts.pool) - _SOME_WAIT))
        number = max(1, ceil(facts.cpus)) + waiting
        why = "one thread for each CPU" + (f" and {waiting} for calls that wait" if waiting else "")
        advice = f"{terms.threads.format(number=number)}, {why}: {stage.name} needs CPU time, not more threads"
        return _Change(advice, facts.rate, _name(lowest(bounds, "pool", stage.name)), {terms.num_threads: number})
    if cause in ("cpu", "memory"):
        advice = f"make {stage.name} cheaper, or use more CPUs or machines: no argument gives more CPU time"
        if cause == "memory":
            whose = "" if terms.has_one_number else f" of {stage.name}"
            advice = f"lower the {terms.concurrency}{whose}: calls of {stage.name} slow each other down"
        return _Change(advice, facts.rate, _name(lowest(bounds, "cpu", "pool", stage.name)))
    if cause == "source":
        bound = lowest(bounds, stage.name)
        advice = (
            f"make the source cheaper: let it emit positions or paths, and read in {terms.function}, which can run "
            "several calls at once"
        )
        return _Change(advice, facts.rate if bound is None else max(facts.rate, bound.rate), _name(bound))
    return _with_more_calls(facts, stage, bounds, terms)


def _with_more_calls(facts: Facts, stage: StageFacts, bounds: list[Bound], terms: Terms) -> _Change:
    """Raise the number of calls at once as far as the next bound allows."""
    lacks_threads = _lacks_threads(facts, stage)
    own = lowest([bound for bound in bounds if bound.kind == stage.name])
    others = lowest(bounds, stage.name, "pool")
    ceiling = facts.rate * _MOST
    if lacks_threads and own is not None:  # its own limit stays
        ceiling = min(ceiling, own.rate)
        others = min((bound for bound in (own, others) if bound is not None), key=lambda bound: bound.rate)
    target = min(ceiling, others.rate) if others is not None else ceiling
    growth = max(1.0, target / facts.rate) if facts.rate > 0 else 1.0
    if stage.runs_on == "region":
        advice = f"more workers for {stage.name}, {growth:.2g} times as many: resize(), or a larger number in to()"
        return _Change(advice, facts.rate * growth, _name(others) if target < ceiling else None)
    arguments: dict[str, int] = {}
    limit = stage.limit
    if not lacks_threads:
        limit = max(stage.limit + 1, ceil(stage.own_load * growth - 0.05))
        arguments[terms.concurrency] = limit
        growth = min(growth, limit / max(stage.own_load, 1e-9))
    if stage.runs_on == "pool":
        needed = ceil(sum(each.own_load for each in facts.pool) * growth - 0.05)
        if lacks_threads:
            needed = max(needed, facts.num_threads + 1)
        if needed > facts.num_threads:
            arguments[terms.num_threads] = needed
    words = []
    if terms.has_one_number:
        words = [f"{name}={number} (now {facts.num_threads})" for name, number in arguments.items()]
    elif terms.concurrency in arguments:
        words.append(f"{terms.concurrency}={limit} (now {stage.limit}) for {stage.name}")
    if terms.num_threads in arguments and not terms.has_one_number:
        words.append(f"{terms.num_threads}={arguments[terms.num_threads]} (now {facts.num_threads})")
    if stage.runs_on == "process":
        words.append("with as many worker processes")
    predicted = facts.rate * growth
    is_bounded = others is not None and others.rate <= predicted * 1.05
    return _Change(", ".join(words), predicted, _name(others) if is_bounded else None, arguments)


def _without_gil(facts: Facts, stage: StageFacts | None, terms: Terms) -> _Change:
    """Move the stage that holds the GIL to other processes."""
    if stage is None:
        advice = (
            f"{terms.away}: Python code outside of the pipeline, such as the training loop, holds the GIL, and the "
            "pipeline waits for it"
        )
        bound = lowest(bounds_of(facts, terms.num_threads), "gil")
        return _Change(advice, facts.rate if bound is None else max(facts.rate, bound.rate), _name(bound))
    bounds = bounds_of(facts, terms.num_threads, without_gil=stage)
    number = max(2, ceil(facts.cpus))
    bounds = [bound for bound in bounds if bound.kind != stage.name]
    if stage.own_load > 0:
        bounds.append(Bound(stage.name, f"{stage.name}, {number} processes", facts.rate * number / stage.own_load))
    bound = lowest(bounds)
    predicted = facts.rate if bound is None else max(facts.rate, bound.rate)
    native = f"call native code in {stage.name} that releases the GIL"
    if stage.runs_on == "source":
        advice = f"do less in the source: let it emit positions or paths, and do the work in {terms.function}"
        return _Change(advice, predicted, _name(bound))
    if predicted < _WORTH_IT * facts.rate and not facts.is_loaded:
        advice = f"{native}, or give it more at once: its calls are too short for other processes"
        return _Change(advice, facts.rate, _name(bound))
    # A process is idle until its next call arrives, so one call is queued for each call that runs.
    numbers = {"number": number, "calls": 2 * number}
    advice = f"{terms.processes.format(stage=stage.name, **numbers)}; or {native}"
    arguments = {name: numbers[which] for name, which in terms.arguments}
    return _Change(advice, predicted, _name(bound), arguments)


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
        return f"unsure: {found.missing}"
    if cause == "consumer":
        took = as_rate(facts.rate)
        return f"the consumer is the limit: it waits only {_percent(facts.wait)} of the time, and takes {took}"
    rates = f"the pipeline makes {as_rate(facts.rate)}"
    if facts.wait < 0.98:
        rates += f", the consumer could take {as_rate(facts.rate / (1.0 - facts.wait))}"
    if stage is None:
        return f"the GIL is held outside of the pipeline {_percent(facts.gil_elsewhere)} of the time; {rates}"
    return f"{_what(facts, cause, stage)}; {rates}"


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
    return f"{name} is limited by its number of calls at once: {_slots(facts, stage)}, while CPUs are free"


def _slots(facts: Facts, stage: StageFacts) -> str:
    if _lacks_threads(facts, stage):
        return f"and all {facts.num_threads} threads are in use"
    return "one at a time" if stage.limit == 1 else f"and all {stage.limit} slots are in use"


def _name(bound: Bound | None) -> str | None:
    return None if bound is None else bound.name


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
