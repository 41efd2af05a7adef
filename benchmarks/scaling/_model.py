"""The model: what is held by one thread at a time bounds the rate, however many cores there are."""

from dataclasses import dataclass
from math import inf

__all__ = ["Costs"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds an item.

    Attributes:
        cpu: CPU time of all threads.
        gil: The part of it in which the GIL is held.
        lock: The part of it in which the engine's lock is held; it lies within ``gil`` where there is a GIL.
    """

    cpu: float
    gil: float
    lock: float

    def rate(self, cores: int, *, has_gil: bool = True) -> float:
        """Items a second with so many cores, each doing an equal share of the CPU time."""
        return 1e6 * min(float(cores), self.cores(has_gil=has_gil)) / self.cpu

    def cores(self, *, has_gil: bool = True) -> float:
        """The number of cores at which the GIL, or without one the engine's lock, is held all the time."""
        held = self.gil if has_gil else self.lock
        return self.cpu / held if held else inf
