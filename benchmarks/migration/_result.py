"""Access to a stored result. The tables, the figures and the plots are made from it alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from ._cases import BATCHES, WORKERS, Cell

#: The values of each turn, computed from a worker's answer.
MEASURES = {
    "rate": lambda turn: turn["images"] / turn["wall"],
    "first": lambda turn: turn["first"],
    "cpu": lambda turn: 1000 * turn["cpu"] / turn["images"],
}
#: Memory: with the shared memory that waits, and without; see ``Watcher``.
PEAKS = {"memory": "peak", "pss": "pss_peak"}


@dataclass(frozen=True, slots=True)
class Result:
    """The contents of the file.

    Attributes:
        stored: The parsed JSON.
    """

    stored: Mapping[str, Any]

    @property
    def environment(self) -> Mapping[str, Any]:
        environment: Mapping[str, Any] = self.stored["environment"]
        return environment

    @property
    def cells(self) -> list[Cell]:
        return [Cell(each["batch"], each["workers"]) for each in self.stored["cells"]]

    @property
    def peers(self) -> list[str]:
        return list(self.stored["peers"])

    def values(self, measure: str, cell: Cell, peer: str) -> list[float]:
        """Of each turn: ``rate`` in images/s, ``first`` in seconds, ``cpu`` in seconds for 1000 images; or no value."""
        turns = self._of(cell).get("turns", {}).get(peer, [])
        return [MEASURES[measure](turn) for turn in turns]

    def value(self, measure: str, cell: Cell, peer: str) -> float | None:
        """The median of ``values``; ``memory`` and ``pss``, in bytes, are the peaks of the only turn there is."""
        if measure in PEAKS:
            memory = self._of(cell).get("memory", {}).get(peer)
            return float(memory[PEAKS[measure]]) if memory else None
        values = self.values(measure, cell, peer)
        return median(values) if values else None

    def best(self, peer: str) -> tuple[float, Cell] | None:
        """The highest median of throughput, in images/s, and the cell, of those with batches."""
        rates = [(rate, cell) for cell in self.cells if cell.batch and (rate := self.value("rate", cell, peer))]
        return max(rates) if rates else None

    def epochs(self, dataset: str, mode: str) -> list[float]:
        """Seconds of each epoch by ``workers=mode``."""
        taken = self.stored.get("auto", {}).get(dataset, {}).get(mode, [])
        return [epoch["wall"] for epoch in taken]

    def choices(self, dataset: str) -> list[str]:
        """The log line of ``workers="auto"`` in each round."""
        return [epoch["choice"] for epoch in self.stored.get("auto", {}).get(dataset, {}).get("auto", [])]

    def _of(self, cell: Cell) -> Mapping[str, Any]:
        for each in self.stored["cells"]:
            if (each["batch"], each["workers"]) == (cell.batch, cell.workers):
                found: Mapping[str, Any] = each
                return found
        return {}


def with_batches(workers: int) -> list[Cell]:
    """The cells with that number of workers."""
    return [Cell(batch, workers) for batch in BATCHES]


def by_workers(batch: int) -> list[Cell]:
    """The cells of batches of one size."""
    return [Cell(batch, workers) for workers in WORKERS]
