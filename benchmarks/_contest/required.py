"""Requirements on costs and on their ratios."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from .columns import round_ratios
from .figures import Figure
from .result import Result

__all__ = ["AtMost", "Cost", "Ratio", "figure_of"]

#: A case, a peer, and the name of a measurement; without the name it is ``wall_us``.
Cost = tuple[str, str] | tuple[str, str, str]


def values_of(result: Result, cost: Cost) -> list[float]:
    return result.values(cost[0], cost[1], cost[2] if len(cost) == 3 else "wall_us")


@dataclass(frozen=True, slots=True)
class Ratio:
    """A requirement on the cost ``of`` over the cost ``over``.

    Attributes:
        at_least: The minimum; ``None`` if there is none.
        at_most: The maximum; ``None`` if there is none.
        of_rounds: Whether the median of the ratios of all rounds is compared, instead of the ratio of the medians.
    """

    title: str
    of: Cost
    over: Cost
    at_least: float | None = None
    at_most: float | None = None
    of_rounds: bool = False

    def cases(self) -> Sequence[str]:
        return self.of[0], self.over[0]

    def measured(self, result: Result) -> Figure:
        of, over = values_of(result, self.of), values_of(result, self.over)
        ratios = round_ratios(of, over)
        ratio = None
        if ratios:
            ratio = median(ratios) if self.of_rounds else median(of) / median(over)
        return figure_of(self.title, ratio, ratios, "x", self.at_least, self.at_most)


@dataclass(frozen=True, slots=True)
class AtMost:
    """A requirement on a cost, minus that of ``floor`` if there is one."""

    title: str
    of: Cost
    at_most: float
    floor: Cost | None = None
    unit: str = " µs"

    def cases(self) -> Sequence[str]:
        return (self.of[0],) if self.floor is None else (self.of[0], self.floor[0])

    def measured(self, result: Result) -> Figure:
        costs = values_of(result, self.of)
        floors = [0.0] * len(costs) if self.floor is None else values_of(result, self.floor)
        if not costs or not floors:
            return figure_of(self.title, None, (), self.unit, at_most=self.at_most)
        rounds = [each - floor for each, floor in zip(costs, floors, strict=True)]
        return figure_of(self.title, median(costs) - median(floors), rounds, self.unit, at_most=self.at_most)


def figure_of(
    title: str,
    measured: float | None,
    rounds: Sequence[float],
    unit: str,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """A measurement compared with one limit."""
    limit = f">= {at_least:g}" if at_least is not None else f"<= {at_most:g}"
    required = limit if unit == "x" else f"{limit}{unit}"
    spread = (min(rounds), max(rounds)) if rounds else None
    if measured is None:
        return Figure(title, required, None, None, unit, passed=False)
    passed = (at_least is None or measured >= at_least) and (at_most is None or measured <= at_most)
    return Figure(title, required, measured, spread, unit, passed=passed)
