"""Access to a stored result. The tables, the figures and the plots are made from it alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks._contest import result as _contest

from ._cells import BATCHES, CELLS, LOADERS, WORKERS, Cell

__all__ = ["PEAKS", "Result", "by_workers", "in_todays_format", "with_batches"]

#: The values of each turn, computed from what is stored: the name, and the function of a value.
MEASURES: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "rate": ("wall_us", lambda wall_us: 1e6 / wall_us),
    "first": ("first_s", lambda first_s: first_s),
    "cpu": ("cpu_us", lambda cpu_us: cpu_us / 1e3),
}
#: Memory: with the shared memory that waits, and without; see ``Watcher``.
PEAKS = {"memory": "peak", "pss": "pss_peak"}


@dataclass(frozen=True, slots=True)
class Result:
    """The contents of the file.

    Attributes:
        stored: The parsed JSON, in the format of ``_contest.result``.
    """

    stored: Mapping[str, Any]

    @property
    def cells(self) -> list[Cell]:
        cases = self._costs.cases
        return [cell for cell in CELLS if cell.name in cases or f"{cell.name}-memory" in cases]

    @property
    def peers(self) -> list[str]:
        """The names of the loaders that ran."""
        return [loader.name for loader in LOADERS if loader.name in self._costs.peers]

    def values(self, measure: str, cell: Cell, peer: str) -> list[float]:
        """Of each turn: ``rate`` in images/s, ``first`` in seconds, ``cpu`` in seconds for 1000 images; or no value."""
        name, function = MEASURES[measure]
        return [function(value) for value in self._costs.values(cell.name, peer, name)]

    def value(self, measure: str, cell: Cell, peer: str) -> float | None:
        """The median of ``values``; ``memory`` and ``pss`` are in bytes."""
        if measure in PEAKS:
            return self._costs.median(f"{cell.name}-memory", peer, PEAKS[measure])
        values = self.values(measure, cell, peer)
        return median(values) if values else None

    def best(self, peer: str) -> tuple[float, Cell] | None:
        """The highest median of throughput, in images/s, and the cell, of those with batches."""
        rates = [(rate, cell) for cell in self.cells if cell.batch and (rate := self.value("rate", cell, peer))]
        return max(rates) if rates else None

    def epochs(self, dataset: str, mode: str) -> list[float]:
        """Seconds of each epoch by ``workers=mode``."""
        return self._costs.values(f"auto-{dataset}", mode, "wall_s")

    def choices(self, dataset: str) -> list[str]:
        """The log line of ``workers="auto"`` in each round."""
        return self._costs.values(f"auto-{dataset}", "auto", "choice")

    @property
    def _costs(self) -> _contest.Result:
        return _contest.Result(self.stored)


def in_todays_format(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """A stored result in the format of ``_contest.result``, from that or from the earlier one, which has cells."""
    if "cells" not in stored:
        return stored
    cases: list[dict[str, Any]] = []
    for each in stored["cells"]:
        name = Cell(each["batch"], each["workers"]).name
        cases.append({"name": name, "costs": {peer: _costs_of(turns) for peer, turns in each["turns"].items()}})
        memory = {peer: {key: [value] for key, value in taken.items()} for peer, taken in each["memory"].items()}
        if memory:
            cases.append({"name": f"{name}-memory", "costs": memory})
    for dataset, modes in stored["auto"].items():
        costs = {
            mode: {"wall_s": [each["wall"] for each in epochs], "choice": [each["choice"] for each in epochs]}
            for mode, epochs in modes.items()
        }
        cases.append({"name": f"auto-{dataset}", "costs": costs})
    return {**{name: value for name, value in stored.items() if name not in ("cells", "auto")}, "cases": cases}


def _costs_of(turns: list[Mapping[str, float]]) -> dict[str, list[float]]:
    return {
        "wall_us": [1e6 * turn["wall"] / turn["images"] for turn in turns],
        "cpu_us": [1e6 * turn["cpu"] / turn["images"] for turn in turns],
        "first_s": [turn["first"] for turn in turns],
    }


def with_batches(workers: int) -> list[Cell]:
    """The cells with that number of workers."""
    return [Cell(batch, workers) for batch in BATCHES]


def by_workers(batch: int) -> list[Cell]:
    """The cells of batches of one size."""
    return [Cell(batch, workers) for workers in WORKERS]
