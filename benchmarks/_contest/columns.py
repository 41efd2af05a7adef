"""Columns of a table of measurements: each gives the cell of a peer in a case."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from .figures import NOTHING, short
from .result import Result

__all__ = ["Column", "Likeness", "Median", "Once", "Rate", "RatioTo", "Share", "Spread", "round_ratios", "spread_of"]


class Column(Protocol):
    """A column.

    Attributes:
        title: The head.
    """

    @property
    def title(self) -> str: ...

    def cell(self, result: Result, case: str, peer: str) -> str:
        """The cell; ``NOTHING`` if it was not measured."""


@dataclass(frozen=True, slots=True)
class Spread:
    """``median (minimum to maximum)`` of the values with that name, multiplied by ``scale``."""

    title: str
    name: str
    scale: float = 1.0

    def cell(self, result: Result, case: str, peer: str) -> str:
        return spread_of([self.scale * value for value in result.values(case, peer, self.name)])


@dataclass(frozen=True, slots=True)
class Median:
    """The median of the values with that name, multiplied by ``scale``."""

    title: str
    name: str
    scale: float = 1.0

    def cell(self, result: Result, case: str, peer: str) -> str:
        value = result.median(case, peer, self.name)
        return NOTHING if value is None else short(self.scale * value)


@dataclass(frozen=True, slots=True)
class Once:
    """A number that is measured once, multiplied by ``scale``."""

    title: str
    name: str
    scale: float = 1.0

    def cell(self, result: Result, case: str, peer: str) -> str:
        value = result.once(case, peer, self.name)
        return NOTHING if value is None else short(self.scale * value)


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike the output is to that of the standard, in dB."""

    title: str

    def cell(self, result: Result, case: str, peer: str) -> str:
        likeness = result.likeness(case, peer)
        return NOTHING if likeness is None else f"{likeness:.1f}"


@dataclass(frozen=True, slots=True)
class Rate:
    """``amount`` over the values with that name: with microseconds, units per second."""

    title: str
    name: str = "wall_us"
    amount: float = 1e6

    def cell(self, result: Result, case: str, peer: str) -> str:
        return spread_of([self.amount / value for value in result.values(case, peer, self.name)])


@dataclass(frozen=True, slots=True)
class Share:
    """One value over another one of the same round."""

    title: str
    of: str
    over: str

    def cell(self, result: Result, case: str, peer: str) -> str:
        return spread_of(round_ratios(*(result.values(case, peer, name) for name in (self.of, self.over))))


@dataclass(frozen=True, slots=True)
class RatioTo:
    """A peer's value over that of ``peer`` in the same round."""

    title: str
    peer: str
    name: str = "wall_us"

    def cell(self, result: Result, case: str, peer: str) -> str:
        return spread_of(round_ratios(result.values(case, peer, self.name), result.values(case, self.peer, self.name)))


def round_ratios(of: Sequence[float], over: Sequence[float]) -> list[float]:
    """The ratio of each round; empty if one was not measured."""
    return [one / other for one, other in zip(of, over, strict=False) if other]


def spread_of(values: Sequence[float]) -> str:
    """``median (minimum to maximum)``."""
    return f"{short(median(values))} ({short(min(values))} to {short(max(values))})" if values else NOTHING
