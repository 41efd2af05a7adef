"""The change that a verdict advises: which arguments, how many calls, threads or workers, and the rate to expect."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from typing import Final, Literal, NamedTuple, TypeAlias

from spdl.pipeline._observe._facts import Facts, StageFacts
from spdl.pipeline._observe._verdict import Cause, as_rate

#: Whose arguments a verdict names: those of ``build`` and ``pipe``, of ``DataLoader``, or of torch's loader.
User: TypeAlias = Literal["pipeline", "loader", "torch"]


class Terms(NamedTuple):
    """Names of arguments, and texts to format.

    Attributes:
        concurrency: Argument for the number of calls of a stage at once.
        num_threads: Argument for the number of threads.
        threads: How to give a number of threads.
        processes: How to run a stage in a number of processes. ``calls``: the calls they run, and as many queued.
        arguments: Arguments for these numbers.
        away: How to run all of it in another process.
        function: Where several calls run at once.
    """

    concurrency: str = "concurrency"
    num_threads: str = "num_threads"
    threads: str = "build(num_threads={number})"
    processes: str = (
        "run {stage} in processes: pipe({stage}, executor=ProcessPoolExecutor({number}), concurrency={calls})"
    )
    arguments: tuple[tuple[str, Literal["number", "calls"]], ...] = (
        ("max_workers", "number"),
        ("concurrency", "calls"),
    )
    away: str = "run_pipeline_in_subprocess()"
    function: str = "a stage"

    @property
    def has_one_number(self) -> bool:
        """Whether one argument sets both the number of calls and the number of threads."""
        return self.concurrency == self.num_threads


TERMS: Final[Mapping[User, Terms]] = {
    "pipeline": Terms(),
    "loader": Terms(
        concurrency="num_threads",
        threads="num_threads={number}",
        processes="build a pipeline in place of the loader, and run {stage} in processes: "
        "pipe({stage}, executor=ProcessPoolExecutor({number}), concurrency={calls})",
        arguments=(),
        away="iterate_in_subprocess()",
        function="the preprocessor",
    ),
    "torch": Terms(
        concurrency="num_workers",
        num_threads="num_workers",
        threads="num_workers={number}",
        processes="load in processes: workers='process', num_workers={number}",
        arguments=(("num_workers", "number"),),
        away="workers='process'",
        function="collate_fn",
    ),
}

#: If fewer threads than this wait for something other than a CPU on average, the advice adds no threads for them.
_SOME_WAIT = 0.3
#: Maximum factor by which a change is proposed: how a disk behaves beyond that is not known.
_MOST = 4
#: Minimum gain, as a factor, for which a move to other processes is proposed.
_WORTH_IT = 1.1


class Change(NamedTuple):
    advice: str
    rate: float | None
    bound: str | None
    arguments: Mapping[str, int] = {}


def change_for(facts: Facts, cause: Cause, stage: StageFacts | None, terms: Terms) -> Change:
    bounds = bounds_of(facts, terms.num_threads)
    if cause == "consumer":
        bound = lowest(bounds, "consumer")
        advice = "nothing in the pipeline: it is not what limits you"
        at = None if bound is None else f"{bound.name}, at {as_rate(bound.rate, facts.unit)}"
        return Change(advice, facts.rate, at)
    if cause == "gil":
        return _without_gil(facts, stage, terms)
    assert stage is not None
    if cause == "oversubscribed":
        waiting = max(0, ceil(sum(each.waiting for each in facts.pool) - _SOME_WAIT))
        number = max(1, ceil(facts.cpus)) + waiting
        if stage.num_workers > ceil(facts.cpus):
            return _with_fewer_workers(facts, stage, lowest(bounds, "pool", stage.name))
        why = "one thread for each CPU" + (f" and {waiting} for calls that wait" if waiting else "")
        advice = f"{terms.threads.format(number=number)}, {why}: {stage.name} needs CPU time, not more threads"
        return Change(advice, facts.rate, _name(lowest(bounds, "pool", stage.name)), {terms.num_threads: number})
    if cause in ("cpu", "memory"):
        advice = f"make {stage.name} cheaper, or use more CPUs or machines: no argument gives more CPU time"
        if cause == "memory":
            whose = "" if terms.has_one_number else f" of {stage.name}"
            advice = f"lower the {terms.concurrency}{whose}: calls of {stage.name} slow each other down"
        return Change(advice, facts.rate, _name(lowest(bounds, "cpu", "pool", stage.name)))
    if cause == "source":
        bound = lowest(bounds, stage.name)
        advice = (
            f"make the source cheaper: let it emit positions or paths, and read in {terms.function}, which can run "
            "several calls at once"
        )
        return Change(advice, _rate_at(facts, bound), _name(bound))
    return _with_more_calls(facts, stage, bounds, terms)


def _with_more_calls(facts: Facts, stage: StageFacts, bounds: list[Bound], terms: Terms) -> Change:
    """Raise the number of calls at once as far as the next bound allows."""
    lacks_threads = facts.lacks_threads(stage)
    own = lowest([bound for bound in bounds if bound.kind == stage.name])
    others = lowest(bounds, stage.name, "pool")
    ceiling = facts.rate * _MOST
    if lacks_threads and own is not None:  # its own limit stays
        ceiling = min(ceiling, own.rate)
        others = min((bound for bound in (own, others) if bound is not None), key=lambda bound: bound.rate)
    target = min(ceiling, others.rate) if others is not None else ceiling
    growth = max(1.0, target / facts.rate) if facts.rate > 0 else 1.0
    if stage.num_workers:
        return _with_more_workers(facts, stage, growth, others)
    if stage.runs_on == "region":
        advice = f"more workers for {stage.name}, {growth:.2g} times as many: resize(), or a larger number in to()"
        return Change(advice, facts.rate * growth, _name(others) if target < ceiling else None)
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
    return Change(", ".join(words), predicted, _name(others) if is_bounded else None, arguments)


def _with_more_workers(facts: Facts, stage: StageFacts, growth: float, others: Bound | None) -> Change:
    """Raise the number of workers of an executor or region; if they compute, up to one for each CPU."""
    now = stage.num_workers
    load = min(stage.own_load, float(now)) if stage.runs_on != "region" else float(now)
    number = max(now if stage.concurrency < now and stage.runs_on != "region" else now + 1, ceil(load * growth - 0.05))
    if facts.computes(stage):
        number = max(now, min(number, ceil(facts.cpus)))
    arguments: dict[str, int] = {}
    if stage.runs_on == "region":
        words = [f"{number} workers for {stage.name} (now {now}): resize({number}), or that number in to()"]
        gain = number / now
    else:
        gain = min(growth, number / max(load, 1e-9))
        # A process is idle until its next call arrives, so one call is queued for each call that runs.
        calls = max(stage.concurrency, 2 * number if stage.is_away else number)
        words = []
        if number > now:
            arguments["max_workers"] = number
            words.append(f"{number} workers in the executor of {stage.name} (now {now})")
        if calls > stage.concurrency:
            arguments["concurrency"] = calls
            words.append(f"concurrency={calls} (now {stage.concurrency}) for {stage.name}")
    if not words or (stage.runs_on == "region" and number == now):
        return Change(
            f"make {stage.name} cheaper: its {now} workers are as many as the CPUs", facts.rate, _name(others)
        )
    predicted = facts.rate * max(1.0, min(growth, gain))
    is_bounded = others is not None and others.rate <= predicted * 1.05
    return Change(", and ".join(words), predicted, _name(others) if is_bounded else None, arguments)


def _with_fewer_workers(facts: Facts, stage: StageFacts, bound: Bound | None) -> Change:
    """One worker of an executor or region for each CPU."""
    number, now = max(1, ceil(facts.cpus)), stage.num_workers
    is_region = stage.runs_on == "region"
    whose = f"for {stage.name}" if is_region else f"in the executor of {stage.name}"
    why = f"one for each CPU: {stage.name} needs CPU time, not more workers"
    advice = f"{number} workers {whose} (now {now}), {why}"
    return Change(advice, facts.rate, _name(bound), {} if is_region else {"max_workers": number})


def _without_gil(facts: Facts, stage: StageFacts | None, terms: Terms) -> Change:
    """Move the stage that holds the GIL to other processes."""
    if stage is None:
        advice = (
            f"{terms.away}: Python code outside of the pipeline, such as the training loop, holds the GIL, and the "
            "pipeline waits for it"
        )
        bound = lowest(bounds_of(facts, terms.num_threads), "gil")
        return Change(advice, _rate_at(facts, bound), _name(bound))
    bounds = bounds_of(facts, terms.num_threads, without_gil=stage)
    number = max(2, ceil(facts.cpus))
    bounds = [bound for bound in bounds if bound.kind != stage.name]
    if stage.own_load > 0:
        bounds.append(Bound(stage.name, f"{stage.name}, {number} processes", facts.rate * number / stage.own_load))
    bound = lowest(bounds)
    predicted = _rate_at(facts, bound)
    native = f"call native code in {stage.name} that releases the GIL"
    if stage.runs_on == "source":
        advice = f"do less in the source: let it emit positions or paths, and do the work in {terms.function}"
        return Change(advice, predicted, _name(bound))
    if predicted < _WORTH_IT * facts.rate and not facts.is_loaded:
        advice = f"{native}, or give it more at once: its calls are too short for other processes"
        return Change(advice, facts.rate, _name(bound))
    # A process is idle until its next call arrives, so one call is queued for each call that runs.
    numbers = {"number": number, "calls": 2 * number}
    advice = f"{terms.processes.format(stage=stage.name, **numbers)}; or {native}"
    arguments = {name: numbers[which] for name, which in terms.arguments}
    return Change(advice, predicted, _name(bound), arguments)


def _rate_at(facts: Facts, bound: Bound | None) -> float:
    return facts.rate if bound is None else max(facts.rate, bound.rate)


def _name(bound: Bound | None) -> str | None:
    return None if bound is None else bound.name


#: Shares below this are too small to derive a rate from.
_LEAST = 0.01

#: What a call in a process pool costs beside its work, in seconds: CPU time in all processes, and the part of it that
#: holds the GIL of this one. Measured with ``ProcessPoolExecutor`` and small items.
_CROSSING_CPU = 300e-6
_CROSSING_GIL = 200e-6


class Bound(NamedTuple):
    """A resource, and the rate that it allows."""

    kind: str  #: ``"consumer"``, ``"cpu"``, ``"gil"``, ``"pool"``, or the name of a stage
    name: str  #: for the text of the verdict
    rate: float


def bounds_of(facts: Facts, threads: str = "num_threads", without_gil: StageFacts | None = None) -> list[Bound]:
    """Return all bounds. ``without_gil``: a stage that would no longer need the GIL."""
    rate = facts.rate
    calls = without_gil.num_calls / facts.seconds if without_gil is not None and facts.seconds > 0 else 0.0
    cpus_used = facts.cpus_used + calls * _CROSSING_CPU
    found = [
        Bound("consumer", "the consumer", _over(rate, 1.0 - facts.wait)),
        Bound("cpu", _cpus(facts), _over(rate, cpus_used / (facts.cpus_left if facts.is_loaded else facts.cpus))),
    ]
    if facts.has_gil and facts.gil_held is not None:
        held = facts.gil_held
        if without_gil is not None:
            held += calls * _CROSSING_GIL - without_gil.held
        found.append(Bound("gil", "the GIL", _over(rate, held)))
    for stage in facts.stages:
        if stage.runs_on == "region":  # how many calls its workers can run at once is not known
            continue
        what = "the source" if stage.runs_on == "source" else f"{stage.name}, {stage.limit} at once"
        found.append(Bound(stage.name, what, _over(rate, stage.own_load / stage.limit)))
    pool = sum(stage.own_load for stage in facts.pool if stage is not without_gil)
    found.append(Bound("pool", f"{threads}, {facts.num_threads}", _over(rate, pool / max(1, facts.num_threads))))
    return found


def lowest(bounds: list[Bound], *without: str) -> Bound | None:
    """Return the lowest bound except those of the kinds ``without``; ``None`` if there is none."""
    candidates = [bound for bound in bounds if bound.kind not in without and bound.rate < inf]
    return min(candidates, key=lambda bound: bound.rate, default=None)


def _over(rate: float, share: float) -> float:
    return rate / share if share > _LEAST else inf


def _cpus(facts: Facts) -> str:
    if facts.is_loaded:
        return f"CPU, of which other processes use {facts.cpus_outside:.1f} of {facts.machine_cpus}"
    return f"CPU, {f'{facts.cpus:.1f}'.removesuffix('.0')} of {facts.machine_cpus}"
