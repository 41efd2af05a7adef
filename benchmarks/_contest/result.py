"""The result of a run, as it is stored. Tables and figures are made from it alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

__all__ = ["Result", "add_turn"]


@dataclass(frozen=True, slots=True)
class Result:
    """The contents of a result file.

    Each case has ``costs``: by peer, the lists of single values of all rounds by name, and the numbers that were
    measured once, such as the size of a turn.

    Attributes:
        stored: The parsed JSON.
    """

    stored: Mapping[str, Any]

    @property
    def environment(self) -> Mapping[str, Any]:
        environment: Mapping[str, Any] = self.stored["environment"]
        return environment

    @property
    def cases(self) -> list[str]:
        """The names of the cases, in the order of the run."""
        return [case["name"] for case in self.stored["cases"]]

    @property
    def peers(self) -> list[str]:
        """The names of the peers that ran."""
        return list(self.stored["peers"])

    def case(self, name: str) -> Mapping[str, Any]:
        """What is stored of a case; nothing if it was not measured."""
        for case in self.stored["cases"]:
            if case["name"] == name:
                found: Mapping[str, Any] = case
                return found
        return {}

    def peers_of(self, case: str) -> list[str]:
        """The names of the peers that were measured in a case."""
        return list(self.case(case).get("costs", {}))

    def values(self, case: str, peer: str, name: str) -> list[Any]:
        """The single values of a measurement, in the order of the rounds; empty if there are none."""
        values = self.case(case).get("costs", {}).get(peer, {}).get(name, [])
        return list(values) if isinstance(values, list) else []

    def median(self, case: str, peer: str, name: str) -> float | None:
        values = self.values(case, peer, name)
        return median(values) if values else None

    def once(self, case: str, peer: str, name: str) -> float | None:
        """A number that is measured once; ``None`` if it was not."""
        value: float | None = self.case(case).get("costs", {}).get(peer, {}).get(name)
        return value

    def likeness(self, case: str, peer: str) -> float | None:
        """PSNR in dB; ``None`` if the peer's output was not compared, or had to be equal."""
        likeness: float | None = self.case(case).get("likeness", {}).get(peer)
        return likeness


def add_turn(costs: dict[str, Any], turn: Mapping[str, float | str | Sequence[float]]) -> None:
    """Append the named numbers of a turn to those of earlier ones."""
    for name, value in turn.items():
        several = isinstance(value, Sequence) and not isinstance(value, str)
        costs.setdefault(name, []).extend(value if several else [value])
