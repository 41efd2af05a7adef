"""The cases, the two interpreters, the tables and the bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._contest.columns import Spread
from benchmarks._contest.contest import Case, Contest, Peer, Required
from benchmarks._contest.environments import Environment
from benchmarks._contest.figures import NOTHING, Figure, short
from benchmarks._contest.photos import make_photos
from benchmarks._contest.required import AtMost, figure_of
from benchmarks._contest.result import Result
from benchmarks.free_threading._cases import free_threaded_python

from ._model import Costs

__all__ = ["CONTEST", "FREE", "GIL", "costs_of", "make_cases"]

GIL, FREE = "gil", "free"


def costs_of(result: Result, case: str, peer: str) -> Costs | None:
    """The medians; ``None`` if the case was not measured."""
    cpu, gil, lock = (result.median(case, peer, f"{name}_us") for name in ("cpu", "gil", "lock"))
    return None if cpu is None or gil is None or lock is None else Costs(cpu, gil, lock)


@dataclass(frozen=True, slots=True)
class Saturated:
    """The number of cores at which the GIL, or without one the engine's lock, is held all the time."""

    title: str
    has_gil: bool

    def cell(self, result: Result, case: str, peer: str) -> str:
        costs = costs_of(result, case, peer)
        if costs is None or not (costs.gil if self.has_gil else costs.lock):
            return NOTHING
        return short(costs.cores(has_gil=self.has_gil))


@dataclass(frozen=True, slots=True)
class Agrees:
    """The requirement that two cores gain as much over one as the model says."""

    case: str
    at_least: float

    def cases(self) -> Sequence[str]:
        return (self.case,)

    def measured(self, result: Result) -> Figure:
        title = f"{self.case}: gain of a second core, measured / by the model"
        costs = costs_of(result, self.case, GIL)
        one, two = (result.values(self.case, GIL, name) for name in ("one_us", "two_us"))
        if costs is None:
            return figure_of(title, None, (), "x", at_least=self.at_least)
        model = costs.rate(2) / costs.rate(1)
        gains = [each / other / model for each, other in zip(one, two, strict=True)]
        return figure_of(title, median(gains), gains, "x", at_least=self.at_least)


_COLUMNS = (
    Spread("CPU", "cpu_us"),
    Spread("GIL held", "gil_us"),
    Spread("engine's lock held", "lock_us"),
    Saturated("cores that use up the GIL", has_gil=True),
    Saturated("cores that use up the lock", has_gil=False),
    Spread("wall, 1 core", "one_us"),
    Spread("wall, 2 cores", "two_us"),
)


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    num_photos, num_items = (8, 2_000) if is_quick else (128, 20_000)

    def photos() -> dict[str, Any]:
        return {"paths": make_photos("web", num_photos), "num_items": 128 if is_quick else 2048}

    return [
        Case("items", "three no-op stages, an item", {"paths": [], "num_items": num_items}, columns=_COLUMNS),
        Case("images", "a call for each photograph, a photograph", photos, columns=_COLUMNS),
        Case("batches", "a call for 32 photographs, a photograph", photos, columns=_COLUMNS),
        Case("batches-128", "a call for 128 photographs, a photograph", photos, columns=_COLUMNS),
    ]


REQUIRED: tuple[Required, ...] = (
    AtMost("items: GIL held, three stages", ("items", GIL, "gil_us"), 15),
    AtMost("batches of 32: GIL held, a photograph", ("batches", GIL, "gil_us"), 6),
    AtMost("batches of 128: GIL held, a photograph", ("batches-128", GIL, "gil_us"), 6),
    Agrees("items", 0.8),
    Agrees("images", 0.8),
    Agrees("batches", 0.8),
    Agrees("batches-128", 0.8),
)

_ADAPTER = "benchmarks.scaling._work"
_free = free_threaded_python()

CONTEST = Contest(
    name="scaling",
    question="How many cores can one pipeline use?",
    ours=GIL,
    unit="an item",
    peers=[
        Peer(GIL, _ADAPTER),
        *([] if _free is None else [Peer(FREE, _ADAPTER, Environment("free-threaded", python=_free))]),
    ],
    make_cases=make_cases,
    required=REQUIRED,
    sessions="benchmarks.scaling._session",
    rounds=7,
)
