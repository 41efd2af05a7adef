"""The rate that each resource allows: the lowest is the pipeline's rate, the second lowest the rate after a change.

Source: Plumber (arXiv 2111.04131), resource-accounted rates. A resource that is in use for a share of the time allows
the present rate divided by that share.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from spdl.pipeline._observe._facts import Facts, StageFacts

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
    """Return all bounds.

    Args:
        facts: The pipeline.
        threads: Name of the argument for the number of threads.
        without_gil: A stage that would no longer need the GIL.
    """
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
    return f"CPU, {_number(facts.cpus)} of {facts.machine_cpus}"


def _number(cpus: float) -> str:
    return f"{cpus:.1f}".removesuffix(".0")
