"""A benchmark of cases and peers, described; ``running.run`` carries it out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .environments import CHECKOUT, Environment
from .figures import Figure

__all__ = ["AtMost", "Case", "Contest", "Outputs", "Peer", "Ratio", "Turn", "Turns", "is_same"]

#: The outputs of an adapter for a case, by name, so that two adapters can be compared.
Outputs = Mapping[str, NDArray[Any]]


def is_same(ours: Outputs, theirs: Outputs) -> str | None:
    """A description of the difference; ``None`` if every array has the same name, shape and values."""
    if list(ours) != list(theirs):
        return f"it has {list(theirs)[:5]}…, SPDL has {list(ours)[:5]}…"
    for name, array in ours.items():
        other = theirs[name]
        if array.shape != other.shape or not np.array_equal(array, other):
            return f"{name} is {other.shape} of {other.dtype}, SPDL's {array.shape} of {array.dtype}, or values differ"
    return None


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    Attributes:
        name: The name in ``--cases`` and for adapters.
        title: The name for readers.
        data: Paths and sizes for the adapters, as JSON.
        num_threads: The number of threads that do the work at once, each all of it on its own input. Costs are then
            for the work of one thread: wall time divided by ``num_threads``.
        per: The number of units in a call (members, frames, seconds of audio); costs are per unit.
        differ: A function that describes how an output differs from SPDL's, or returns ``None``.
    """

    name: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict)
    num_threads: int = 1
    per: int = 1
    differ: Callable[[Outputs, Outputs], str | None] = is_same


@dataclass(frozen=True, slots=True)
class Peer:
    """One column of the table.

    Attributes:
        name: The name in ``--peers``.
        adapter: The module that does the work, importable from the repository.
        environment: The environment in which it runs.
    """

    name: str
    adapter: str
    environment: Environment = CHECKOUT


@dataclass(frozen=True, slots=True)
class Turn:
    """Microseconds per unit of a case, one value per round."""

    wall_us: list[float]
    cpu_us: list[float]
    num_calls: int


#: Turns by case and peer.
Turns = Mapping[tuple[str, str], Turn]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A requirement: the cost of ``(case, peer)`` over that of another pair is at least ``at_least``."""

    title: str
    of: tuple[str, str]
    over: tuple[str, str]
    at_least: float

    def measured(self, turns: Turns) -> Figure:
        required = f">= {self.at_least:g}"
        if self.of not in turns or self.over not in turns:
            return Figure(self.title, required, None, None, "x", passed=False)
        of, over = turns[self.of].wall_us, turns[self.over].wall_us
        ratio = median(of) / median(over)
        rounds = [slow / fast for slow, fast in zip(of, over, strict=True)]
        return Figure(self.title, required, ratio, (min(rounds), max(rounds)), "x", passed=ratio >= self.at_least)


@dataclass(frozen=True, slots=True)
class AtMost:
    """A requirement on the cost of ``(case, peer)``, minus that of ``floor`` if there is one, in microseconds."""

    title: str
    of: tuple[str, str]
    at_most_us: float
    floor: tuple[str, str] | None = None

    def measured(self, turns: Turns) -> Figure:
        required = f"<= {self.at_most_us:g} µs"
        if self.of not in turns or (self.floor is not None and self.floor not in turns):
            return Figure(self.title, required, None, None, " µs", passed=False)
        costs = turns[self.of].wall_us
        floors = turns[self.floor].wall_us if self.floor is not None else [0.0] * len(costs)
        cost = median(costs) - median(floors)
        rounds = [each - floor for each, floor in zip(costs, floors, strict=True)]
        return Figure(self.title, required, cost, (min(rounds), max(rounds)), " µs", passed=cost <= self.at_most_us)


@dataclass(frozen=True, slots=True)
class Contest:
    """A benchmark.

    Attributes:
        name: Its folder in ``benchmarks``.
        question: The question that it answers.
        ours: The name of the peer that the others are compared with.
        unit: The unit of a cost, for the head of the table.
        make_cases: A function that makes the inputs in a folder that is kept, and returns the cases. Its argument is
            true if small inputs are enough.
    """

    name: str
    question: str
    ours: str
    unit: str
    peers: Sequence[Peer]
    make_cases: Callable[[Path, bool], Sequence[Case]]
    required: Sequence[Ratio | AtMost] = ()
