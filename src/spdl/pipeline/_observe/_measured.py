"""Measurements beside the counters: CPU times, and samples of what the threads of each stage were doing.

Plain records; ``_sampling.py`` fills them, ``_facts.py`` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

R = TypeVar("R", "StageSamples", "Measured")


@dataclass(frozen=True, slots=True)
class StageSamples:
    """Numbers of observations of a thread inside a call of one stage, by what it was doing."""

    num: int = 0  #: all of them
    running: int = 0  #: on a CPU or waiting for one
    gil: int = 0  #: waiting for the GIL
    lock: int = 0  #: waiting for another lock
    io: int = 0  #: in another system call, asleep, or waiting for memory
    held: int = 0  #: holding the GIL
    cpu: float = 0.0  #: CPU seconds of the threads that belong to this stage alone
    num_alone: int = 0  #: measured calls that ran while no other call of the stage did
    cpu_alone: float = 0.0  #: their CPU seconds
    num_beside: int = 0  #: measured calls that ran beside others of the stage
    cpu_beside: float = 0.0

    def __sub__(self, earlier: StageSamples) -> StageSamples:
        return _difference(self, earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Everything measured since it began. All times are in seconds."""

    seconds: float  #: time that the CPU times cover
    own_cpu: float  #: CPU time of this process and its children
    machine_cpu: float | None  #: of all processes; ``None``: unknown
    cpu_limit: float  #: CPU seconds per second that this process may use
    machine_cpus: int
    num_periods: int = 0  #: periods of a quota of CPU time; 0: there is none, or they are unknown
    num_throttled: int = 0  #: of these, periods in which the quota was used up
    num_looks: int = 0  #: how often all threads were sampled; 0: they were not
    gil_held: int = 0  #: samples in which the GIL was held
    gil_elsewhere: int = 0  #: of these, by a thread that works for no stage
    pool_cpu: float = 0.0  #: CPU time of the threads that serve several stages
    has_gil: bool = True
    knows_gil: bool = False  #: whether threads that wait for the GIL can be distinguished from others
    knows_holder: bool = False
    stages: tuple[StageSamples, ...] = ()
    loop: StageSamples = StageSamples()

    def __sub__(self, earlier: Measured) -> Measured:
        """Return what was measured since ``earlier``, for the counters of the same interval."""
        stages = tuple(b - a for b, a in zip(self.stages, earlier.stages, strict=True))
        return replace(_difference(self, earlier), stages=stages, loop=self.loop - earlier.loop)


#: Sums; all other fields are momentary values.
_SUMS = {"num", "running", "gil", "lock", "io", "held", "cpu", "seconds", "own_cpu", "machine_cpu", "num_looks"}
_SUMS |= {"gil_held", "gil_elsewhere", "pool_cpu", "num_alone", "cpu_alone", "num_beside", "cpu_beside"}
_SUMS |= {"num_periods", "num_throttled"}


def _difference(later: R, earlier: R) -> R:
    changes: dict[str, Any] = {}
    for each in fields(later):
        b, a = getattr(later, each.name), getattr(earlier, each.name)
        if each.name in _SUMS:
            changes[each.name] = None if a is None or b is None else b - a
    return replace(later, **changes)
